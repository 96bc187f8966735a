package elector

import "time"

// ConfirmLeading answers a peer that was given the lock that stands for the
// leader of term. Before it takes over, the peer asks at the leader's port
// whether that leader is still alive.
//
// ConfirmLeading returns true only if this node leads that very term and trusts
// itself. If lock is the lock that it believes it holds, its hold on it is broken;
// then the leader does not act until it has reacquired it. False is a promise:
// this node never leads that term or a lower one from now on, even if the
// acknowledgement of its own win or renewal arrives later. A term more than
// conclave.MaxJump above Highest is not promised away, because a hostile peer could
// name one to keep this node from ever leading. (A node that has seen no term yet, on
// a database with such terms, may therefore win this one late. It is deposed when the
// peer has won the next.)
func (e *Elector) ConfirmLeading(term uint64, lock string) bool {
	e.mu.Lock()
	s := &e.shared
	l := s.lead
	alive := s.stateAt(time.Now(), false) == Leading && l.term.Number == term
	if alive {
		e.shared.stats.Alive++
	} else if e.raise(term) { // so that every later win is above the promised term
		e.shared.stats.Promised++
		s.left = max(s.left, term)
		e.cfg.Trace(Event{Kind: EventPromised, Term: term})
		if l != nil && l.term.Number <= term {
			e.apply(losesTerm, ErrPromised)
		}
	}
	e.unlock()

	if d, ok := e.cfg.Strategy.(Doubter); ok && alive {
		d.Doubt(lock)
	}
	return alive
}
