package store

import (
	"slices"
	"time"

	"conclave"
	wirev1 "conclave/wire/v1"
)

// Store holds the copies of one slot. It is not safe for concurrent use: the
// slot's lock guards it. doc.go has its rule.
type Store struct {
	grace  time.Duration // how long a mark lasts: the session grace
	data   map[string]*datum
	owners map[conclave.NodeID]*ownerSet

	// counter is the slot's version: each visible change takes the next number.
	counter int64
	claims  int64 // how far what subscribers claim to have may raise the counter; see Serve
	visible int   // registrations that subscribers see

	log        feedLog
	tombstones []tombstoneRecord // oldest first; may include some that have been deleted
	changed    []string          // data whose visible content changed since TakeChanged
	emptied    map[string]bool   // data without registrations that could not be forgotten yet; nil while there is none

	// Merges that have begun, and what the sessions have written since; nil
	// while there is none. See PendingMerge.
	merges  map[*PendingMerge]bool // those that are open
	writes  uint64                 // number of the last write
	touched map[Key]lastWrite      // to each copy

	bases bases // nil while there is none

	marked map[string]mark // by DataInfoID: the data with a mark of their own; nil while there is none

	// The mark on every datum of the slot; see Mark.
	unexplained int64
	until       time.Time
	incomplete  time.Time // not after until; see MarkIncomplete
}

// A decision that was made elsewhere some time ago (a session's answer to a
// diff, the old leader's feed) is merged while sessions continue to write here.
// A PendingMerge covers the time between the decision and its arrival: what the
// owner session itself wrote here during that time is newer, and wins.
//
// Without that rule a withdrawn registration could return: (1) the session
// answers a diff with R in it; (2) R's client withdraws, and the session writes
// the removal; (3) the removal arrives here before the answer does.
//
// A PendingMerge ends with End, or with the leadership of the slot for which it
// was begun: the slot's replica then calls EndAll. After that nothing is merged
// under it, and End has no effect. A nil *PendingMerge belongs to a follower:
// no session writes to it, so the leader's feed replaces everything.
type PendingMerge struct{ since uint64 } // s.writes when it began

// lastWrite is the number of a session's last write to a copy, and the highest
// version that the session has removed.
type lastWrite struct {
	number  uint64
	removed int64
}

// Pending reports whether a merge is open.
func (s *Store) Pending() bool { return len(s.merges) > 0 }

// New returns an empty store whose unconfirmed marks last for grace.
func New(grace time.Duration) *Store {
	return &Store{grace: grace, data: map[string]*datum{}, owners: map[conclave.NodeID]*ownerSet{}}
}

// Write stores what an owner session has written, a registration or its
// tombstone. It reports whether that was newer than the owner's copy.
func (s *Store) Write(c Copy, now time.Time) bool {
	s.noteWrite(c.Key, 0)
	return s.put(c, now)
}

// HiddenBy returns the version, live or withdrawn, that hides a copy from subscribers, or 0.
func (s *Store) HiddenBy(c Copy) int64 {
	if d, r, at := s.find(c.Key); d != nil && at >= 0 {
		return r.above(c.Version, c.Withdrawn)
	}
	return 0
}

// noteWrite records that a session has written one of its own copies, or has
// removed it up to a version.
func (s *Store) noteWrite(key Key, removed int64) {
	if s.Pending() {
		s.writes++
		s.touched[key] = lastWrite{s.writes, max(removed, s.touched[key].removed)}
	}
}

// put stores a copy, wherever it comes from.
func (s *Store) put(c Copy, now time.Time) bool {
	o := s.owner(c.Owner)
	d := s.datum(c.Data)
	i, found := d.find(c.ID)
	if !found {
		d.insert(i, newRegistration(c.ID))
	}
	r := d.regs[i]
	before, had := r.visible()
	at := r.of(o)
	switch {
	case at >= 0 && r.copies[at].version >= c.Version:
		return false
	case at >= 0:
		o.remove(c.ID, r.copies[at].version)
	default:
		at = r.add()
	}
	r.copies[at] = ownerCopy{owner: o, version: c.Version, values: c.Values, withdrawn: c.Withdrawn}
	o.add(c.ID, c.Version)
	if c.Withdrawn {
		s.tombstones = append(s.tombstones, tombstoneRecord{c.Key, c.Version, now})
	}
	s.log.append(c.Key, wirev1.Cause_CAUSE_WITHDRAWN)
	s.noteChange(d, before, had, r)
	return true
}

// Remove deletes a copy of at most the given version, as its owner session has
// asked, and reports whether there was one. A tombstone stays as long as it hides a lower version
// of another owner. If the cause is no confirmation that the client is gone,
// the datum is marked for grace.
//
// A removal never makes an older version visible again. Otherwise a client that
// moved away from a lost session, changed something and died would be shown
// with its earlier values for as long as the lost session's copies stay. So
// where the copy hides a lower one, a tombstone of noOwner replaces it. It has
// the same version, so that a session which offers that version again is
// accepted.
func (s *Store) Remove(key Key, version int64, cause wirev1.Cause, now time.Time) bool {
	s.noteWrite(key, version)
	return s.remove(key, version, cause, now)
}

func (s *Store) remove(key Key, version int64, cause wirev1.Cause, now time.Time) bool {
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
func (s *Store) hide(key Key, version int64, now time.Time) {
	d := s.data[key.Data]
	if d == nil {
		return
	}
	if i, found := d.find(key.ID); found && d.regs[i].hides(version) {
		s.put(Copy{Key: Key{noOwner, key.Data, key.ID}, Version: version, Withdrawn: true}, now)
	}
}

// delete deletes a copy, whatever it hides.
func (s *Store) delete(d *datum, r *registration, at int, cause wirev1.Cause, now time.Time) {
	c := r.copies[at]
	before, had := r.visible()
	r.remove(at)
	c.owner.remove(r.id, c.version)
	s.log.append(Key{c.owner.node, d.id, r.id}, cause)
	if s.noteChange(d, before, had, r) && unconfirmed(cause) {
		s.markDatum(d.id, mark{d.version, now.Add(s.grace)})
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
	copies := s.Of(owner)
	slices.SortFunc(copies, compareCopies) // each removal takes the next version
	for _, c := range copies {
		if s.remove(c.Key, c.Version, cause, now) {
			n++
		}
	}
	return n
}

// Of returns one owner's copies, in no order.
func (s *Store) Of(owner conclave.NodeID) []Copy {
	o := s.owners[owner]
	if o == nil {
		return nil
	}
	out := make([]Copy, 0, o.count)
	for id, d := range s.data {
		for _, r := range d.regs {
			if at := r.of(o); at >= 0 {
				out = append(out, copyOf(id, r, r.copies[at]))
			}
		}
	}
	return out
}

// Serve begins a new leader epoch. The counter rises above floor and above
// every version that was ever given out, and every datum takes that version, so
// that subscribers accept it as newer than anything they hold. The feed starts
// again. What subscribers claim to have raises the counter by one VersionBase at
// most: a slot's next leader begins that far above what the last one reported, so
// no version that was ever pushed is higher. Every datum is marked until the given
// time, if that is in the future: some owner could not be asked, or the previous
// leader had marks of its own.
func (s *Store) Serve(floor int64, marked, now time.Time) {
	s.counter = max(s.counter, floor) + 1
	s.claims = s.counter + conclave.VersionBase
	for _, d := range s.data {
		d.version = s.counter
	}
	for id, m := range s.marked {
		if now.Before(m.until) {
			s.marked[id] = mark{s.counter, m.until}
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

// raise raises the counter to a version that another leader has given out.
func (s *Store) raise(counter int64) { s.counter = max(s.counter, counter) }

// Counter returns the highest version that was given out, here or by a leader
// whose copy or feed was taken over.
func (s *Store) Counter() int64 { return s.counter }

// Visible returns the number of registrations that subscribers see.
func (s *Store) Visible() int { return s.visible }

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
	s.bases.keep(d)
	s.bases.note(d, r.id, had)
	s.counter++
	d.version, d.read = s.counter, nil
	if !d.noted {
		d.noted = true
		s.changed = append(s.changed, d.id)
	}
	return true
}

// find returns the datum, the registration and the index of a copy; the index
// is -1 if there is no such copy.
func (s *Store) find(key Key) (*datum, *registration, int) {
	d := s.data[key.Data]
	o := s.owners[key.Owner]
	if d == nil || o == nil {
		return d, nil, -1
	}
	i, found := d.find(key.ID)
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
		d = newDatum(id, s.counter)
		s.data[id] = d
	}
	return d
}

// forgetIfEmpty deletes a datum without registrations whose mark has ended, or
// leaves it to Prune. Absent data read as empty at the slot's counter.
func (s *Store) forgetIfEmpty(d *datum, now time.Time) {
	switch {
	case len(d.regs) > 0:
	case !now.Before(s.marked[d.id].until) && !d.noted:
		delete(s.data, d.id)
		delete(s.bases, d.id)
	default:
		if s.emptied == nil {
			s.emptied = map[string]bool{}
		}
		s.emptied[d.id] = true
	}
}

// feedLog lists the changes to a slot's copies since its leader began to serve:
// which copy changed at which position. It holds keys, not content. A follower
// that continues from a position is sent the present state of these copies,
// which is a later state of the same feed; many changes of one copy are then
// sent once.
//
// Entries are kept only while there is a follower, and only those that the
// slowest follower has not read.
type feedLog struct {
	position uint64 // of the newest change; 1 at the beginning of an epoch, so that 0 means "none"
	entries  []logEntry
	follows  bool
}

type logEntry struct {
	Key
	cause wirev1.Cause
}

// longestLog limits what one slow follower can make a leader keep. A follower
// that is further behind loads a snapshot.
const longestLog = 1 << 16

func (l *feedLog) restart() { *l = feedLog{position: 1, follows: l.follows} }

func (l *feedLog) append(key Key, cause wirev1.Cause) {
	l.position++
	if !l.follows {
		return
	}
	if len(l.entries) >= longestLog {
		l.entries = nil
	}
	l.entries = append(l.entries, logEntry{key, cause})
}

// follow sets whether there are followers.
func (l *feedLog) follow(is bool) {
	l.follows = is
	if !is {
		l.entries = nil
	}
}

// since returns at most n entries after a position. It returns false if they
// are not kept any more, or if the position is higher than the log's.
func (l *feedLog) since(position uint64, n int) ([]logEntry, bool) {
	oldest := l.position - uint64(len(l.entries))
	if position < oldest || position > l.position {
		return nil, false
	}
	rest := l.entries[position-oldest:]
	return rest[:min(n, len(rest))], true
}

// trim drops the entries up to a position.
func (l *feedLog) trim(read uint64) {
	oldest := l.position - uint64(len(l.entries))
	if read <= oldest {
		return
	}
	n := min(read-oldest, uint64(len(l.entries)))
	clear(l.entries[:n]) // keys that would otherwise be kept until append moves the rest
	if l.entries = l.entries[n:]; len(l.entries) == 0 {
		l.entries = nil
	}
}
