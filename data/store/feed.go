package store

import (
	"slices"
	"time"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// The feed of a slot: what its leader sends to the nodes that hold copies of
// it, and what they make of it. A follower's copy begins with a Snapshot, which
// is received by a Loading and taken over by Install; then each message of
// Changes is applied by Follow. A message ends once it exceeds partBytes or has
// partCopies copies.
const (
	partCopies = 512
	partBytes  = 1 << 20
)

// Position returns the position of the newest change in the feed. It is 1 when
// the leader begins to serve, so that 0 means "none".
func (s *Store) Position() uint64 { return s.log.position }

// SetFollowed sets whether followers read the feed. If none does, its changes
// are counted and not kept.
func (s *Store) SetFollowed(is bool) { s.log.follow(is) }

// Trim drops the changes up to a position, which all followers have read.
func (s *Store) Trim(read uint64) { s.log.trim(read) }

// Changes returns the message that continues the feed after a position, and
// whether there is one: the log may not reach back that far any more, or the
// position may be one that this feed has not reached. The follower then needs a
// Snapshot. A message without changes has Beat set. The slot, its epoch and the
// access are the caller's to add.
func (s *Store) Changes(after uint64) (*wirev1.ReplicateEvent, bool) {
	entries, ok := s.log.since(after, partCopies)
	if after == 0 || !ok {
		return nil, false
	}
	e := &wirev1.ReplicateEvent{From: after, Counter: s.counter, Beat: len(entries) == 0}
	e.Position = after + uint64(s.describe(entries, e))
	return e, true
}

// describe adds the present state of the copies named by entries to e, each
// once, until the message is large enough. It returns how many entries it
// covered.
func (s *Store) describe(entries []logEntry, e *wirev1.ReplicateEvent) int {
	last := make(map[Key]int, len(entries)) // the latest entry of each copy that is to be described
	for i, x := range entries {
		last[x.Key] = i
	}
	size := 0
	for i, x := range entries {
		latest, open := last[x.Key]
		if !open {
			continue
		}
		if size > partBytes {
			return i
		}
		delete(last, x.Key)
		if _, r, at := s.find(x.Key); at >= 0 {
			c := copyOf(x.Data, r, r.copies[at])
			e.Copies = append(e.Copies, copyOut(c))
			size += c.size()
		} else {
			e.Removals = append(e.Removals, &wirev1.CopyRemoval{
				Id: x.ID, DataInfoId: x.Data, Owner: wire.NodeOut(x.Owner), Cause: entries[latest].cause,
			})
			size += x.size()
		}
	}
	return len(entries)
}

// Snapshot is everything that a store holds, at one position of a feed.
type Snapshot struct {
	Position uint64
	copies   []Copy
	counter  int64
	marks    Marks
}

// Snapshot returns everything that the store holds now. It copies only
// pointers, to values that never change: its Messages can be made after the
// slot's lock has been released.
func (s *Store) Snapshot(position uint64, now time.Time) Snapshot {
	return Snapshot{position, s.All(), s.counter, s.MarksAt(now)}
}

// Messages splits a snapshot of a slot, built at a leader epoch, into messages;
// that of an empty store is one message. The last one carries the marks.
func (s Snapshot) Messages(slot int, epoch conclave.Epoch) []*wirev1.ReplicateEvent {
	var out []*wirev1.ReplicateEvent
	for first := true; first || len(s.copies) > 0; first = false {
		e := &wirev1.ReplicateEvent{
			Slot: uint32(slot), LeaderEpoch: wire.EpochOut(epoch), Access: wirev1.Access_ACCESS_ACCEPT,
			Position: s.Position, Counter: s.counter, Snapshot: true,
		}
		size := 0
		for len(s.copies) > 0 && size < partBytes && len(e.Copies) < partCopies {
			e.Copies = append(e.Copies, copyOut(s.copies[0]))
			size += s.copies[0].size()
			s.copies = s.copies[1:]
		}
		out = append(out, e)
	}
	last := out[len(out)-1]
	out[0].SnapshotBegin, last.SnapshotEnd = true, true
	last.UnconfirmedMs, last.IncompleteMs = wire.Ms(s.marks.Unconfirmed), wire.Ms(s.marks.Incomplete)
	return out
}

// Loading is a snapshot that is being received.
type Loading struct {
	Epoch    conclave.Epoch // of the leader whose feed the copy is of; once it is complete, like Position
	Position uint64
	store    *Store
	counter  int64
	marks    Marks
}

// NewLoading returns a snapshot of which nothing has been received. Unconfirmed
// marks in the store that it becomes last for grace.
func NewLoading(grace time.Duration) *Loading { return &Loading{store: New(grace)} }

// Add adds the next message, and reports whether it was the last.
func (l *Loading) Add(e *wirev1.ReplicateEvent, now time.Time) (complete bool) {
	for _, c := range e.GetCopies() {
		l.store.put(copyIn(c), now)
	}
	if !e.GetSnapshotEnd() {
		return false
	}
	l.Epoch, l.Position = wire.EpochIn(e.GetLeaderEpoch()), e.GetPosition()
	l.counter, l.marks = e.GetCounter(), Marks{wire.FromMs(e.GetUnconfirmedMs()), wire.FromMs(e.GetIncompleteMs())}
	return true
}

// Install returns a complete snapshot as the successor of s, with the marks of
// both. It keeps what sessions have written to s since m began. Neither s nor l
// may be used afterwards. Readers of the slot are not notified: a copy that
// follows, or that is taken over, has none.
func (s *Store) Install(m *PendingMerge, l *Loading, now time.Time) *Store {
	next := l.store
	next.raise(s.counter)
	for key := range s.touched {
		if !s.overtaken(m, key) {
			continue
		}
		if d, r, at := next.find(key); at >= 0 {
			next.delete(d, r, at, wirev1.Cause_CAUSE_WITHDRAWN, now)
		}
		if _, r, at := s.find(key); at >= 0 {
			next.put(copyOf(key.Data, r, r.copies[at]), now)
		}
	}
	for id, m := range s.marked {
		if now.Before(m.until) {
			d := next.datum(id)
			next.markDatum(id, mark{until: m.until}) // Serve sets the version
			next.forgetIfEmpty(d, now)
		}
	}
	next.merges, next.writes, next.touched = s.merges, s.writes, s.touched
	next.hideRemoved(m, now)
	next.unexplained, next.until, next.incomplete = s.unexplained, s.until, s.incomplete
	next.inherit(l.marks, now)
	next.TakeChanged()
	next.raise(l.counter)
	return next
}

// Follow applies a message of the leader's feed that continues this copy,
// without further checks, except that what sessions have written here since m
// began wins. A put may have a lower version than the copy held here, if the
// owner's copy was removed and stored again in between; a removal does not
// consider what it hides. As with Install, readers are not notified.
func (s *Store) Follow(m *PendingMerge, e *wirev1.ReplicateEvent, now time.Time) {
	for _, in := range e.GetCopies() {
		c := copyIn(in)
		if s.overtaken(m, c.Key) {
			continue
		}
		if d, r, at := s.find(c.Key); at >= 0 && r.copies[at].version > c.Version {
			s.delete(d, r, at, wirev1.Cause_CAUSE_WITHDRAWN, now)
		}
		s.put(c, now)
	}
	for _, in := range e.GetRemovals() {
		key := Key{wire.NodeIn(in.GetOwner()), in.GetDataInfoId(), in.GetId()}
		if s.overtaken(m, key) {
			continue
		}
		if d, r, at := s.find(key); at >= 0 {
			s.delete(d, r, at, in.GetCause(), now)
		}
	}
	s.hideRemoved(m, now)
	s.TakeChanged()
	s.raise(e.GetCounter())
}

// Begin begins a merge. It is open until End or EndAll.
func (s *Store) Begin() *PendingMerge {
	if s.merges == nil {
		s.merges, s.touched = map[*PendingMerge]bool{}, map[Key]lastWrite{}
	}
	m := &PendingMerge{s.writes}
	s.merges[m] = true
	return m
}

// End ends one merge, if it is open.
func (s *Store) End(m *PendingMerge) {
	delete(s.merges, m)
	if len(s.merges) == 0 {
		s.EndAll()
	}
}

// EndAll ends every merge.
func (s *Store) EndAll() { s.merges, s.touched = nil, nil }

// IsOpen reports whether m has begun and has not ended.
func (s *Store) IsOpen(m *PendingMerge) bool { return s.merges[m] }

// hideRemoved hides what is older than what sessions have removed since m began:
// it may have arrived after the removal.
func (s *Store) hideRemoved(m *PendingMerge, now time.Time) {
	var keys []Key
	for key := range s.touched {
		if s.overtaken(m, key) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, Key.Compare)
	for _, key := range keys {
		s.hide(key, s.touched[key].removed, now)
	}
}

// overtaken reports whether the owner has written the copy since m began.
func (s *Store) overtaken(m *PendingMerge, key Key) bool {
	return m != nil && s.touched[key].number > m.since
}

// Merge applies one owner's answer to a diff, additions before removals, so
// that nothing disappears in between. It returns how many copies it added and
// removed. m must be open.
func (s *Store) Merge(m *PendingMerge, owner conclave.NodeID, puts []*wirev1.Publisher, removed []Copy, now time.Time) (added, taken int) {
	for _, p := range puts {
		c := CopyOf(owner, p)
		if !s.overtaken(m, c.Key) && s.put(c, now) {
			added++
		}
	}
	for _, c := range removed {
		if !s.overtaken(m, c.Key) && s.remove(c.Key, c.Version, wirev1.Cause_CAUSE_DIFF, now) {
			taken++
		}
	}
	return added, taken
}
