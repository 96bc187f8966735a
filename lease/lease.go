package lease

import (
	"cmp"
	"slices"
	"time"
)

// Table is a set of leases, by the keys of their holders. It has no clock and no
// goroutine: now is an argument, and the caller must prevent concurrent use, usually
// by owning the table in one goroutine.
type Table[K cmp.Ordered] struct{ deadlines map[K]time.Time }

// New returns an empty table.
func New[K cmp.Ordered]() *Table[K] { return &Table[K]{make(map[K]time.Time)} }

// Renew extends key's lease to now + duration; it never shortens one. An unknown
// key is registered: as in the original, renewing and joining are one request
// (renewNode).
func (t *Table[K]) Renew(key K, now time.Time, duration time.Duration) {
	if deadline := now.Add(duration); deadline.After(t.deadlines[key]) {
		t.deadlines[key] = deadline
	}
}

// Delay makes every lease end later by d, because its owner was late by d and
// could record no renewal (Lateness).
func (t *Table[K]) Delay(d time.Duration) {
	for key, deadline := range t.deadlines {
		t.deadlines[key] = deadline.Add(d)
	}
}

// Expire removes every lease that has expired and returns their holders, sorted. A
// lease of duration d given at t has expired at t + d.
func (t *Table[K]) Expire(now time.Time) (lost []K) {
	for key, deadline := range t.deadlines {
		if !now.Before(deadline) {
			lost = append(lost, key)
			delete(t.deadlines, key)
		}
	}
	slices.Sort(lost)
	return lost
}

// NextExpiry returns the earliest time at which Expire may find an expired
// lease, and whether there are any leases.
func (t *Table[K]) NextExpiry() (next time.Time, any bool) {
	for _, deadline := range t.deadlines {
		if !any || deadline.Before(next) {
			next, any = deadline, true
		}
	}
	return next, any
}

// Cancel removes key's lease, if it has one.
func (t *Table[K]) Cancel(key K) { delete(t.deadlines, key) }

// Remaining returns how long key's lease still lasts: zero if it has expired or
// is unknown.
func (t *Table[K]) Remaining(key K, now time.Time) time.Duration {
	return max(0, t.deadlines[key].Sub(now))
}
