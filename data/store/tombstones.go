package store

import (
	"maps"
	"slices"
	"time"

	wirev1 "conclave/wire/v1"
)

// Compact deletes the tombstones that arrived at or before the given time and
// hide nothing any more, and then prunes.
func (s *Store) Compact(before, now time.Time) {
	for _, t := range s.tombstones {
		if t.at.After(before) {
			break // so did all that follow
		}
		_, r, at := s.find(t.Key)
		if at >= 0 && r.copies[at].version == t.version && !r.hides(t.version) {
			s.remove(t.Key, t.version, wirev1.Cause_CAUSE_WITHDRAWN, now)
		}
	}
	s.Prune(now)
}

// Prune frees the records of deleted copies, marks that have ended, data without
// copies and marks, and old contents. It visits only what has lost its copies or
// has changed lately, not every datum. It deletes no copy: in a follower's store only its leader decides that.
func (s *Store) Prune(now time.Time) {
	s.tombstones = slices.DeleteFunc(s.tombstones, func(t tombstoneRecord) bool {
		_, r, at := s.find(t.Key)
		return at < 0 || r.copies[at].version != t.version // deleted or replaced
	})
	empty := s.emptied
	s.emptied = nil
	for id := range empty {
		if d := s.data[id]; d != nil {
			s.forgetIfEmpty(d, now)
		}
	}
	if s.bases.expire(now); len(s.bases) == 0 {
		s.bases = nil // a map keeps the size that it had
	}
	maps.DeleteFunc(s.marked, func(_ string, m mark) bool { return !now.Before(m.until) })
	if len(s.marked) == 0 {
		s.marked = nil
	}
}
