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

// facts are what a node's state follows from.
type facts struct {
	leadership bool // from the win until Lead has returned
	trusted    bool // the end of trust is in the future
	left       bool // the term was left, lost or promised away
	ended      bool // the right to act has ended,
	resigning  bool // by a resignation
	suspended  bool // the strategy's hold on the term is broken
	abstains   bool // an observer, or a node that leaves this election to the others
}

// state returns the state that the facts amount to.
func (f facts) state() State {
	switch {
	case !f.leadership && f.abstains:
		return Observing
	case !f.leadership:
		return Following
	case !f.trusted || f.left:
		return WindingDown
	case f.resigning:
		return Resigning
	case f.ended:
		return WindingDown
	case f.suspended:
		return Suspended
	}
	return Leading
}

// stateAt returns the state at the given time; mu is held. Without suspended, a
// suspended leader counts as Leading.
func (s *shared) stateAt(now time.Time, suspended bool) State {
	f := facts{suspended: suspended, abstains: s.observer || s.abstaining(now)}
	if l := s.lead; l != nil {
		f.leadership, f.ended, f.resigning = true, l.ended != nil, l.resigning
		f.trusted = now.Before(l.until)
		f.left = l.term.Number <= s.left
	}
	return f.state()
}

// abstaining reports whether the node leaves this election to the others; mu is
// held.
func (s *shared) abstaining(now time.Time) bool {
	if !now.Before(s.abstainUntil) {
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
