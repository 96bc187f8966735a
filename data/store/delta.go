package store

import (
	"slices"
	"time"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// base is the content of a datum as it was read before a change, and the delta
// from it to the present content.
type base struct {
	*content
	version int64         // the last one that the content had
	delta   *wirev1.Delta // nil if it was not made yet, or does not pay
	to      *content      // what the delta yields
	seen    time.Time     // by the first expire after the change; zero before
}

// basesKept is how many earlier contents of a datum are kept, for sessions that
// have one of them. They share the values that have not changed with the copies.
const basesKept = 2

// basesRead is how many more are kept while sessions read them in parts.
const basesRead = 4

// basesFor is how long they are kept, about: sessions read a change soon, and an
// old list that is not wanted any more holds memory.
const basesFor = 10 * time.Second

// bases are earlier contents of large data, by DataInfoID, oldest first.
type bases map[string][]*base

// keep makes the content that d had until now a base, if it is large.
func (b *bases) keep(d *datum) {
	if d.read == nil || d.read.Size() < wire.DeltaLeast {
		return
	}
	if *b == nil {
		*b = bases{}
	}
	kept := append((*b)[d.id], &base{content: d.read, version: d.version})
	for len(kept) > basesKept {
		at := slices.IndexFunc(kept, func(x *base) bool { return x.reads == 0 })
		if at < 0 && len(kept) <= basesKept+basesRead {
			break
		}
		if at < 0 {
			at = len(kept) - 1 // those that are being read already are finished first
		}
		kept = append(kept[:at:at], kept[at+1:]...)
	}
	(*b)[d.id] = slices.Clone(kept) // a new array, so that the others are freed
}

// find returns the content of this hash, nil if it is not kept.
func (b bases) find(id string, hash uint64) *base {
	if at := slices.IndexFunc(b[id], func(x *base) bool { return x.hash == hash }); at >= 0 {
		return b[id][at]
	}
	return nil
}

// expire removes the bases that have been kept for basesFor, unless they were read
// since.
func (b bases) expire(now time.Time) {
	for id, kept := range b {
		for _, x := range kept {
			if x.seen.IsZero() {
				x.seen = now
			}
		}
		if kept = slices.DeleteFunc(kept, func(x *base) bool { return now.Sub(x.seen) >= basesFor && now.Sub(x.read) >= basesFor }); len(kept) == 0 {
			delete(b, id)
		} else {
			b[id] = kept
		}
	}
}

// delta returns the changes from the content of this hash to the present one, or
// nil if that content is not known here or the whole list costs about as much.
func (b bases) delta(d *datum, hash uint64) *wirev1.Delta {
	from := b.find(d.id, hash)
	if from == nil {
		return nil
	}
	if now := d.content(); from.to != now {
		from.to, from.delta = now, from.DeltaTo(&now.List)
		if from.delta != nil {
			from.delta.DataInfoId, from.delta.BaseHash = d.id, hash
		}
	}
	return from.delta
}
