package elector

import "conclave/internal/trace"

// Testify answers a peer that was given the lock that stands for the leader of
// term: is that leader alive? It asks at the leader's port before it takes over.
//
// "Alive" (true) is said only by who leads that very term and trusts itself; if
// the lock is its present one, its hold is broken, so it stops acting until it has
// mended it. "Stopped" (false) is a promise: this node never leads that term or a
// lower one from now on, not even if the store's OK to its own win or renewal is
// still on the way.
func (e *Elector) Testify(term uint64, lock string) (alive bool) {
	e.mu.Lock()
	s := &e.state
	l := s.lead
	alive = l != nil && l.trusted() && l.term.Number == term && term > s.left
	if alive {
		e.stats.alive.Add(1)
	} else if e.raise(term) { // so that a win after this is above the promise
		e.stats.promised.Add(1)
		s.left = max(s.left, term)
		e.cfg.Trace.Claim(trace.Claim{Kind: trace.Promised, Node: e.cfg.ID, Term: term})
		if l != nil && l.term.Number <= term {
			l.resigning = false
			e.endLeadership(l, ErrPromised)
		}
	}
	e.unlock()

	if d, ok := e.cfg.Strategy.(Doubter); ok && alive {
		d.Doubt(lock)
	}
	return alive
}
