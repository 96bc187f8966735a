package elector

import (
	"context"
	"time"
)

// round plays one round of the election and applies its result. It is the only
// caller of Strategy.Round.
func (e *Elector) round(ctx context.Context) {
	// 1. The part that this node has in the round.
	e.mu.Lock()
	s := &e.shared
	if s.awaitsLead(time.Now(), e.cfg.Beat) {
		e.unlock()
		return
	}
	me, last, lead := e.candidate(), s.last, s.lead
	s.again = false
	s.sent = time.Now()
	if !s.sent.Before(s.resignedDue) {
		s.resignedDue = time.Time{}
	}
	sent := s.sent
	s.stats.Rounds++
	e.unlock()

	// 2. Play. A renewal may take until trust ends. Giving up earlier would close
	// its connection and so free the witness: a stall of the database would
	// depose a healthy leader.
	play, cancel := ctx, context.CancelFunc(func() {})
	if me.Holding != 0 {
		play, cancel = context.WithDeadline(ctx, lead.until)
	}
	next, err := e.cfg.Strategy.Round(play, me, last)
	cancel()
	if ctx.Err() != nil {
		return // Run is ending: the result does not count
	}

	// 3. No answer: nothing changes, and trust ends in its time.
	if err != nil {
		e.failed(me, err)
		return
	}

	// 4. An answer. Trust counts from before the round was sent, so that a slow
	// answer does not extend it.
	until := trust(sent, e.cfg.Lease, e.cfg.Margin)
	e.mu.Lock()
	if s.failures > 0 {
		e.note(e.log.Info, "the store answers again", "failures", s.failures)
	}
	s.failures = 0
	s.reasons.Forget("round")
	s.highest = max(s.highest, next.Number)
	var begun, renewed *leadership
	mine, inTime := next.Leader == e.cfg.ID, time.Now().Before(until)
	switch {
	case me.Holding == 0 || mine && next.Number == me.Holding:
	case mine:
		e.apply(wins, ErrDeposed) // a defect of the strategy, which ends the held term
	default:
		e.apply(losesTerm, ErrDeposed)
	}
	switch {
	case !mine:
		e.learn(next, false)
	case me.Holding == next.Number:
		if inTime && e.apply(renews, nil).holds() {
			e.extend(lead, next.Beat, until)
			s.last = e.stamp(lead.term)
			renewed = lead
		}
	case next.Number > s.neverAgain && !me.Observer && inTime && e.apply(wins, ErrDeposed) == Leading:
		next = e.stamp(next)
		s.last = next
		begun = e.begin(next, until)
	default:
		// Never led: the next round finds this node in the store and wins the next.
		why := "this node only observes"
		switch {
		case next.Number <= s.neverAgain:
			why = "it was left or promised away before"
		case !inTime:
			why = "the answer came too late"
		}
		s.neverAgain = max(s.neverAgain, next.Number)
		s.again = true
		s.stats.Refused++
		e.note(e.log.Info, "won a term that is not led", "term", next.Number, "why", why)
	}
	e.unlock()

	// 5. Effects, outside the lock.
	switch {
	case begun != nil:
		e.launch(ctx, begun)
	case renewed != nil:
		e.record(ctx, renewed)
		if _, leading := e.Leading(); leading {
			e.cfg.OnBeat(next)
		}
	}
}

// roundUnlessLeading plays a round that the strategy has asked for. A leader that
// is not suspended has no use for it: it renews at its own times.
func (e *Elector) roundUnlessLeading(ctx context.Context) {
	if _, leading := e.Leading(); !leading {
		e.round(ctx)
	}
}

// candidate returns this node's part in the next round; mu is held.
func (e *Elector) candidate() Candidate {
	s := &e.shared
	me := Candidate{
		ID:      e.cfg.ID,
		Address: e.cfg.Address,
		Lease:   e.cfg.Lease,
		Beat:    e.cfg.Beat,
		Highest: s.highest,
	}
	switch state := s.stateAt(time.Now(), false); {
	case state.holds():
		me.Holding = s.lead.term.Number
	case state != Following: // also while Lead has not returned: it may not compete yet
		me.Observer = true
	}
	return me
}

// failed counts a round without an answer. It is a WARN if its reason is new, or was
// one ten leases ago.
func (e *Elector) failed(me Candidate, err error) {
	e.mu.Lock()
	defer e.unlock()
	e.shared.failures++
	e.shared.stats.Failed++
	level := e.log.Debug
	if e.shared.reasons.New("round", err, 10*e.cfg.Lease) {
		level = e.log.Warn
	}
	e.note(level, "round failed, will retry", "holding", me.Holding, "failures", e.shared.failures, "error", err)
}

// stamp returns t with the times at which this node saw it; mu is held.
func (e *Elector) stamp(t Term) Term {
	t.Seen = time.Now()
	if t.Number == e.shared.last.Number && t.Leader == e.shared.last.Leader {
		t.Since = e.shared.last.Since
	}
	if t.Since.IsZero() {
		t.Since = e.cfg.Now()
	}
	return t
}

// learn records another node's term, as read from the store or pushed by the
// leader, and reports whether the term or the leader is new. mu is held.
func (e *Elector) learn(next Term, pushed bool) (news bool) {
	s := &e.shared
	last := s.last
	older := next.Number < last.Number || next.Number == last.Number && next.Beat < last.Beat
	if older && (pushed || !s.pushed.Before(s.sent)) {
		return false // sent before what this node knows already
	}
	if next.Same(last) {
		return false
	}
	if s.unsettled && next.Number == last.Number {
		s.sightings++ // after two new beats the leader counts as alive: only the stream broke
	}
	news = next.Number != last.Number || next.Leader != last.Leader
	if pushed || news && !next.Leader.IsZero() || s.sightings >= 2 {
		s.unsettled, s.sightings = false, 0
	}
	next = e.stamp(next)
	s.last = next
	if news {
		e.put(Change{Term: next})
		e.note(e.log.Info, "the store records", "term", next.Number, "leader", next.Leader.String(), "address", next.Address)
	}
	return news
}

// nextRound returns when the next round is due.
func (e *Elector) nextRound() time.Time {
	suspended := e.suspended()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.step(witness(suspended), nil)
	s, now, beat := &e.shared, time.Now(), e.cfg.Beat
	jitter := time.Duration(e.cfg.Rand.Int64N(int64(beat/50) + 1))
	state := s.stateAt(now, false)
	switch {
	case s.awaitsLead(now, beat):
		return s.lead.endedAt.Add(beat)
	case s.again:
		return s.sent
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
