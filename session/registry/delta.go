package registry

import (
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// A large list travels as a delta in both directions: from the slot's leader if
// the session has an earlier content, and to each subscriber that was sent one.
// What the registry decides about (the push guard, versions, hashes) is always
// the whole list; a delta is only how it is sent. (ADR 0093.)

// contentKey identifies what a subscriber has.
type contentKey struct {
	version int64
	hash    uint64
}

// deltasKept is from how many earlier contents a datum has deltas for clients that
// read slowly. One that has another content is sent the whole list.
const deltasKept = 8

// since returns the delta from base to d, or nil if the whole list is to be sent.
// It is made once for all subscribers that have that base. The contents of slow
// clients, for whom an earlier push waits, are limited; the others all have the one
// before d.
func (d *datum) since(base *datum, slow bool) *wirev1.Delta {
	if base == nil || d.size < wire.DeltaLeast {
		return nil
	}
	key := contentKey{base.message.Version, base.hash}
	delta, made := d.deltas[key]
	if made || slow && len(d.deltas) >= deltasKept {
		return delta
	}
	if delta = base.list.DeltaTo(d.list); delta != nil {
		delta.DataInfoId, delta.Version, delta.BaseVersion, delta.BaseHash = d.message.DataInfoId, d.message.Version, key.version, key.hash
	}
	if d.deltas == nil {
		d.deltas = map[contentKey]*wirev1.Delta{}
	}
	d.deltas[key] = delta
	return delta
}

// rebuild returns the datum that an answer makes of what is held, or nil if it does
// not fit: then the whole list is to be read.
func (tp *topic) rebuild(f *wirev1.Fetched) *datum {
	delta := f.GetDelta()
	if tp.held == nil || tp.held.hash != delta.GetBaseHash() {
		return nil
	}
	list, err := tp.held.list.Apply(delta)
	if err != nil {
		return nil
	}
	d := newDatum(&wirev1.Datum{DataInfoId: tp.key, Version: f.GetDatum().GetVersion(), Values: list.Values, Publishers: list.Publishers}, f.GetHash())
	d.list = list
	return d
}

// received records that the subscriber has the content of d, and returns what it
// had before: the base of a delta, or nil if that is not known exactly. Nothing is
// kept for clients that cannot apply deltas.
func (s *subscription) received(d *datum) (base *datum) {
	base, s.sent = s.sent, nil
	if s.to.Deltas && d.size >= wire.DeltaLeast {
		s.sent = d
	}
	return base
}
