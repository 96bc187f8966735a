package elector

import (
	"context"
	"errors"
	"time"
)

// round plays one round of the election and applies its result. It is the only
// caller of Strategy.Round.
func (e *Elector) round(ctx context.Context) {
	// 1. The part that this node has in the round.
	e.mu.Lock()
	s := &e.shared
	if _, awaits := e.awaitsLead(time.Now()); awaits || ctx.Err() != nil { // or Run is ending
		e.unlock()
		return
	}
	me, last, lead := e.candidate(), s.last, s.lead
	s.again = false
	s.sent = time.Now()
	s.next = s.sent
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
	if !next.Sent.IsZero() {
		sent = next.Sent
	}
	until := trust(sent, e.cfg.Lease, e.cfg.Margin)
	e.mu.Lock()
	if ctx.Err() != nil { // Run's end waits for no Lead that is not there yet
		e.unlock()
		return
	}
	s.sent = sent
	if s.failures > 0 {
		e.note(e.log.Info, "the store answers again", "failures", s.failures)
		s.failures, s.err = 0, nil
	}
	s.reasons.Forget("round")
	s.highest = max(s.highest, next.Number)
	var begun, renewed, refused *leadership
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
		// Never led: the next round finds this node in the store and wins the next. One
		// that observes by now may play no other, and has a beat to give up what it has won.
		why := "this node only observes"
		switch {
		case next.Number <= s.neverAgain:
			why = "it was left or promised away before"
		case !inTime:
			why = "the answer came too late"
		}
		if s.abstaining(time.Now()) {
			refused = &leadership{term: e.stamp(next), until: time.Now().Add(e.cfg.Beat)}
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
	case refused != nil:
		_ = e.handOver(ctx, refused) // it has logged why not
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

// failed counts a round without an answer. If its reason is new, that is a change and a
// WARN, which is repeated while the reason lasts, once in ten leases.
func (e *Elector) failed(me Candidate, err error) {
	e.mu.Lock()
	defer e.unlock()
	s, level := &e.shared, e.log.Debug
	s.failures++
	s.stats.Failed++
	s.err = err
	if s.reasons.New("round", err, 10*e.cfg.Lease) {
		level = e.log.Warn
		if !errors.Is(err, s.shown.Err) {
			s.shown.Err = nil // another reason is a change
		}
		e.put()
	}
	e.note(level, "round failed, will retry", "holding", me.Holding, "failures", s.failures, "error", err)
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
		if !pushed {
			s.silent = !next.Leader.IsZero() && next.Leader != e.cfg.ID && !s.sent.Before(last.Seen.Add(last.Lease))
		}
		return false
	}
	s.silent = false
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
		if next.Number != last.Number {
			s.why = ""
		}
		if !s.abstaining(next.Seen) {
			e.step(abstentionEnds, nil)
		}
		e.put()
		e.note(e.log.Info, "the store records", "term", next.Number, "leader", next.Leader.String(), "address", next.Address)
	}
	return news
}
