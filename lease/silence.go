package lease

import "time"

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
