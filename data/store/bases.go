package store

import (
	"maps"
	"slices"
	"time"

	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// base is the content of a datum as it was read before a change, and the delta
// from it to the present content.
type base struct {
	*content
	version int64           // the last one that the content had
	changed map[string]bool // ids of what has changed since, and whether it was seen before; nil: not known
	delta   *wirev1.Delta   // nil if it was not made yet, or does not pay
	to      *content        // what the delta yields
	seen    time.Time       // by the first expire after the change; zero before
}

// basesKept is how many earlier contents of a datum are kept, for sessions that
// have one of them. They share the values that have not changed with the copies.
const basesKept = 2

// basesRead is how many more are kept while sessions read them in parts.
const basesRead = 4

// changesKept is up to how many changes since the last content are tracked: to find more of
// them costs about as much as to compare the contents.
const changesKept = 16

// tombstonesPassed is how many registrations are passed to find the one that follows a new
// one in the list.
const tombstonesPassed = 64

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
	for _, x := range (*b)[d.id] {
		x.changed, x.to, x.delta = nil, nil, nil
	}
	kept := append((*b)[d.id], &base{content: d.read, version: d.version, changed: map[string]bool{}})
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

// note records that a registration changes, and whether it was seen.
func (b bases) note(d *datum, id string, had bool) {
	kept := b[d.id]
	if len(kept) == 0 || kept[len(kept)-1].changed == nil {
		return
	}
	last := kept[len(kept)-1]
	if _, again := last.changed[id]; !again {
		last.changed[id] = had
	}
	if len(last.changed) > changesKept {
		last.changed = nil
	}
}

// content returns the content of a datum, and keeps it for the next reader. That of a
// large one is made of the one before, or at least compared with it, so that only what has
// changed is hashed.
func (b bases) content(d *datum) *content {
	if d.read != nil {
		return d.read
	}
	var last *base
	if kept := b[d.id]; len(kept) > 0 {
		last = kept[len(kept)-1]
		if values, publishers, ok := d.editsOf(last); ok {
			if next, delta, err := last.Edit(values, publishers); err == nil {
				d.read = &content{List: *next, single: true}
				last.to, last.delta = d.read, delta
				return d.read
			}
		}
	}
	values, publishers, single := make([]string, 0, len(d.regs)), make([]uint32, 0, len(d.regs)), true
	for _, r := range d.regs {
		if v, ok := r.visible(); ok {
			values, publishers, single = append(values, v...), append(publishers, r.hash), single && len(v) == 1
		}
	}
	if last != nil {
		next, delta := last.Next(values, publishers)
		d.read = &content{List: *next, single: single}
		last.to, last.delta = d.read, delta
	} else {
		d.read = &content{List: *list.New(values, publishers, 0), single: single}
	}
	return d.read
}

// editsOf returns the edits that make the present content of the last one. ok is false if
// it is not known what has changed, or a registration has another number of values than
// one, or cannot be found in the last content: by its hash, for its place there is not that
// in regs, which have tombstones.
func (d *datum) editsOf(last *base) (values []*wirev1.ValueEdit, publishers []*wirev1.PublisherEdit, ok bool) {
	if !last.single || last.changed == nil {
		return nil, nil, false
	}
	for _, id := range slices.Sorted(maps.Keys(last.changed)) {
		had, seen := last.changed[id], false
		var now []string
		i, found := d.find(id)
		if found {
			now, seen = d.regs[i].visible()
		}
		if !had && !seen {
			continue
		}
		hash := list.PublisherHash(id)
		at, once := last.place(hash)
		if !had {
			at, once = last.before(d.regs[i+1:])
		}
		if !once || seen && len(now) != 1 {
			return nil, nil, false
		}
		v, p := &wirev1.ValueEdit{At: uint32(at), Insert: now}, &wirev1.PublisherEdit{At: uint32(at)}
		if had {
			v.Remove, p.Remove = 1, 1
		}
		if seen {
			p.Insert = []uint32{hash}
		}
		if values = append(values, v); had != seen {
			publishers = append(publishers, p)
		}
	}
	return values, publishers, true
}

// before returns the index of the first of these registrations that was seen, or that of the
// end if none was. found is false if it is too far behind, or several have its hash.
func (b *base) before(regs []*registration) (at int, found bool) {
	near := regs[:min(len(regs), tombstonesPassed)]
	if next := slices.IndexFunc(near, b.saw); next >= 0 {
		return b.place(near[next].hash)
	}
	return len(b.Publishers), len(near) == len(regs)
}

// saw reports whether subscribers saw something of a registration, which is still there.
func (b *base) saw(r *registration) bool {
	if had, changed := b.changed[r.id]; changed {
		return had
	}
	_, had := r.visible()
	return had
}

// place returns the index of the publisher with a hash, and whether there is just one.
func (b *base) place(hash uint32) (at int, once bool) {
	at = slices.Index(b.Publishers, hash)
	return at, at >= 0 && !slices.Contains(b.Publishers[at+1:], hash)
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
	if now := b.content(d); from.to != now {
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
