package elector

import "time"

// maxJump bounds how far a term seen elsewhere may raise ours: a broken peer must
// not be able to use the numbers up.
const maxJump = 1 << 40

// Observe takes in a beat that the leader has pushed, after the store had
// acknowledged it. While beats come a follower does not poll: it reads each
// SafetyRead, and when two beats have been missed. Number, Leader and Beat are
// needed; Address and Lease too when the term is new.
func (e *Elector) Observe(t Term) {
	if t.Number == 0 || t.Leader.IsZero() || t.Leader == e.cfg.ID {
		return
	}
	e.mu.Lock()
	s := &e.state
	if !e.raise(t.Number) {
		e.unlock()
		return
	}
	if l := s.lead; l != nil && l.term.Number < t.Number {
		l.resigning = false
		e.endLeadership(l, ErrOutranked)
	}
	if t.Number == s.last.Number {
		t.Address, t.Lease = s.last.Address, s.last.Lease
	} else if t.Lease <= 0 {
		t.Lease = e.cfg.Lease
	}
	changed := !t.Same(s.last)
	news := e.learn(t, true)
	if changed && t.Same(s.last) {
		s.pushed = time.Now()
	}
	e.unlock()
	if news {
		nudge(e.wake) // read the row: the strategy may want to stand by the new leader
	} else {
		nudge(e.rearm)
	}
}

// Suspect says that the stream to the leader broke. The store is read at once, and
// then each quarter beat until it is settled: another leader, pushed beats again,
// or two beats seen in the store. (A beat may land after its sender's death; who
// only slept to the lease's end would then wait for a second lease.)
func (e *Elector) Suspect() {
	e.mu.Lock()
	e.state.unsettled, e.state.sightings = true, 0
	e.state.pushed = time.Time{}
	e.mu.Unlock()
	nudge(e.wake)
}

// Seen says that a term this high has been seen somewhere, for instance by a
// receiver that refused ours as too low. A leader of a lower term stops acting; if
// the store still names it, it wins the next term above that from itself.
func (e *Elector) Seen(term uint64) {
	e.mu.Lock()
	higher := e.raise(term)
	if l := e.state.lead; higher && l != nil && l.term.Number < term {
		l.resigning = false
		e.endLeadership(l, ErrOutranked)
	} else {
		higher = false
	}
	e.unlock()
	if higher {
		nudge(e.wake)
	}
}

// raise notes a term seen elsewhere; false when it cannot be true. mu is held.
func (e *Elector) raise(term uint64) bool {
	s := &e.state
	if term > s.highest+maxJump {
		e.note(e.log.Error, "a term too high to be true is ignored", "term", term, "highest", s.highest)
		return false
	}
	if term > s.highest+1 && s.highest > 0 {
		e.note(e.log.Info, "a higher term was seen elsewhere", "term", term, "highest", s.highest)
	}
	s.highest = max(s.highest, term)
	return true
}

// Wake plays a round now: a peer says that it resigned, or a fenced write of a
// leader matched nothing, so that it may have been deposed.
func (e *Elector) Wake() { nudge(e.wake) }
