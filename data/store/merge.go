package store

import (
	"slices"
	"time"

	"conclave"
	wirev1 "conclave/wire/v1"
)

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

// Pending reports whether a merge is open.
func (s *Store) Pending() bool { return len(s.merges) > 0 }

// lastWrite is the number of a session's last write to a copy, and the highest
// version that the session has removed.
type lastWrite struct {
	number  uint64
	removed int64
}

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
