package store

import (
	"slices"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// base is the content of a datum as it was read before a change, and the delta
// from it to the present content.
type base struct {
	*content
	delta *wirev1.Delta // nil if it was not made yet, or does not pay
	to    *content      // what the delta yields
}

// basesKept is how many earlier contents of a datum are kept, for sessions that
// have one of them. They share the values that have not changed with the copies.
const basesKept = 2

// keep makes the content that d had until now a base, if it is large.
func (s *Store) keep(d *datum) {
	if d.read == nil || d.read.Size() < wire.DeltaLeast {
		return
	}
	if s.bases == nil {
		s.bases = map[string][]*base{}
	}
	kept := append(s.bases[d.id], &base{content: d.read})
	s.bases[d.id] = slices.Clone(kept[max(0, len(kept)-basesKept):]) // a new array, so that the others are freed
}

// Shorten replaces the content of an answer of Read by a delta, if the session
// has the content of this hash, it is known here, and a delta is much smaller.
// (The original sends whole lists; the deltas are those of xDS, by value instead
// of by resource name.)
func (s *Store) Shorten(f *wirev1.Fetched, hash uint64) {
	id := f.GetDatum().GetDataInfoId()
	d := s.data[id]
	if d == nil || f.GetSame() || hash == 0 {
		return
	}
	for _, b := range s.bases[id] {
		if b.hash != hash {
			continue
		}
		if now := d.content(); b.to != now {
			b.to, b.delta = now, b.DeltaTo(&now.List)
			if b.delta != nil {
				b.delta.DataInfoId, b.delta.BaseHash = id, hash
			}
		}
		if b.delta != nil {
			f.Delta, f.Datum.Values, f.Datum.Publishers = b.delta, nil, nil
			return
		}
	}
}
