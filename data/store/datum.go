package store

import (
	"cmp"
	"slices"
	"time"

	"conclave"
	"conclave/wire/list"
)

// registration is one registration id under one DataInfoID, with a copy for
// each session that holds it. While a client moves from one session to another
// there are two; otherwise almost always one.
type registration struct {
	id     string
	copies []ownerCopy // in no order; one for each owner
}

// ownerCopy is a registration as one owner session has it.
type ownerCopy struct {
	owner     *ownerSet
	version   int64
	values    []string // shared with readers; never changed
	withdrawn bool     // a tombstone
}

// visible returns the copy that subscribers see: the highest version over all
// owners, or none if that is a tombstone. Neither a clock nor the order of the
// owners matters, because equal versions mean equal content. If they should
// differ, a living copy wins over a tombstone: nothing is removed on weak
// evidence.
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

// of returns the index of an owner's copy, or -1.
func (r *registration) of(o *ownerSet) int {
	return slices.IndexFunc(r.copies, func(c ownerCopy) bool { return c.owner == o })
}

// hides reports whether a tombstone of this version still hides something: a
// lower version of another owner.
func (r *registration) hides(version int64) bool {
	return slices.ContainsFunc(r.copies, func(c ownerCopy) bool { return c.version < version })
}

// datum is everything registered under one DataInfoID. There may be a million
// with one registration each, so each field counts (memory_test.go): what only
// some data have stands elsewhere, marks in Store.marked.
type datum struct {
	id      string
	regs    []*registration // sorted by registration id, which is the order of the values
	version int64           // the slot's counter when the visible content last changed

	read  *content // nil if it was not read, or has changed since then
	noted bool     // the id is in Store.changed
}

// content is what subscribers see of a datum. It is never changed.
type content struct {
	list.List // the values are sorted by registration id

	reads int       // sessions that have begun to read it in parts, and have not finished
	read  time.Time // when the last part was read
}

func (d *datum) find(id string) (int, bool) {
	return slices.BinarySearchFunc(d.regs, id, func(r *registration, id string) int { return cmp.Compare(r.id, id) })
}

// content returns the content, and keeps it for the next reader.
func (d *datum) content() *content {
	if d.read == nil {
		var values []string
		var publishers []uint32
		for _, r := range d.regs {
			if v, ok := r.visible(); ok {
				values = append(values, v...)
				publishers = append(publishers, list.PublisherHash(r.id))
			}
		}
		d.read = &content{List: *list.New(values, publishers, 0)}
	}
	return d.read
}

// withdrawn returns the hashes of the registrations of which only a tombstone is
// left.
func (d *datum) withdrawn() (hashes []uint32) {
	for _, r := range d.regs {
		if _, ok := r.visible(); !ok {
			hashes = append(hashes, list.PublisherHash(r.id))
		}
	}
	return hashes
}

// ownerSet is the digest of one owner's copies: their number, and the sum of
// their hashes. A sum does not depend on order, so it is updated as copies come
// and go, and a slot is compared with a session by one small message.
type ownerSet struct {
	node  conclave.NodeID
	count uint64
	sum   uint64
}

func (o *ownerSet) add(id string, version int64) {
	o.count++
	o.sum += list.EntryHash(id, version)
}

func (o *ownerSet) remove(id string, version int64) {
	o.count--
	o.sum -= list.EntryHash(id, version)
}
