package elector

import "time"

// State returns the node's present state.
func (e *Elector) State() State {
	suspended := e.suspended()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.shared.stateAt(time.Now(), suspended)
}

// suspended reports whether the strategy's hold on the term is broken. It is called
// without mu, because the strategy has locks of its own.
func (e *Elector) suspended() bool {
	s, ok := e.cfg.Strategy.(Suspender)
	return ok && s.Suspended()
}

// apply brings the state up to date with the clock, takes the event in, and returns
// what is left to be done by the caller. why is the cause if the node's right to
// act ends. mu is held.
func (e *Elector) apply(ev event, why error) action {
	s, now := &e.shared, time.Now()
	if s.trustOver(now) {
		e.step(losesTerm, ErrTrust)
	}
	if !s.abstaining(now) {
		e.step(abstentionEnds, nil)
	}
	return e.step(ev, why)
}

// step makes one transition; mu is held.
func (e *Elector) step(ev event, why error) action {
	s := &e.shared
	from := s.state
	next, do := from.on(ev)
	s.state = next
	if do.has(doImpossible) {
		e.note(e.log.Error, "an event that cannot occur in this state", "event", ev.String(), "state", from.String())
	}
	if do.has(doForgo) {
		s.left = max(s.left, s.lead.term.Number)
		s.lead.ended = why
	}
	if do.has(doStop) {
		e.stopLeading(s.lead, why)
	}
	if do.has(doAgain) {
		s.again = true
	}
	return do
}

// stateAt returns the state at the given time; mu is held. The end of trust, the end
// of an abstention and a broken witness count at once, also if the loop has not
// taken them in yet. Without suspended, a suspended leader counts as Leading.
func (s *shared) stateAt(now time.Time, suspended bool) State {
	state := s.state
	if s.trustOver(now) {
		state, _ = state.on(losesTerm)
	}
	if !s.abstaining(now) {
		state, _ = state.on(abstentionEnds)
	}
	state, _ = state.on(witness(suspended))
	return state
}

// witness returns the event that the strategy reports.
func witness(suspended bool) event {
	if suspended {
		return losesWitness
	}
	return reacquiresWitness
}

// trustOver reports whether the trust in the term has ended; mu is held.
func (s *shared) trustOver(now time.Time) bool { return s.lead != nil && !now.Before(s.lead.until) }

// abstaining reports whether the node leaves the election to the others: until
// JoinElection after Quit, otherwise until a time or until another node has been
// elected. mu is held.
func (s *shared) abstaining(now time.Time) bool {
	switch {
	case s.quit:
		return true
	case !now.Before(s.abstainUntil):
		return false
	}
	successor := s.abstainPast != 0 && s.last.Number > s.abstainPast
	return !successor
}

// awaitsLead reports whether the next round waits for Lead to return, which it does
// for one beat after the term has ended. After that the node plays as an observer:
// it only reads, and gives up the term if the store still names it. mu is held.
func (s *shared) awaitsLead(now time.Time, beat time.Duration) bool {
	return s.stateAt(now, false) == WindingDown && now.Sub(s.lead.endedAt) < beat
}
