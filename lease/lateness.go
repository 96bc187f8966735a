package lease

import (
	"time"
)

// Lateness measures by how much its owner is late: it has a periodic timer, and
// if that fires late, the process was suspended, had no processor or was
// collecting garbage. What arrived in that time could not be read, so it does
// not count as silence of those who sent it. The owner delays by it what it decides because
// nothing has arrived (Table.Delay), and nothing else: a term, a fence or a lock
// of the owner's ends when it ends for all others.
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
