package elector

import (
	"time"

	"conclave"
)

// Observe takes in a beat that the leader has pushed after the store had
// acknowledged it. While beats arrive, a follower does not poll: it reads the
// store at each SafetyRead, and when two beats have been missed. Number, Leader
// and Beat must be set, and Address and Lease too if the term is new.
func (e *Elector) Observe(t Term) {
	if t.Number == 0 || t.Leader.IsZero() || t.Leader == e.cfg.ID {
		return
	}
	e.mu.Lock()
	s := &e.shared
	if !e.raise(t.Number) {
		e.unlock()
		return
	}
	if l := s.lead; l != nil && l.term.Number < t.Number {
		e.apply(losesTerm, ErrOutranked)
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
		e.wake.Set() // read the store: the strategy may want to wait for the new leader's witness
	} else {
		e.rearm.Set()
	}
}

// Suspect reports that the stream from the leader broke. The store is read at
// once, and then each quarter beat until there is another leader, a pushed beat,
// or a second new beat in the store. (The statement of a dead leader's last beat
// may be executed after its death. A node that slept to the end of the lease would
// find that beat only then, and would have to wait for a second lease.)
func (e *Elector) Suspect() {
	e.mu.Lock()
	e.shared.unsettled, e.shared.sightings = true, 0
	e.shared.pushed = time.Time{}
	e.mu.Unlock()
	e.wake.Set()
}

// Seen reports that a term this high has been seen somewhere, for instance by a
// receiver that refused this node's term as stale. A leader of a lower term stops
// acting; if the store still names it, its next round wins a term above the one
// that was seen.
func (e *Elector) Seen(term uint64) {
	e.mu.Lock()
	higher := e.raise(term)
	if l := e.shared.lead; higher && l != nil && l.term.Number < term {
		e.apply(losesTerm, ErrOutranked)
	} else {
		higher = false
	}
	e.unlock()
	if higher {
		e.wake.Set()
	}
}

// raise records a term seen elsewhere. It returns false, and records nothing, if
// the number is too high to be true. mu is held.
func (e *Elector) raise(term uint64) bool {
	s := &e.shared
	if term > s.highest+conclave.MaxJump {
		e.note(e.log.Error, "ignored a term that is too high to be true", "term", term, "highest", s.highest)
		return false
	}
	if term > s.highest+1 && s.highest > 0 {
		e.note(e.log.Info, "a higher term was seen elsewhere", "term", term, "highest", s.highest)
	}
	s.highest = max(s.highest, term)
	return true
}

// Wake makes the loop play a round at once. Call it when a leader's fenced write
// matched no row, so that it may have been deposed.
func (e *Elector) Wake() { e.wake.Set() }

// queueTime is how long a candidate that waits in a queue leaves a resigned term to
// those before it, and the node that has resigned it to the others. An election takes about
// 10 ms.
const queueTime = 30 * time.Millisecond

// Resigned makes the loop play a round because the leader of term has resigned: at
// once, or, if the strategy waits in a queue for that leader's end, after a time in
// which the candidates before this one can win. Their statements and this node's
// would delay each other. It changes nothing if this node knows of a later term, or
// that a later one was resigned; repeated, it does not put the round off.
func (e *Elector) Resigned(term uint64) {
	at := time.Now()
	if q, ok := e.cfg.Strategy.(Queuer); ok && q.WaitingFor() == term {
		at = at.Add(queueTime)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &e.shared
	pending := !s.resignedDue.IsZero()
	switch {
	case term < s.last.Number, pending && term < s.resigned:
		return
	case pending && term == s.resigned:
		at = earlier(at, s.resignedDue)
	}
	s.resigned, s.resignedDue = term, at
	e.rearm.Set()
}

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
		s.neverAgain = max(s.neverAgain, term)
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
