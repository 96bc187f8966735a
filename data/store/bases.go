package store

import (
	"slices"
	"time"

	"conclave/wire/list"
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
	if d.read == nil || d.read.Size() < list.DeltaFrom {
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
	at := slices.IndexFunc(b[d.id], func(x *base) bool { return x.Hash() == hash })
	if at < 0 {
		return nil
	}
	from := b[d.id][at]
	if now := d.content(); from.to != now {
		from.to, from.delta = now, from.DeltaTo(&now.List)
	}
	return from.delta
}

// reading returns the content of which a session asks for a further part, and the last
// version that it had; nil if it is not kept any more.
func (b bases) reading(d *datum, want *wirev1.Want) (c *content, version int64) {
	if want.GetPartHash() == 0 {
		return nil, 0
	}
	if d.read != nil && d.read.Wanted(want) {
		return d.read, d.version
	}
	for _, x := range b[d.id] {
		if x.Wanted(want) {
			return x.content, x.version
		}
	}
	return nil, 0
}

// sendPart puts the part of c that begins at a position into an answer.
func (c *content) sendPart(f *wirev1.Fetched, from list.Position, limit int, now time.Time) {
	if from == (list.Position{}) {
		c.reads++
	}
	var last bool
	if f.Part, _, last = c.Part(f.Datum, from, limit); last {
		c.reads = max(0, c.reads-1)
	}
	c.read = now
}
