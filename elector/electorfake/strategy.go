package electorfake

import (
	"context"
	"fmt"
	"sync"

	"conclave/elector"
	"conclave/internal/signal"
)

// Strategy is one node's part in an Election. It is an elector.Strategy.
type Strategy struct {
	store store
	wake  signal.Signal

	mu     sync.Mutex
	paused chan struct{} // closed when the node wakes; nil unless it is paused
}

// store is what a node does with the row. Each is one step that other nodes see as a
// whole; after an error the outcome is unknown.
type store interface {
	look(ctx context.Context) (row, error)
	swap(ctx context.Context, old, next row) (bool, error)
}

var (
	_ elector.Strategy = (*Strategy)(nil)
	_ elector.Waker    = (*Strategy)(nil)
	_ store            = (*Election)(nil)
)

func newStrategy(s store) *Strategy { return &Strategy{store: s, wake: signal.New()} }

// Wake is for the Elector.
func (s *Strategy) Wake() <-chan struct{} { return s.wake.C() }

// Pause holds this node's rounds, so that it renews nothing, until wake is called: after
// a lease another node may lead. See "What is not guaranteed".
func (s *Strategy) Pause() (wake func()) {
	paused := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = paused
	return sync.OnceFunc(func() { close(paused) })
}

// awake waits until the node is not paused.
func (s *Strategy) awake(ctx context.Context) error {
	s.mu.Lock()
	paused := s.paused
	s.mu.Unlock()
	if paused == nil {
		return nil
	}
	select {
	case <-paused:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Round is for the Elector: it renews, competes or reads. A node whose win had no answer
// finds its name in the row, does not lead that term, and wins the next one.
func (s *Strategy) Round(ctx context.Context, me elector.Candidate, last elector.Term) (elector.Term, error) {
	if err := s.awake(ctx); err != nil {
		return elector.Term{}, err
	}
	if me.Holding == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, me.Beat/2)
		defer cancel()
	}
	r, err := s.store.look(ctx)
	for err == nil {
		next := r
		won := elector.Term{Leader: me.ID, Address: me.Address, Lease: me.Lease}
		mine := r.Owner == me.ID
		switch {
		case mine && me.Holding == r.Term && me.Holding != 0:
			next.Beat++
			won.Number, won.Beat, won.Previous = r.Term, next.Beat, r.Previous
		case mine && me.Observer:
			next, won = r.vacated(), r.term(me.ID)
		case me.Observer || me.Holding != 0 || !mayCompete(me, r, last):
			return r.term(me.ID), nil
		default:
			won.Number, won.Previous, won.Cause = max(r.Term, me.Highest)+1, r.Previous, cause(me, r)
			if !mine && !r.Owner.IsZero() {
				won.Previous = r.Owner
			}
			next = row{Owner: me.ID, Previous: won.Previous, Address: me.Address, Term: won.Number, Lease: me.Lease}
		}
		var swapped bool
		if swapped, err = s.store.swap(ctx, r, next); swapped && err == nil {
			return won, nil
		}
		if err == nil { // another node was faster, or an earlier step of this one was late
			r, err = s.store.look(ctx)
		}
	}
	return elector.Term{}, fmt.Errorf("electorfake: %w", err)
}

// mayCompete reports whether a node may win from the row as read: it is its own, no node
// leads, or this node has not seen it change for a lease. After a higher term was seen
// elsewhere, it waits for the lease, unless the row was its own.
func mayCompete(me elector.Candidate, r row, last elector.Term) bool {
	expired := r.term(me.ID).ObservedFor(last) >= r.Lease
	switch {
	case r.Owner == me.ID:
		return r.Term >= me.Highest || last.Leader == me.ID || expired
	case r.Owner.IsZero():
		return r.Term >= me.Highest || expired
	}
	return expired
}

// cause returns why a node competes.
func cause(me elector.Candidate, r row) elector.Cause {
	switch {
	case me.Highest > r.Term:
		return elector.CauseRestored
	case r.Term == 0:
		return elector.CauseFirst
	case r.Owner.IsZero():
		return elector.CauseResigned
	}
	return elector.CauseExpired
}

// Resign is for the Elector: it gives the term up.
func (s *Strategy) Resign(ctx context.Context, held elector.Term) error {
	err := s.awake(ctx)
	for err == nil {
		var r row
		if r, err = s.store.look(ctx); err != nil || r.Owner != held.Leader || r.Term != held.Number {
			break // it was lost before
		}
		var swapped bool
		if swapped, err = s.store.swap(ctx, r, r.vacated()); swapped && err == nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("electorfake: resign term %d: %w", held.Number, err)
	}
	return nil
}
