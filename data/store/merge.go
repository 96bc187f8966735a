package store

import (
	"slices"
	"time"

	"conclave"
	wirev1 "conclave/wire/v1"
)

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
