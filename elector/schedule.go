package elector

import "time"

// nextRound returns when the next round is due, which Status shows. What the last one has
// found is a change of the status.
func (e *Elector) nextRound() time.Time {
	suspended := e.suspended()
	e.mu.Lock()
	defer e.unlock()
	e.apply(witness(suspended), nil)
	e.shared.next = e.due(suspended)
	if l := e.shared.lead; l == nil || l.stop != nil { // a win is a change once Lead is called
		e.put()
	}
	return e.shared.next
}

// due returns when the next round is due; mu is held.
func (e *Elector) due(suspended bool) time.Time {
	s, now, beat := &e.shared, time.Now(), e.cfg.Beat
	jitter := time.Duration(e.cfg.Rand.Int64N(int64(beat/50) + 1))
	state := s.stateAt(now, false)
	until, awaitsLead := e.awaitsLead(now)
	switch {
	case awaitsLead:
		return until
	case s.again:
		return now
	case !state.ownsTerm() && s.last.Number <= s.resigned && !s.resignedDue.IsZero():
		return s.resignedDue
	case state.holds():
		return e.nextRenewal(suspended, jitter)
	case s.failures > 0:
		return s.sent.Add(doubled(beat/4, s.failures, beat) + jitter)
	}
	due := e.nextRead(now, jitter)
	if state == Following {
		return earlier(due, e.nextTry(now, jitter))
	}
	if now.Before(s.abstainUntil) {
		return earlier(due, s.abstainUntil.Add(jitter))
	}
	return due
}

// nextRenewal returns when a node that holds a term renews it next; mu is held.
func (e *Elector) nextRenewal(suspended bool, jitter time.Duration) time.Time {
	s, beat := &e.shared, e.cfg.Beat
	switch {
	case suspended: // it may not act until it has its witness again
		return s.sent.Add(doubled(2*time.Millisecond, s.failures, beat/4) + jitter/10)
	case s.failures > 0:
		return s.sent.Add(beat/4 - jitter)
	}
	return s.sent.Add(beat - jitter) // counted from before the last was sent, so that beats do not drift
}

// nextRead returns when a node that holds no term reads the store next: each quarter
// beat while the stream to the leader is broken; each SafetyRead while the leader's
// beats are pushed, and when two of them are missed; otherwise after Poll, and, if
// the store reports how old the last beat was, just after the next one is expected.
// With a Poll of one beat the end of the lease is then noticed a twentieth of a beat
// late instead of up to a whole beat. mu is held.
func (e *Elector) nextRead(now time.Time, jitter time.Duration) time.Time {
	s, beat, poll := &e.shared, e.cfg.Beat, e.cfg.Poll
	missed := s.pushed.Add(2*beat + jitter)
	switch {
	case s.unsettled:
		return s.sent.Add(beat/4 + jitter)
	case now.Before(missed):
		return earlier(s.sent.Add(e.cfg.SafetyRead+jitter), missed)
	case s.last.Age <= 0 || s.last.Age >= beat:
		return s.sent.Add(poll + jitter)
	}
	due := s.last.Seen.Add(beat - s.last.Age + beat/20 + jitter)
	for due.Before(s.sent.Add(poll - beat/2)) {
		due = due.Add(beat)
	}
	return earlier(due, s.sent.Add(poll+beat/2))
}

// nextTry returns when a candidate may win next: when it will have observed the
// leader's lease to its end. After that, and while no node leads, it tries each
// quarter beat. mu is held.
func (e *Elector) nextTry(now time.Time, jitter time.Duration) time.Time {
	s := &e.shared
	lease := s.last.Seen.Add(s.last.Lease + time.Millisecond + jitter/10)
	if vacant := s.last.Leader.IsZero() && s.last.Number >= s.highest; vacant || !now.Before(lease) {
		return s.sent.Add(e.cfg.Beat/4 + jitter)
	}
	return lease
}

// doubled returns a pause that was doubled so many times, and is at most most.
func doubled(pause time.Duration, times int, most time.Duration) time.Duration {
	return min(pause<<min(times, 16), most)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
