package elector

import (
	"fmt"
	"time"
)

// State is what a node does in the election now. The package comment has the
// diagram of its transitions.
type State int

// The states of a node.
const (
	Observing   State = iota // reads the store and does not compete
	Following                // reads the store and competes when the strategy allows it
	Leading                  // holds a term and may act
	Suspended                // holds a term, but may not act until it has its witness again
	Resigning                // may not act; renews its term until Lead has returned, then hands it over
	WindingDown              // may not act; its term has ended, and Lead has not returned
)

// String returns the state for logs.
func (s State) String() string {
	names := [...]string{"observing", "following", "leading", "suspended", "resigning", "winding down"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("state %d", int(s))
	}
	return names[s]
}

// holds reports whether the node renews a term.
func (s State) holds() bool { return s == Leading || s == Suspended || s == Resigning }

// ownsTerm reports whether the term is the node's own: it may act, once it is not
// suspended.
func (s State) ownsTerm() bool { return s == Leading || s == Suspended }

// event is what may change a node's state.
type event int

const (
	asksToJoin        event = iota // JoinElection was called
	asksToQuit                     // Quit was called
	asksToResign                   // Resign was called
	abstains                       // the node leaves this election to the others
	abstentionEnds                 // its time has passed, or another node has been elected
	wins                           // a round won a term that the node may lead
	renews                         // a round renewed the term in time
	losesTerm                      // deposed, outranked, promised away, trust ended, or stopped
	losesWitness                   // the strategy reports that its hold on the term is broken,
	reacquiresWitness              // or is whole
	leadReturns                    // Lead has returned
	closesTerm                     // the term is handed over or lost, and Lead has returned
)

// String returns the event for logs, in the words of the package comment's diagram
// where that has it.
func (ev event) String() string {
	return [...]string{
		"JoinElection", "Quit", "Resign", "abstains", "abstention ends", "won", "renewed", "term lost",
		"witness lost", "witness reacquired", "Lead has returned", "term closed",
	}[ev]
}

// The entries of the table that are no states.
const (
	same  State = -1 // the event changes nothing
	never State = -2 // a defect: the event cannot occur in this state
)

// transitions is the state machine: the state that follows each event.
var transitions = [...][6]State{
	//                 Observing, Following, Leading, Suspended, Resigning, WindingDown
	asksToJoin:        {Following, same, same, same, same, same},
	asksToQuit:        {same, Observing, Resigning, Resigning, same, same},
	asksToResign:      {same, same, Resigning, Resigning, same, same},
	abstains:          {same, Observing, same, same, same, same},
	abstentionEnds:    {Following, same, same, same, same, same},
	wins:              {same, Leading, never, never, never, same}, // Abstain may make it an observer during the round
	renews:            {never, never, same, same, same, same},
	losesTerm:         {same, same, WindingDown, WindingDown, WindingDown, same},
	losesWitness:      {same, same, Suspended, same, same, same},
	reacquiresWitness: {same, same, same, Leading, same, same},
	leadReturns:       {never, never, Resigning, Resigning, same, same},
	closesTerm:        {never, never, never, never, Following, Following},
}

// after returns the state that follows the event, and false if that is a defect: then a
// held term ends, or nothing changes. (A term is closed only after Lead has returned, so
// no node stays in WindingDown by that.)
func (s State) after(ev event) (to State, ok bool) {
	switch to := transitions[ev][s]; {
	case to == same:
		return s, true
	case to != never:
		return to, true
	case s.holds():
		return WindingDown, false
	}
	return s, false
}

// suspended reports whether the strategy's hold on the term is broken. It is called
// without mu, because the strategy has locks of its own.
func (e *Elector) suspended() bool {
	s, ok := e.cfg.Strategy.(Suspender)
	return ok && s.Suspended()
}

// apply brings the state up to date with the clock, takes the event in, and returns
// the state that follows. why is the cause if the node's right to act ends. mu is
// held.
func (e *Elector) apply(ev event, why error) State {
	s, now := &e.shared, time.Now()
	if s.trustOver(now) {
		e.step(losesTerm, ErrTrust)
	}
	if !s.abstaining(now) {
		e.step(abstentionEnds, nil)
	}
	return e.step(ev, why)
}

// step makes one transition; mu is held. A term that is not renewed any more is
// never led again, and Lead's context ends when the right to act does.
func (e *Elector) step(ev event, why error) State {
	s := &e.shared
	from := s.state
	to, ok := from.after(ev)
	s.state = to
	if !ok {
		e.note(e.log.Error, "an event that cannot occur in this state", "event", ev.String(), "state", from.String())
	}
	if from.holds() && !to.holds() {
		s.neverAgain = max(s.neverAgain, s.lead.term.Number)
		s.lead.ended = why
		s.lead.timer.Stop()
	}
	if to != from {
		s.since = e.cfg.Now()
	}
	switch {
	case from.ownsTerm() && !to.ownsTerm():
		e.stopLeading(s.lead, why)
	case to != from && ev != wins: // a win is a change once Lead is called
		e.put()
	}
	return to
}

// stateAt returns the state at the given time; mu is held. The end of trust, the end
// of an abstention and a broken witness count at once, also if the loop has not
// taken them in yet. Without suspended, a suspended leader counts as Leading.
func (s *shared) stateAt(now time.Time, suspended bool) State {
	state := s.state
	if s.trustOver(now) {
		state, _ = state.after(losesTerm)
	}
	if !s.abstaining(now) {
		state, _ = state.after(abstentionEnds)
	}
	state, _ = state.after(witness(suspended))
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

// awaitsLead reports whether the next round waits for Lead to return, and until when at
// most: a beat after the lease has expired. After that the node plays as an observer: it
// drops the witness, reads, and gives up the term if the store still names it. mu is held.
func (e *Elector) awaitsLead(now time.Time) (until time.Time, awaits bool) {
	s := &e.shared
	if s.stateAt(now, false) != WindingDown {
		return time.Time{}, false
	}
	until = s.lead.until.Add(e.cfg.Margin + e.cfg.Beat)
	return until, now.Before(until)
}
