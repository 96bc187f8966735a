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

// Lateness measures by how much its owner is late: it has a periodic timer, and
// if that fires late, the process was suspended, had no processor or was
// collecting garbage. What arrived in that time could not be read, so it does
// not count as silence of those who sent it. The owner delays by it what it decides
// because nothing has arrived (Table.Delay), and nothing else: a term, a fence or a
// lock of the owner's ends when it ends for all others.
//
// The delay is bounded by ticks of the timer: all time that is not late counts as
// silence. If the timer is set to w each time, a silence of d is noticed within
// d/w ticks, rounded up, however late they are.
//
// Like a Table it has no clock and no goroutine, and is guarded by its owner.
type Lateness struct {
	due time.Time // of the next tick; what is later was not yet returned
}

// NewLateness returns the lateness of a timer that fires in wait.
func NewLateness(now time.Time, wait time.Duration) *Lateness {
	return &Lateness{due: now.Add(wait)}
}

// Take returns by how much the owner is late that no earlier call has returned.
// It is called before something that has just arrived is recorded and before
// silence is judged, since after a suspension these may come before the tick.
func (l *Lateness) Take(now time.Time) (late time.Duration) {
	late = max(0, now.Sub(l.due))
	l.due = l.due.Add(late)
	return late
}

// Tick is Take for an owner whose timer has fired and fires again in wait.
func (l *Lateness) Tick(now time.Time, wait time.Duration) (late time.Duration) {
	late = l.Take(now)
	l.due = now.Add(wait)
	return late
}

// Silence judges whether a peer has sent nothing for too long. Its owner calls
// Round whenever its timer fires, and sets the timer to what Round returns: the
// time by which rounds are late is not the peer's silence (Lateness).
type Silence struct {
	round    time.Duration // the longest time between two rounds
	limit    time.Duration
	last     time.Time // when something was received, later by what was late since
	lateness *Lateness
}

// NewSilence returns the judgement of a peer that has limit for its first message,
// with rounds of at most round. The timer is to be set to First.
func NewSilence(now time.Time, limit, round time.Duration) *Silence {
	s := &Silence{round: round, limit: limit, last: now}
	s.lateness = NewLateness(now, s.First())
	return s
}

// First returns the time to the first round.
func (s *Silence) First() time.Duration { return min(s.round, s.limit) }

// Received records a message, whatever it is: the peer has limit for the next one.
func (s *Silence) Received(now time.Time, limit time.Duration) {
	s.lateness.Take(now)
	s.last, s.limit = now, limit
}

// Round reports whether the peer was silent for the limit. If not, next is the
// time to the next round.
func (s *Silence) Round(now time.Time) (next time.Duration, over bool) {
	s.last = s.last.Add(s.lateness.Take(now))
	next = min(s.round, s.last.Add(s.limit).Sub(now))
	if next <= 0 {
		return 0, true
	}
	s.lateness.Tick(now, next)
	return next, false
}
