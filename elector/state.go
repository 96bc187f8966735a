package elector

import (
	"fmt"
	"time"
)

// State is what a node does in the election now. The package comment has the
// diagram and the table of its transitions.
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
	winsLate                       // a round won a term that the node may not lead any more
	renews                         // a round renewed the term in time
	losesTerm                      // deposed, outranked, promised away, trust ended, or stopped
	losesWitness                   // the strategy reports that its hold on the term is broken,
	reacquiresWitness              // or is whole
	leadReturns                    // Lead has returned
	closesTerm                     // the term is handed over or lost, and Lead has returned
)

// String returns the event as the package comment has it.
func (ev event) String() string {
	return [...]string{
		"JoinElection", "Quit", "Resign", "abstains", "abstention ends", "won", "won late", "renewed", "term lost",
		"witness lost", "witness reacquired", "Lead has returned", "term closed",
	}[ev]
}

// action is what has to be done when an event arrives, as a set.
type action int

const (
	doAgain      action = 1 << iota // the next round is due at once
	doStop                          // the right to act ends, and with it Lead's context
	doForgo                         // the node never leads this term again
	doBegin                         // the won term becomes this node's leadership
	doExtend                        // trust is extended
	doAwait                         // the caller waits for the hand-over
	doRefuse                        // the caller is refused: the node leads no term
	doHandOver                      // the term is given up in the store
	doImpossible                    // a defect: the event cannot occur in this state
)

// has reports whether a is one of the actions.
func (do action) has(a action) bool { return do&a != 0 }

// transition is what an event leads to.
type transition struct {
	to State
	do action
}

// on returns the state that follows when the event arrives, and what is to be
// done.
func (s State) on(ev event) (State, action) {
	t := transitions[ev][s]
	return t.to, t.do
}

// transitions is the state machine: one row for each event, one column for each
// state, in their order.
var transitions = [...][6]transition{
	// Observing, Following, Leading, Suspended, Resigning, WindingDown
	asksToJoin: {
		{Following, doAgain}, {Following, doAgain}, {Leading, doAgain}, {Suspended, doAgain}, {Resigning, doAgain}, {WindingDown, doAgain}},
	asksToQuit: { // a round as an observer lets the strategy release what only a candidate needs
		{Observing, doAgain}, {Observing, doAgain}, {Resigning, doStop | doAwait}, {Resigning, doStop | doAwait}, {Resigning, doAwait}, {WindingDown, doAgain}},
	asksToResign: {
		{Observing, doRefuse}, {Following, doRefuse}, {Resigning, doStop | doAwait}, {Resigning, doStop | doAwait}, {Resigning, doAwait}, {WindingDown, doRefuse}},
	abstains: {
		{Observing, 0}, {Observing, 0}, {Leading, 0}, {Suspended, 0}, {Resigning, 0}, {WindingDown, 0}},
	abstentionEnds: {
		{Following, 0}, {Following, 0}, {Leading, 0}, {Suspended, 0}, {Resigning, 0}, {WindingDown, 0}},

	wins: { // a candidate whose Abstain ended while its round was played observes
		{Observing, 0}, {Leading, doBegin}, {WindingDown, doImpossible | doStop | doForgo},
		{WindingDown, doImpossible | doStop | doForgo}, {WindingDown, doImpossible | doForgo}, {WindingDown, 0}},
	winsLate: {
		{Observing, 0}, {Following, 0}, {WindingDown, doImpossible | doStop | doForgo},
		{WindingDown, doImpossible | doStop | doForgo}, {WindingDown, doImpossible | doForgo}, {WindingDown, 0}},
	renews: {
		{Observing, doImpossible}, {Following, doImpossible}, {Leading, doExtend}, {Suspended, doExtend}, {Resigning, doExtend}, {WindingDown, 0}},
	losesTerm: {
		{Observing, 0}, {Following, 0}, {WindingDown, doStop | doForgo}, {WindingDown, doStop | doForgo}, {WindingDown, doForgo}, {WindingDown, 0}},
	losesWitness: {
		{Observing, 0}, {Following, 0}, {Suspended, 0}, {Suspended, 0}, {Resigning, 0}, {WindingDown, 0}},
	reacquiresWitness: {
		{Observing, 0}, {Following, 0}, {Leading, 0}, {Leading, 0}, {Resigning, 0}, {WindingDown, 0}},

	leadReturns: {
		{Observing, doImpossible}, {Following, doImpossible}, {Resigning, doStop | doHandOver}, {Resigning, doStop | doHandOver}, {Resigning, doHandOver}, {WindingDown, 0}},
	closesTerm: {
		{Observing, doImpossible}, {Following, doImpossible}, {Leading, doImpossible}, {Suspended, doImpossible}, {Following, doForgo | doAgain}, {Following, doAgain}},
}

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
