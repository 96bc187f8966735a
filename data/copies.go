package data

import (
	"cmp"
	"slices"
	"time"

	"conclave"
	"conclave/wire"
)

// A registration is one registration id under one DataInfoID, with a copy of it
// for every session that claims to hold it. While a client moves from one
// session to another there are two; there is almost always one.
type registration struct {
	id     string
	copies []held // in no order; one for each owner
}

// held is a registration as one owner session has it.
type held struct {
	owner     *ownerSet
	version   int64
	values    []string // shared with whoever reads; never changed
	withdrawn bool     // a tombstone
}

// visible is the copy that subscribers see: the highest version over all
// owners, or none if that is a tombstone. No clock and no order of owners takes
// part: equal versions mean equal content. (Should they not, the living copy is
// believed: nothing is ever removed on weak evidence.)
func (r *registration) visible() (values []string, ok bool) {
	best := -1
	for i := range r.copies {
		c := &r.copies[i]
		if best < 0 || c.version > r.copies[best].version ||
			c.version == r.copies[best].version && r.copies[best].withdrawn {
			best = i
		}
	}
	if best < 0 || r.copies[best].withdrawn {
		return nil, false
	}
	return r.copies[best].values, true
}

// of is the index of an owner's copy, or -1.
func (r *registration) of(o *ownerSet) int {
	return slices.IndexFunc(r.copies, func(c held) bool { return c.owner == o })
}

// hides says that a tombstone at this version still has something to hide: a
// lower version of another owner.
func (r *registration) hides(version int64) bool {
	return slices.ContainsFunc(r.copies, func(c held) bool { return c.version < version })
}

// datum is everything registered under one DataInfoID.
type datum struct {
	id      string
	regs    []*registration // sorted by registration id, which is the order of the values
	version int64           // the slot's counter when the visible content last changed

	// The marks for the sessions' push guard (package session): the version of the last
	// removal that nobody confirmed, and until when it counts.
	unexplained int64
	until       time.Time

	// The content as it was last read; nil hash: it has changed since.
	values []string
	hash   uint64

	noted bool // the id stands in Store.changed
}

func (d *datum) find(id string) (int, bool) {
	return slices.BinarySearchFunc(d.regs, id, func(r *registration, id string) int { return cmp.Compare(r.id, id) })
}

// content lists the visible values, sorted by registration id, and their hash.
func (d *datum) content() ([]string, uint64) {
	if d.hash == 0 {
		d.values = nil
		for _, r := range d.regs {
			if v, ok := r.visible(); ok {
				d.values = append(d.values, v...)
			}
		}
		d.hash = wire.ContentHash(d.values)
	}
	return d.values, d.hash
}

// ownerSet is the digest of what one owner session has here: how many copies,
// and the sum of their hashes. A sum needs no order, so it is kept up as copies
// come and go, and comparing a slot with a session costs one small message.
type ownerSet struct {
	node  conclave.NodeID
	count uint64
	sum   uint64
}

func (o *ownerSet) add(id string, version int64) {
	o.count++
	o.sum += wire.EntryHash(id, version)
}

func (o *ownerSet) take(id string, version int64) {
	o.count--
	o.sum -= wire.EntryHash(id, version)
}
