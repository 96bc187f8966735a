package elector

import (
	"context"
	"time"
)

// Resign hands the leadership over: Lead's context ends, and when Lead has
// returned, one statement gives up the term and the peers are woken. This node
// then does not compete until it learns of a new leader, for two leases at most.
//
// Resign returns when the hand-over is done. It returns ErrNotLeading if the node
// does not lead, and the cause if the leadership ended in another way before it
// could be handed over. If ctx ends first, the hand-over continues.
func (e *Elector) Resign(ctx context.Context) error {
	return e.do(ctx, func(done chan error) {
		if !e.leave(asksToResign, done) {
			done <- ErrNotLeading
		}
	})
}

// Quit makes this node an observer until JoinElection; a leader resigns first.
func (e *Elector) Quit(ctx context.Context) error {
	// A leader plays no round before its hand-over: it would renew the term that
	// it is about to give up, and the other nodes would wait for that statement.
	return e.do(ctx, func(done chan error) {
		if !e.leave(asksToQuit, done) {
			done <- nil
		}
	})
}

// JoinElection makes an observer a candidate again, and ends an abstention. It returns
// ErrStopped after Shutdown, and once Run's context has ended.
func (e *Elector) JoinElection(ctx context.Context) error {
	return e.do(ctx, func(done chan error) {
		e.mu.Lock()
		if e.shared.ends {
			e.unlock()
			done <- ErrStopped
			return
		}
		e.apply(asksToJoin, nil)
		e.shared.quit, e.shared.again = false, true
		e.shared.abstainUntil = time.Time{}
		e.unlock()
		done <- nil
	})
}

// Abstain is for a leader that can reach the store but that no other node can
// reach: it resigns and does not compete for two leases, even if no other node
// leads by then. It does so at most once in ten leases, and reports whether it
// did.
func (e *Elector) Abstain(ctx context.Context) (bool, error) {
	e.mu.Lock()
	last := e.shared.abstained
	e.unlock()
	if !last.IsZero() && time.Since(last) < 10*e.cfg.Lease {
		return false, nil
	}
	if err := e.Resign(ctx); err != nil {
		return false, err
	}
	e.mu.Lock()
	s := &e.shared
	s.abstained = time.Now()
	s.abstainUntil, s.abstainPast = s.abstained.Add(2*e.cfg.Lease), 0
	e.apply(abstains, nil)
	e.unlock()
	return true, nil
}

// leave begins a resignation, and reports whether the node held a term; done then
// receives the result of the hand-over. While a round is in progress, the node may still
// win a term that it will not lead.
func (e *Elector) leave(ev event, done chan error) bool {
	e.mu.Lock()
	defer e.unlock()
	s, quits := &e.shared, ev == asksToQuit
	s.quit = s.quit || quits
	if !e.apply(ev, ErrResigned).holds() {
		s.again = s.again || quits // a round as an observer lets the strategy release what only a candidate needs
		return false
	}
	s.lead.waiters = append(s.lead.waiters, done)
	return true
}

// do runs a command in the loop, between two rounds, and waits for its result. If
// Run has not been called yet, it waits for that, too.
func (e *Elector) do(ctx context.Context, command func(done chan error)) error {
	done := make(chan error, 1) // so that the loop never waits for the caller
	select {
	case e.commands <- func() { command(done) }:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.done:
		return ErrStopped
	}
	return e.result(ctx, done)
}

// result waits for the result of a command.
func (e *Elector) result(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-e.done:
		return ErrStopped
	}
}
