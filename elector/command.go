package elector

import (
	"context"
	"time"
)

// Resign hands the leadership over: Lead's context ends, and when Lead has
// returned one statement gives the term back and the peers are woken. This node
// then observes until it is told of a new leader, or for two leases. It returns
// when that is done; ErrNotLeading when there was nothing to resign, and the
// reason when the leadership ended otherwise before it could be handed over. If
// ctx ends first the hand-over goes on.
func (e *Elector) Resign(ctx context.Context) error {
	return e.ask(ctx, e.resign)
}

// Quit makes this node an observer until JoinElection; a leader resigns first.
func (e *Elector) Quit(ctx context.Context) error {
	return e.ask(ctx, func(done chan error) {
		e.mu.Lock()
		s := &e.state
		s.observer = true
		leading := s.lead != nil && s.lead.held()
		if !leading {
			// The strategy lets go of what only a candidate needs. A leader does so after
			// its hand-over: a round now would renew the term that is about to be given
			// back, and the others would wait for that.
			s.again = true
		}
		e.unlock()
		if leading {
			e.resign(done)
		} else {
			done <- nil
		}
	})
}

// JoinElection makes an observer a candidate again, and ends an abstention.
func (e *Elector) JoinElection(ctx context.Context) error {
	return e.ask(ctx, func(done chan error) {
		e.mu.Lock()
		e.state.observer = false
		e.state.abstainUntil = time.Time{}
		e.state.again = true
		e.unlock()
		done <- nil
	})
}

// Abstain is for a leader that is of no use, because no node reaches it although
// the store does: it resigns and stays out for two leases, whoever leads then. It
// does so at most once in ten leases and says whether it did.
func (e *Elector) Abstain(ctx context.Context) (bool, error) {
	e.mu.Lock()
	last := e.state.abstained
	e.unlock()
	if !last.IsZero() && time.Since(last) < 10*e.cfg.Lease {
		return false, nil
	}
	if err := e.Resign(ctx); err != nil {
		return false, err
	}
	e.mu.Lock()
	s := &e.state
	s.abstained = time.Now()
	s.abstainUntil, s.abstainPast = s.abstained.Add(2*e.cfg.Lease), 0
	e.unlock()
	return true, nil
}

// resign begins a resignation, in the loop; done is told when it is over.
func (e *Elector) resign(done chan error) {
	e.mu.Lock()
	l := e.state.lead
	led := l != nil && l.held()
	if led {
		l.waiters = append(l.waiters, done)
		l.resigning = true
		e.endLeadership(l, ErrResigned)
	}
	e.unlock()
	if !led {
		done <- ErrNotLeading
	}
}

// ask runs a command in the loop, between two rounds, and waits until it is done;
// before Run it waits for that, too.
func (e *Elector) ask(ctx context.Context, command func(done chan error)) error {
	done := make(chan error, 1) // the loop never waits for who asked
	select {
	case e.commands <- func() { command(done) }:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.done:
		return ErrStopped
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-e.done:
		return ErrStopped
	}
}
