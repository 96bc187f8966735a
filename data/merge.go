package data

import (
	"time"

	"conclave"
	wirev1 "conclave/wire/v1"
)

// What was decided elsewhere some time ago (a session's answer to a diff, the
// old leader's feed) is merged while sessions go on writing here. A flight is
// the time between the decision and its arrival: whatever the owner session
// itself wrote here during the flight is newer, and wins.
//
// Without that rule a withdrawn registration comes back: (1) the session
// answers a diff, R is in it; (2) R's client goes, the session writes the
// removal; (3) the removal arrives before the answer does.
//
// A flight belongs to one leadership of the slot, and no longer than that one
// lasts: replica.enter grounds it when the leadership ends. What a grounded
// flight brings is not merged, and its End changes nothing, however late it
// comes. A nil flight belongs to a follower: no session writes to it, so the
// leader's feed overtakes everything that is here.
type flight struct{ since uint64 }

// Begin starts a flight. It is open until End or Ground.
func (s *Store) Begin() *flight {
	if s.flights == nil {
		s.flights, s.touched = map[*flight]bool{}, map[copyKey]uint64{}
	}
	f := &flight{s.writes}
	s.flights[f] = true
	return f
}

// End ends one flight, if it is open.
func (s *Store) End(f *flight) {
	delete(s.flights, f)
	if len(s.flights) == 0 {
		s.Ground()
	}
}

// Ground ends every flight.
func (s *Store) Ground() { s.flights, s.touched = nil, nil }

// open reports whether what the flight brings may be merged here.
func (s *Store) open(f *flight) bool { return s.flights[f] }

// touch notes that a session writes a copy of its own.
func (s *Store) touch(key copyKey) {
	if len(s.flights) > 0 {
		s.writes++
		s.touched[key] = s.writes
	}
}

// overtaken reports whether the owner wrote the copy since the flight began.
func (s *Store) overtaken(f *flight, key copyKey) bool { return f != nil && s.touched[key] > f.since }

// Merge takes one owner's answer to a diff: additions before removals, so that
// nothing vanishes between them. It counts what changed. The flight is open.
func (s *Store) Merge(f *flight, owner conclave.NodeID, puts []conclave.Publisher, removed []Copy, now time.Time) (added, taken int) {
	for _, p := range puts {
		c := copyFrom(owner, p)
		if !s.overtaken(f, c.copyKey) && s.put(c, now) {
			added++
		}
	}
	for _, c := range removed {
		if !s.overtaken(f, c.copyKey) && s.remove(c.copyKey, c.version, wirev1.Cause_CAUSE_DIFF, now) {
			taken++
		}
	}
	return added, taken
}

// Removal is one that a leader's feed tells of.
type Removal struct {
	copyKey
	cause wirev1.Cause
}

// Follow takes a part of a leader's feed. What the leader decided is done: a put
// here may be a lower version than the one held (the owner's copy went and came
// back in between), and a removal asks no more what it hides.
func (s *Store) Follow(f *flight, puts []Copy, removals []Removal, now time.Time) {
	for _, c := range puts {
		if s.overtaken(f, c.copyKey) {
			continue
		}
		if d, r, at := s.find(c.copyKey); at >= 0 && r.copies[at].version > c.version {
			s.take(d, r, at, wirev1.Cause_CAUSE_WITHDRAWN, now)
		}
		s.put(c, now)
	}
	for _, r := range removals {
		if s.overtaken(f, r.copyKey) {
			continue
		}
		if d, reg, at := s.find(r.copyKey); at >= 0 {
			s.take(d, reg, at, r.cause, now)
		}
	}
}

// Adopt puts a freshly loaded snapshot in the place of what was held, but for
// what sessions wrote here since the flight began. The old store is done with.
func (s *Store) Adopt(f *flight, loaded *Store, now time.Time) *Store {
	loaded.Raise(s.counter)
	for key := range s.touched {
		if !s.overtaken(f, key) {
			continue
		}
		if d, r, at := loaded.find(key); at >= 0 {
			loaded.take(d, r, at, wirev1.Cause_CAUSE_WITHDRAWN, now)
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
	loaded.flights, loaded.writes, loaded.touched = s.flights, s.writes, s.touched
	loaded.unexplained, loaded.until = s.unexplained, s.until
	return loaded
}
