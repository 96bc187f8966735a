package data

import (
	"slices"
	"time"

	"conclave"
	wirev1 "conclave/wire/v1"
)

// Store holds the copies of one slot. It has no clock, no lock and no I/O of
// its own; the replica that owns it guards it.
//
// A copy is kept for each (registration id, owner session incarnation). A put
// replaces a lower version of the same owner. A removal deletes the owner's own
// copy, but never a newer version. Subscribers see the highest version over all
// owners, unless it is a tombstone. The result therefore does not depend on the
// order of the changes, on repetitions, or on the session that they came
// through. A version below one that was here is never shown again (see Remove).
type Store struct {
	grace  time.Duration // how long a mark lasts: the session grace
	data   map[string]*datum
	owners map[conclave.NodeID]*ownerSet

	// counter is the slot's version: each visible change takes the next number.
	counter int64
	visible int // registrations that subscribers see

	log        feedLog
	tombstones []tombstoneRecord // oldest first; may include some that have been deleted
	changed    []string          // data whose visible content changed since TakeChanged

	// Merges that have begun, and what the sessions have written since; nil
	// while there is none. See pendingMerge.
	merges  map[*pendingMerge]bool // those that are open
	writes  uint64                 // number of the last write
	touched map[copyKey]uint64     // number of the last write to each copy

	// The mark on every datum of the slot; see Mark.
	unexplained int64
	until       time.Time
	incomplete  time.Time // not after until; see MarkIncomplete
}

// copyKey names one copy.
type copyKey struct {
	owner    conclave.NodeID
	data, id string
}

// noOwner is the owner of the tombstones that replace deleted copies.
var noOwner conclave.NodeID

// Copy is a registration as one owner holds it, outside of a store.
type Copy struct {
	copyKey
	version   int64
	values    []string
	withdrawn bool
}

// tombstoneRecord is the arrival of a tombstone, so that Compact can find the
// old ones.
type tombstoneRecord struct {
	copyKey
	version int64
	at      time.Time
}

// NewStore returns an empty store whose unconfirmed marks last for grace.
func NewStore(grace time.Duration) *Store {
	return &Store{grace: grace, data: map[string]*datum{}, owners: map[conclave.NodeID]*ownerSet{}}
}

// Put stores one owner's registration or its tombstone. It reports whether it
// was newer than that owner's copy.
func (s *Store) Put(owner conclave.NodeID, p conclave.Publisher, now time.Time) bool {
	return s.write(copyFrom(owner, p), now)
}

func copyFrom(owner conclave.NodeID, p conclave.Publisher) Copy {
	return Copy{copyKey{owner, p.Data.String(), p.ID}, p.Version, p.Values, p.Withdrawn}
}

// write stores a copy that its owner session has written, and put one from
// elsewhere. Both report whether it was newer than that owner's copy.
func (s *Store) write(c Copy, now time.Time) bool {
	s.noteWrite(c.copyKey)
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
		o.remove(c.id, r.copies[at].version)
	default:
		at = len(r.copies)
		r.copies = append(r.copies, ownerCopy{})
	}
	r.copies[at] = ownerCopy{owner: o, version: c.version, values: c.values, withdrawn: c.withdrawn}
	o.add(c.id, c.version)
	if c.withdrawn {
		s.tombstones = append(s.tombstones, tombstoneRecord{c.copyKey, c.version, now})
	}
	s.log.append(c.copyKey, wirev1.Cause_CAUSE_WITHDRAWN)
	s.noteChange(d, before, had, r)
	return true
}

// Remove deletes an owner's copy of at most the given version, and reports
// whether there was one. A tombstone stays as long as it hides a lower version
// of another owner. If the cause is no confirmation that the client is gone,
// the datum is marked for grace.
//
// A removal never makes an older version visible again. Otherwise a client that
// moved away from a lost session, changed something and died would be shown
// with its earlier values for as long as the lost session's copies stay. So
// where the copy hides a lower one, a tombstone of noOwner replaces it. It has
// the same version, so that a session which offers that version again is
// accepted.
func (s *Store) Remove(owner conclave.NodeID, data, id string, version int64, cause wirev1.Cause, now time.Time) bool {
	key := copyKey{owner, data, id}
	s.noteWrite(key)
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
	s.delete(d, r, at, cause, now)
	s.hide(key, version, now)
	return true
}

// hide puts a tombstone of noOwner above all copies that are older than a
// removed version. The removed copy may be missing: a removal may arrive before
// the copy that it removes, which is then refused as outdated.
func (s *Store) hide(key copyKey, version int64, now time.Time) {
	d := s.data[key.data]
	if d == nil {
		return
	}
	if i, found := d.find(key.id); found && d.regs[i].hides(version) {
		s.put(Copy{copyKey: copyKey{noOwner, key.data, key.id}, version: version, withdrawn: true}, now)
	}
}

// delete deletes a copy, whatever it hides.
func (s *Store) delete(d *datum, r *registration, at int, cause wirev1.Cause, now time.Time) {
	c := r.copies[at]
	before, had := r.visible()
	r.copies = slices.Delete(r.copies, at, at+1)
	c.owner.remove(r.id, c.version)
	s.log.append(copyKey{c.owner.node, d.id, r.id}, cause)
	if s.noteChange(d, before, had, r) && unconfirmed(cause) {
		d.unexplained, d.until = d.version, now.Add(s.grace)
	}
	if len(r.copies) == 0 {
		i, _ := d.find(r.id)
		d.regs = slices.Delete(d.regs, i, i+1)
	}
	s.forgetIfEmpty(d, now)
	if c.owner.count == 0 {
		delete(s.owners, c.owner.node)
	}
}

// RemoveOwner deletes an owner's copies, except tombstones that still hide
// something, and returns how many it deleted.
func (s *Store) RemoveOwner(owner conclave.NodeID, cause wirev1.Cause, now time.Time) int {
	n := 0
	for _, c := range s.Of(owner) {
		if s.remove(c.copyKey, c.version, cause, now) {
			n++
		}
	}
	return n
}

// Compact deletes the tombstones that arrived at or before the given time and
// hide nothing any more, and then prunes.
func (s *Store) Compact(before, now time.Time) {
	for _, t := range s.tombstones {
		_, r, at := s.find(t.copyKey)
		if at >= 0 && r.copies[at].version == t.version && !t.at.After(before) && !r.hides(t.version) {
			s.remove(t.copyKey, t.version, wirev1.Cause_CAUSE_WITHDRAWN, now)
		}
	}
	s.Prune(now)
}

// Prune frees the records of deleted copies, and data without copies whose
// marks have ended. It deletes no copy: in a follower's store only its leader
// decides that.
func (s *Store) Prune(now time.Time) {
	s.tombstones = slices.DeleteFunc(s.tombstones, func(t tombstoneRecord) bool {
		_, r, at := s.find(t.copyKey)
		return at < 0 || r.copies[at].version != t.version // deleted or replaced
	})
	for _, d := range s.data {
		s.forgetIfEmpty(d, now)
	}
}

// Serve begins a new leader epoch. The counter rises above floor and above
// every version that was ever given out, and every datum takes that version, so
// that subscribers accept it as newer than anything they hold. The feed starts
// again. Every datum is marked until the given time, if that is in the future:
// some owner could not be asked, or the previous leader had marks of its own.
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

// Mark marks every datum as unconfirmed until the given time, or longer if it
// already is.
func (s *Store) Mark(until time.Time) {
	if until.After(s.until) {
		s.unexplained, s.until = s.counter, until
	}
}

// MarkIncomplete marks every datum like Mark, and the slot as incomplete:
// registrations may be missing that no leader of this copy has ever had.
func (s *Store) MarkIncomplete(until time.Time) {
	s.Mark(until)
	if until.After(s.incomplete) {
		s.incomplete = until
	}
}

// Prolong extends the slot's marks until the given time, if there are any.
// Unlike Mark, it does not cover what changes in between.
func (s *Store) Prolong(until, now time.Time) {
	if now.Before(s.until) && until.After(s.until) {
		s.until = until
	}
	if now.Before(s.incomplete) && until.After(s.incomplete) {
		s.incomplete = until
	}
}

// marks are how much longer the marks of a slot last: what a hand-over, a
// snapshot and a holder's copy pass on.
type marks struct{ unconfirmed, incomplete time.Duration }

func (s *Store) marksAt(now time.Time) marks { return marks{s.Marked(now), s.Incomplete(now)} }

// inherit takes over the marks of the store that a copy came from.
func (s *Store) inherit(m marks, now time.Time) {
	s.Mark(now.Add(m.unconfirmed))
	s.MarkIncomplete(now.Add(m.incomplete))
}

// Incomplete returns for how long the slot is still marked as incomplete.
func (s *Store) Incomplete(now time.Time) time.Duration { return max(0, s.incomplete.Sub(now)) }

// Marked returns how long the last mark in the slot lasts from now; a hand-over
// passes it on. One mark for the whole slot is more than is needed, but safe:
// it only makes sessions hold back lists that have shrunk.
func (s *Store) Marked(now time.Time) time.Duration {
	until := s.until
	for _, d := range s.data {
		if d.until.After(until) {
			until = d.until
		}
	}
	return max(0, until.Sub(now))
}

// Raise raises the counter to a version that a leader has given out.
func (s *Store) Raise(counter int64) { s.counter = max(s.counter, counter) }

// Counter returns the highest version that was given out or passed to Raise.
func (s *Store) Counter() int64 { return s.counter }

// Visible returns the number of registrations that subscribers see.
func (s *Store) Visible() int { return s.visible }

// Digest returns what a diff compares first: the number of an owner's copies,
// tombstones included, and the sum of their wire.EntryHash.
func (s *Store) Digest(owner conclave.NodeID) (count, sum uint64) {
	if o := s.owners[owner]; o != nil {
		return o.count, o.sum
	}
	return 0, 0
}

// Owners returns the sessions that own a copy, sorted.
func (s *Store) Owners() []conclave.NodeID {
	out := make([]conclave.NodeID, 0, len(s.owners))
	for n := range s.owners {
		if n != noOwner {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, conclave.NodeID.Compare)
	return out
}

// TakeChanged returns the ids of the data whose visible content has changed
// since the last call, in the order of their first change.
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

// noteChange compares what subscribers see of r with what they saw before the
// change (before, had). If it differs, the datum takes a new version, and
// noteChange returns true.
func (s *Store) noteChange(d *datum, before []string, had bool, r *registration) bool {
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
	d.values, d.publishers, d.hash = nil, nil, 0
	if !d.noted {
		d.noted = true
		s.changed = append(s.changed, d.id)
	}
	return true
}

// unconfirmed reports whether a removal for this cause came without a
// confirmation, by the client or by its session, that the client is gone.
func unconfirmed(c wirev1.Cause) bool {
	switch c {
	case wirev1.Cause_CAUSE_WITHDRAWN, wirev1.Cause_CAUSE_CLIENT_GONE:
		return false
	}
	return true
}

// find returns the datum, the registration and the index of a copy; the index
// is -1 if there is no such copy.
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

// owner returns an owner's digest, and adds it if there is none.
func (s *Store) owner(n conclave.NodeID) *ownerSet {
	o := s.owners[n]
	if o == nil {
		o = &ownerSet{node: n}
		s.owners[n] = o
	}
	return o
}

// datum returns a datum, and adds it if there is none.
func (s *Store) datum(id string) *datum {
	d := s.data[id]
	if d == nil {
		d = &datum{id: id, version: s.counter}
		s.data[id] = d
	}
	return d
}

// forgetIfEmpty deletes a datum without registrations whose mark has ended.
// Absent data read as empty at the slot's counter.
func (s *Store) forgetIfEmpty(d *datum, now time.Time) {
	if len(d.regs) == 0 && !now.Before(d.until) && !d.noted {
		delete(s.data, d.id)
	}
}
