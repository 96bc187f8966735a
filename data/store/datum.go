package store

import (
	"cmp"
	"slices"
	"time"

	"conclave"
	"conclave/wire"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// registration is one registration id under one DataInfoID, with a copy for
// each session that holds it. While a client moves from one session to another
// there are two; otherwise almost always one.
type registration struct {
	id     string
	copies []ownerCopy  // in no order; one for each owner
	only   [1]ownerCopy // of copies while there is one
	hash   uint32       // list.PublisherHash of the id
}

func newRegistration(id string) *registration {
	r := &registration{id: id, hash: list.PublisherHash(id)}
	r.copies = r.only[:0]
	return r
}

// add adds an empty copy and returns its index.
func (r *registration) add() int {
	r.copies = append(r.copies, ownerCopy{})
	if len(r.copies) == 2 {
		r.only[0] = ownerCopy{} // which has moved
	}
	return len(r.copies) - 1
}

func (r *registration) remove(at int) {
	r.copies = slices.Delete(r.copies, at, at+1)
	if len(r.copies) == 1 {
		r.only[0] = r.copies[0]
		r.copies = r.only[:]
	}
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

// isWithdrawn reports whether the highest version is a session's tombstone. One of
// noOwner shows only that the client left a session: it may have taken the registration
// to another one.
func (r *registration) isWithdrawn() bool {
	if _, ok := r.visible(); ok {
		return false
	}
	highest := r.highest()
	return slices.ContainsFunc(r.copies, func(c ownerCopy) bool { return c.version == highest && c.owner.node != noOwner })
}

// highest returns the highest version of all copies.
func (r *registration) highest() int64 {
	return slices.MaxFunc(r.copies, func(a, b ownerCopy) int { return cmp.Compare(a.version, b.version) }).version
}

// above returns the version that hides this one, or is seen in spite of a withdrawal, or 0.
func (r *registration) above(version int64, withdrawn bool) int64 {
	highest := r.highest()
	if _, seen := r.visible(); withdrawn && seen || !withdrawn && highest > version {
		return highest
	}
	return 0
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
// some data have stands elsewhere, marks in Store.marked. Each allocation counts as
// well, since the collector visits it: where there is almost always one of something,
// it has none of its own.
type datum struct {
	id      string
	regs    []*registration  // sorted by registration id, which is the order of the values
	only    [1]*registration // of regs until there are two
	version int64            // the slot's counter when the visible content last changed

	read  *content // nil if it was not read, or has changed since then; see bases.keep
	noted bool     // the id is in Store.changed
}

// content is what subscribers see of a datum. It is never changed.
type content struct {
	list.List // the values are sorted by registration id

	single bool      // each registration has one value
	reads  int       // sessions that have begun to read it in parts, and have not finished
	read   time.Time // when the last part was read
}

func newDatum(id string, version int64) *datum {
	d := &datum{id: id, version: version}
	d.regs = d.only[:0]
	return d
}

// insert adds a registration at its index.
func (d *datum) insert(i int, r *registration) {
	d.regs = slices.Insert(d.regs, i, r)
	if len(d.regs) == 2 {
		d.only[0] = nil // which has moved
	}
}

func (d *datum) find(id string) (int, bool) {
	return slices.BinarySearchFunc(d.regs, id, func(r *registration, id string) int { return cmp.Compare(r.id, id) })
}

// withdrawn returns the hashes of the registrations that a client has withdrawn.
func (d *datum) withdrawn() (hashes []uint32) {
	for _, r := range d.regs {
		if r.isWithdrawn() {
			hashes = append(hashes, r.hash)
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

// Key names one copy: a registration as one owner session holds it.
type Key struct {
	Owner    conclave.NodeID
	Data, ID string // the DataInfoID as text, and the registration id
}

// noOwner is the owner of the tombstones that replace deleted copies.
var noOwner conclave.NodeID

// Copy is a registration as one owner holds it, outside of a store. Values are
// shared with the store and its readers, and must not be changed.
type Copy struct {
	Key
	Version   int64
	Values    []string
	Withdrawn bool // a tombstone
}

// CopyOf returns an owner's copy of a registration that was checked by
// wire.CheckPublisher, or that another data node has sent.
func CopyOf(owner conclave.NodeID, p *wirev1.Publisher) Copy {
	return Copy{Key{owner, p.GetDataInfoId(), p.GetId()}, p.GetVersion(), p.GetValues(), p.GetWithdrawn()}
}

// tombstoneRecord is the arrival of a tombstone, so that Compact can find the
// old ones.
type tombstoneRecord struct {
	Key
	version int64
	at      time.Time
}

func copyOf(data string, r *registration, c ownerCopy) Copy {
	return Copy{Key{c.owner.node, data, r.id}, c.version, c.values, c.withdrawn}
}

func compareCopies(a, b Copy) int { return a.Key.Compare(b.Key) }

// Compare orders keys by data, registration id and owner.
func (k Key) Compare(other Key) int {
	if c := cmp.Compare(k.Data, other.Data); c != 0 { // which decides almost always
		return c
	}
	return cmp.Or(cmp.Compare(k.ID, other.ID), k.Owner.Compare(other.Owner))
}

func copyOut(c Copy) *wirev1.Copy {
	return &wirev1.Copy{
		Publisher: &wirev1.Publisher{Id: c.ID, DataInfoId: c.Data, Version: c.Version, Values: c.Values, Withdrawn: c.Withdrawn},
		Owner:     wire.NodeOut(c.Owner),
	}
}

func copyIn(m *wirev1.Copy) Copy {
	return CopyOf(wire.NodeIn(m.GetOwner()), m.GetPublisher())
}

// size estimates a copy's length in a message.
func (c Copy) size() int {
	n := c.Key.size()
	for _, v := range c.Values {
		n += 4 + len(v)
	}
	return n
}

func (k Key) size() int { return 64 + len(k.ID) + len(k.Data) }
