package store

import (
	"maps"
	"slices"
	"time"

	wirev1 "conclave/wire/v1"
)

// A mark informs the sessions' push guard (package session) that something may
// be missing: a list that has shrunk is held back while it is marked. A datum
// is marked by a removal without confirmation (delete), a whole slot by its
// leader. Marks are times, so they end by themselves.

// mark is the mark of one datum: the version of the last removal without
// confirmation, and until when it counts.
type mark struct {
	unexplained int64
	until       time.Time
}

// markDatum sets the mark of one datum.
func (s *Store) markDatum(id string, m mark) {
	if s.marked == nil {
		s.marked = map[string]mark{}
	}
	s.marked[id] = m
}

// markOf returns what is marked of a datum: its own mark and that of the slot,
// those of them that are valid.
func (s *Store) markOf(id string, now time.Time) (m mark) {
	for _, x := range []mark{s.marked[id], {s.unexplained, s.until}} {
		if now.Before(x.until) {
			m.unexplained = max(m.unexplained, x.unexplained)
			if x.until.After(m.until) {
				m.until = x.until
			}
		}
	}
	return m
}

// Marks are how much longer the marks of a slot last: what a hand-over, a
// snapshot and a holder's copy pass on.
type Marks struct{ Unconfirmed, Incomplete time.Duration }

// MarksAt returns the marks of the slot; those of its data count as the slot's.
func (s *Store) MarksAt(now time.Time) Marks { return Marks{s.Marked(now), s.Incomplete(now)} }

// inherit takes over the marks of the store that a copy came from.
func (s *Store) inherit(m Marks, now time.Time) {
	s.Mark(now.Add(m.Unconfirmed))
	s.MarkIncomplete(now.Add(m.Incomplete))
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

// Incomplete returns for how long the slot is still marked as incomplete.
func (s *Store) Incomplete(now time.Time) time.Duration { return max(0, s.incomplete.Sub(now)) }

// Marked returns how long the last mark in the slot lasts from now; a hand-over
// passes it on. One mark for the whole slot is more than is needed, but safe:
// it only makes sessions hold back lists that have shrunk.
func (s *Store) Marked(now time.Time) time.Duration {
	until := s.until
	for _, m := range s.marked {
		if m.until.After(until) {
			until = m.until
		}
	}
	return max(0, until.Sub(now))
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
