package data

import (
	"time"

	"conclave"
	wirev1 "conclave/wire/v1"
)

// A decision that was made elsewhere some time ago (a session's answer to a
// diff, the old leader's feed) is merged while sessions continue to write here.
// A pendingMerge covers the time between the decision and its arrival: what the
// owner session itself wrote here during that time is newer, and wins.
//
// Without that rule a withdrawn registration could return: (1) the session
// answers a diff with R in it; (2) R's client withdraws, and the session writes
// the removal; (3) the removal arrives here before the answer does.
//
// A pendingMerge ends with End, or with the leadership of the slot for which it
// was begun: replica.enter then calls EndAll. After that nothing is merged
// under it, and End has no effect. A nil *pendingMerge belongs to a follower:
// no session writes to it, so the leader's feed replaces everything.
type pendingMerge struct{ since uint64 } // s.writes when it began

// Begin begins a merge. It is open until End or EndAll.
func (s *Store) Begin() *pendingMerge {
	if s.merges == nil {
		s.merges, s.touched = map[*pendingMerge]bool{}, map[copyKey]uint64{}
	}
	m := &pendingMerge{s.writes}
	s.merges[m] = true
	return m
}

// End ends one merge, if it is open.
func (s *Store) End(m *pendingMerge) {
	delete(s.merges, m)
	if len(s.merges) == 0 {
		s.EndAll()
	}
}

// EndAll ends every merge.
func (s *Store) EndAll() { s.merges, s.touched = nil, nil }

// isOpen reports whether m has begun and has not ended.
func (s *Store) isOpen(m *pendingMerge) bool { return s.merges[m] }

// noteWrite records that a session has written one of its own copies.
func (s *Store) noteWrite(key copyKey) {
	if len(s.merges) > 0 {
		s.writes++
		s.touched[key] = s.writes
	}
}

// overtaken reports whether the owner has written the copy since m began.
func (s *Store) overtaken(m *pendingMerge, key copyKey) bool {
	return m != nil && s.touched[key] > m.since
}

// Merge applies one owner's answer to a diff, additions before removals, so
// that nothing disappears in between. It returns how many copies it added and
// removed. m must be open.
func (s *Store) Merge(m *pendingMerge, owner conclave.NodeID, puts []conclave.Publisher, removed []Copy, now time.Time) (added, taken int) {
	for _, p := range puts {
		c := copyFrom(owner, p)
		if !s.overtaken(m, c.copyKey) && s.put(c, now) {
			added++
		}
	}
	for _, c := range removed {
		if !s.overtaken(m, c.copyKey) && s.remove(c.copyKey, c.version, wirev1.Cause_CAUSE_DIFF, now) {
			taken++
		}
	}
	return added, taken
}

// Removal is a removal in a leader's feed.
type Removal struct {
	copyKey
	cause wirev1.Cause
}

// Follow applies a part of a leader's feed without further checks. A put may
// have a lower version than the copy held here, if the owner's copy was removed
// and stored again in between; a removal does not consider what it hides.
func (s *Store) Follow(m *pendingMerge, puts []Copy, removals []Removal, now time.Time) {
	for _, c := range puts {
		if s.overtaken(m, c.copyKey) {
			continue
		}
		if d, r, at := s.find(c.copyKey); at >= 0 && r.copies[at].version > c.version {
			s.delete(d, r, at, wirev1.Cause_CAUSE_WITHDRAWN, now)
		}
		s.put(c, now)
	}
	for _, r := range removals {
		if s.overtaken(m, r.copyKey) {
			continue
		}
		if d, reg, at := s.find(r.copyKey); at >= 0 {
			s.delete(d, reg, at, r.cause, now)
		}
	}
}

// Adopt returns loaded, a complete snapshot, as the successor of s. It keeps
// what sessions have written here since m began. s must not be used afterwards.
func (s *Store) Adopt(m *pendingMerge, loaded *Store, now time.Time) *Store {
	loaded.Raise(s.counter)
	for key := range s.touched {
		if !s.overtaken(m, key) {
			continue
		}
		if d, r, at := loaded.find(key); at >= 0 {
			loaded.delete(d, r, at, wirev1.Cause_CAUSE_WITHDRAWN, now)
		}
		if _, r, at := s.find(key); at >= 0 {
			loaded.put(copyOf(key.data, r, r.copies[at]), now)
		}
	}
	for id, d := range s.data {
		if now.Before(d.until) {
			loaded.datum(id).until = d.until
		}
	}
	loaded.merges, loaded.writes, loaded.touched = s.merges, s.writes, s.touched
	loaded.unexplained, loaded.until, loaded.incomplete = s.unexplained, s.until, s.incomplete
	return loaded
}
