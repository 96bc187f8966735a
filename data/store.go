package data

import (
	"slices"
	"time"

	"conclave"
	wirev1 "conclave/wire/v1"
)

// Store holds the copies of one slot. It is pure: no clock of its own, no lock,
// no I/O; the replica that owns it guards it.
//
// A copy is kept for each (registration id, owner session incarnation). A put
// replaces a lower version of the same owner; a removal takes the owner's own
// copy, never past a newer version. What subscribers see is the highest version
// over the owners, unless it is a tombstone. So it does not matter in which
// order, how often, or through which session the same changes arrive. What is
// below a version that was here is never seen again (see Remove).
type Store struct {
	grace  time.Duration // how long a mark lasts: the session grace
	data   map[string]*datum
	owners map[conclave.NodeID]*ownerSet

	// counter is the slot's version: every visible change takes the next one.
	counter int64
	visible int // registrations that subscribers see

	log     feedLog
	graves  []grave  // tombstones, oldest first, and some that are gone already
	changed []string // data whose visible content changed since TakeChanged

	// Whatever was decided elsewhere while a session wrote here loses against
	// what the session wrote: see Begin.
	flights map[*flight]bool // those that are open
	writes  uint64
	touched map[copyKey]uint64

	// A mark on every datum of the slot: see Serve.
	unexplained int64
	until       time.Time
}

// copyKey names one copy.
type copyKey struct {
	owner    conclave.NodeID
	data, id string
}

// nobody owns the tombstones that stand for copies which are gone.
var nobody conclave.NodeID

// Copy is a registration as one owner holds it, outside of a store.
type Copy struct {
	copyKey
	version   int64
	values    []string
	withdrawn bool
}

// grave remembers when a tombstone came.
type grave struct {
	copyKey
	version int64
	at      time.Time
}

// NewStore is an empty store whose unconfirmed marks last for grace.
func NewStore(grace time.Duration) *Store {
	return &Store{grace: grace, data: map[string]*datum{}, owners: map[conclave.NodeID]*ownerSet{}}
}

// Put takes one owner's registration, or its tombstone, and says whether it was
// newer than what is held of that owner.
func (s *Store) Put(owner conclave.NodeID, p conclave.Publisher, now time.Time) bool {
	return s.write(copyFrom(owner, p), now)
}

func copyFrom(owner conclave.NodeID, p conclave.Publisher) Copy {
	return Copy{copyKey{owner, p.Data.String(), p.ID}, p.Version, p.Values, p.Withdrawn}
}

func (s *Store) write(c Copy, now time.Time) bool {
	s.touch(c.copyKey)
	return s.put(c, now)
}

func (s *Store) put(c Copy, now time.Time) bool {
	o := s.owner(c.owner)
	d := s.datum(c.data)
	i, found := d.find(c.id)
	if !found {
		d.regs = slices.Insert(d.regs, i, &registration{id: c.id})
	}
	r := d.regs[i]
	before, had := r.visible()
	at := r.of(o)
	switch {
	case at >= 0 && r.copies[at].version >= c.version:
		return false
	case at >= 0:
		o.take(c.id, r.copies[at].version)
	default:
		at = len(r.copies)
		r.copies = append(r.copies, held{})
	}
	r.copies[at] = held{owner: o, version: c.version, values: c.values, withdrawn: c.withdrawn}
	o.add(c.id, c.version)
	if c.withdrawn {
		s.graves = append(s.graves, grave{c.copyKey, c.version, now})
	}
	s.log.append(c.copyKey, wirev1.Cause_CAUSE_WITHDRAWN)
	s.seen(d, before, had, r)
	return true
}

// Remove takes away an owner's copy of at most the given version, and says
// whether there was one. A tombstone stays as long as it hides a lower version
// of another owner. Causes that nobody confirms mark the datum for grace.
//
// A removal never brings an older version back: a client that moved from a lost
// session, changed something and died would be seen with what it changed for as
// long as the lost session's copies stay. So where the copy hides a lower one, a
// tombstone of nobody takes its place: of the same version, so that a session
// that shows the registration again is believed.
func (s *Store) Remove(owner conclave.NodeID, data, id string, version int64, cause wirev1.Cause, now time.Time) bool {
	key := copyKey{owner, data, id}
	s.touch(key)
	return s.remove(key, version, cause, now)
}

func (s *Store) remove(key copyKey, version int64, cause wirev1.Cause, now time.Time) bool {
	d, r, at := s.find(key)
	if at < 0 {
		s.hide(key, version, now)
		return false
	}
	c := r.copies[at]
	if c.version > version || c.withdrawn && r.hides(c.version) {
		return false
	}
	s.hide(key, c.version, now)
	s.take(d, r, at, cause, now)
	s.hide(key, version, now)
	return true
}

// hide puts a tombstone that no session owns in front of all that is older than a
// removed version. The removed copy need not have been here: a removal may arrive
// before the copy that it removes, which is then dropped as overtaken.
func (s *Store) hide(key copyKey, version int64, now time.Time) {
	d := s.data[key.data]
	if d == nil {
		return
	}
	if i, found := d.find(key.id); found && d.regs[i].hides(version) {
		s.put(Copy{copyKey: copyKey{nobody, key.data, key.id}, version: version, withdrawn: true}, now)
	}
}

// take takes a copy out, whatever it hides.
func (s *Store) take(d *datum, r *registration, at int, cause wirev1.Cause, now time.Time) {
	c := r.copies[at]
	before, had := r.visible()
	r.copies = slices.Delete(r.copies, at, at+1)
	c.owner.take(r.id, c.version)
	s.log.append(copyKey{c.owner.node, d.id, r.id}, cause)
	if s.seen(d, before, had, r) && unconfirmed(cause) {
		d.unexplained, d.until = d.version, now.Add(s.grace)
	}
	if len(r.copies) == 0 {
		i, _ := d.find(r.id)
		d.regs = slices.Delete(d.regs, i, i+1)
	}
	s.tidy(d, now)
	if c.owner.count == 0 {
		delete(s.owners, c.owner.node)
	}
}

// RemoveOwner takes away all that an owner has here, but for tombstones that
// still hide something, and says how much it was.
func (s *Store) RemoveOwner(owner conclave.NodeID, cause wirev1.Cause, now time.Time) int {
	n := 0
	for _, c := range s.Of(owner) {
		if s.remove(c.copyKey, c.version, cause, now) {
			n++
		}
	}
	return n
}

// Compact drops tombstones that came before the given moment and hide nothing
// any more, and what is left of data whose marks have ended.
func (s *Store) Compact(before, now time.Time) {
	for _, g := range s.graves {
		_, r, at := s.find(g.copyKey)
		if at >= 0 && r.copies[at].version == g.version && !g.at.After(before) && !r.hides(g.version) {
			s.remove(g.copyKey, g.version, wirev1.Cause_CAUSE_WITHDRAWN, now)
		}
	}
	s.Prune(now)
}

// Prune frees what is left of copies that are gone, and takes none away: what a
// follower's copy holds is its leader's to decide.
func (s *Store) Prune(now time.Time) {
	s.graves = slices.DeleteFunc(s.graves, func(g grave) bool {
		_, r, at := s.find(g.copyKey)
		return at < 0 || r.copies[at].version != g.version // taken away, or replaced
	})
	for _, d := range s.data {
		s.tidy(d, now)
	}
}

// Serve begins a new leader epoch: the counter rises above floor and above all
// that was ever given out, and every datum is stamped with it, so that no
// subscriber holds a version that is not older. The feed starts again. Every
// datum is marked until the given moment, if that is to come: some owner could
// not be asked, or the leader before had marks of its own.
func (s *Store) Serve(floor int64, marked, now time.Time) {
	s.counter = max(s.counter, floor) + 1
	for _, d := range s.data {
		d.version = s.counter
		if now.Before(d.until) {
			d.unexplained = s.counter
		}
	}
	s.Mark(marked)
	if now.Before(s.until) {
		s.unexplained = s.counter
	}
	s.log.restart()
	s.changed = nil
	for _, d := range s.data {
		d.noted = false
	}
}

// Mark marks every datum until the given moment, or longer if it is already.
func (s *Store) Mark(until time.Time) {
	if until.After(s.until) {
		s.unexplained, s.until = s.counter, until
	}
}

// Prolong lets the slot's mark last until the given moment, if there is one:
// what is decided meanwhile is not marked by it.
func (s *Store) Prolong(until, now time.Time) {
	if now.Before(s.until) && until.After(s.until) {
		s.until = until
	}
}

// Marked is how long the last mark in the slot still lasts: what a hand-over
// takes along. One mark for the whole slot is more than is needed, and safe: it
// only makes sessions hesitate to push what has shrunk.
func (s *Store) Marked(now time.Time) time.Duration {
	until := s.until
	for _, d := range s.data {
		if d.until.After(until) {
			until = d.until
		}
	}
	return max(0, until.Sub(now))
}

// Raise lifts the counter: a leader has given out this version.
func (s *Store) Raise(counter int64) { s.counter = max(s.counter, counter) }

// Counter is the highest version given out or heard of.
func (s *Store) Counter() int64 { return s.counter }

// Visible counts the registrations that subscribers see.
func (s *Store) Visible() int { return s.visible }

// Digest is what Diff compares: the number of an owner's copies, tombstones
// included, and the sum of their wire.EntryHash.
func (s *Store) Digest(owner conclave.NodeID) (count, sum uint64) {
	if o := s.owners[owner]; o != nil {
		return o.count, o.sum
	}
	return 0, 0
}

// Owners lists the sessions whose copies are here, sorted.
func (s *Store) Owners() []conclave.NodeID {
	out := make([]conclave.NodeID, 0, len(s.owners))
	for n := range s.owners {
		if n != nobody {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, conclave.NodeID.Compare)
	return out
}

// TakeChanged hands over the ids of the data whose visible content changed since
// it was last called, in the order of their first change.
func (s *Store) TakeChanged() []string {
	ids := s.changed
	s.changed = nil
	for _, id := range ids {
		if d := s.data[id]; d != nil {
			d.noted = false
		}
	}
	return ids
}

// seen judges a change of r: did what subscribers see change? before and had are
// what it was.
func (s *Store) seen(d *datum, before []string, had bool, r *registration) bool {
	after, has := r.visible()
	if had == has && slices.Equal(before, after) {
		return false
	}
	switch {
	case has && !had:
		s.visible++
	case had && !has:
		s.visible--
	}
	s.counter++
	d.version = s.counter
	d.values, d.hash = nil, 0
	if !d.noted {
		d.noted = true
		s.changed = append(s.changed, d.id)
	}
	return true
}

// unconfirmed says that nobody who knows the client has said that it is gone.
func unconfirmed(c wirev1.Cause) bool {
	switch c {
	case wirev1.Cause_CAUSE_WITHDRAWN, wirev1.Cause_CAUSE_CLIENT_GONE:
		return false
	}
	return true
}

func (s *Store) find(key copyKey) (*datum, *registration, int) {
	d := s.data[key.data]
	o := s.owners[key.owner]
	if d == nil || o == nil {
		return d, nil, -1
	}
	i, found := d.find(key.id)
	if !found {
		return d, nil, -1
	}
	return d, d.regs[i], d.regs[i].of(o)
}

func (s *Store) owner(n conclave.NodeID) *ownerSet {
	o := s.owners[n]
	if o == nil {
		o = &ownerSet{node: n}
		s.owners[n] = o
	}
	return o
}

func (s *Store) datum(id string) *datum {
	d := s.data[id]
	if d == nil {
		d = &datum{id: id, version: s.counter}
		s.data[id] = d
	}
	return d
}

// tidy forgets a datum that nothing is registered under, once its mark ended:
// absent data read as empty at the slot's counter.
func (s *Store) tidy(d *datum, now time.Time) {
	if len(d.regs) == 0 && !now.Before(d.until) && !d.noted {
		delete(s.data, d.id)
	}
}
