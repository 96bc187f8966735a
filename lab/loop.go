package lab

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"conclave/internal/signal"
)

// peer is a rule of another project that runs in a loop.
type peer interface {
	// turn runs the loop's body once and returns how long to sleep afterwards.
	turn(ctx context.Context) time.Duration
	// release is called once, after the last turn of a graceful stop.
	release(ctx context.Context)
}

// notified is a peer that is notified when a leader resigns.
type notified interface {
	// resignationDelay returns how long to wait, after a notification, before
	// the next turn.
	resignationDelay() time.Duration
}

// loopCandidate is a candidate that runs the loop of a peer.
type loopCandidate struct {
	env  *environment
	peer peer
	wake signal.Signal // another candidate has resigned
	once sync.Once
	stop chan struct{} // closed by Stop
	done chan struct{} // closed by Run
}

func (env *environment) loop(p peer) candidate {
	return &loopCandidate{env: env, peer: p, wake: signal.New(), stop: make(chan struct{}), done: make(chan struct{})}
}

// Run runs turns until ctx ends or Stop is called.
func (l *loopCandidate) Run(ctx context.Context) error {
	defer close(l.done)
	// The first turn is delayed at random, because real nodes do not start at
	// the same moment.
	timer := time.NewTimer(rand.N(l.env.Times.Check))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.stop:
			return nil
		case <-timer.C:
		case <-l.wake.C():
			if n, ok := l.peer.(notified); ok {
				timer.Reset(n.resignationDelay())
			}
			continue
		}
		l.env.turns.Add(1)
		timer.Reset(l.peer.turn(ctx))
	}
}

// Stop waits for the current turn, ends the loop and releases what the rule
// holds.
func (l *loopCandidate) Stop(ctx context.Context) error {
	l.once.Do(func() { close(l.stop) })
	<-l.done
	l.peer.release(ctx)
	return nil
}

func (l *loopCandidate) Leading() (uint64, bool) { return l.env.perceived.leading() }
func (l *loopCandidate) Wake()                   { l.wake.Set() }

func (l *loopCandidate) Cost() (statements, turns uint64) {
	return l.env.db.Statements(), l.env.turns.Load()
}

// seconds returns a lease in whole seconds, and at least one.
func seconds(d time.Duration) int64 { return max(1, int64(d/time.Second)) }
