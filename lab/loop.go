package lab

import (
	"context"
	"math/rand/v2"
	"time"

	"conclave/internal/signal"
)

// loops returns a candidate whose loops run until their context ends, and which leads
// while its perceived leadership lasts. release releases what the rule holds; it is
// called once, after run has returned.
func (env *environment) loops(run func(context.Context), release func(context.Context) error) candidate {
	stopping, stop := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	return candidate{
		run: func(ctx context.Context) error {
			defer close(stopped)
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(stopping, cancel)()
			run(ctx)
			return nil
		},
		stop: func(ctx context.Context) error {
			stop()
			<-stopped
			return release(ctx)
		},
		leading: env.perceived.leading,
		wake:    func() {},
		cost:    func() (statements, turns uint64) { return env.db.Statements(), env.turns.Load() },
	}
}

// peer is a rule of another project that runs in one loop.
type peer interface {
	// turn runs the loop's body once and returns how long to sleep afterwards.
	turn(ctx context.Context) time.Duration
	// release is called once, after the last turn of a graceful stop.
	release(ctx context.Context)
}

// loop returns a candidate that runs the loop of a peer. If the peer is notified when a
// leader resigns, its next turn is at a random time within notified after that.
func (env *environment) loop(p peer, notified time.Duration) candidate {
	wake := signal.New() // another candidate has resigned
	c := env.loops(func(ctx context.Context) {
		// The first turn is delayed at random, because real nodes do not start at
		// the same moment.
		timer := time.NewTimer(rand.N(env.Times.Check))
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			case <-wake.C():
				if notified > 0 {
					timer.Reset(rand.N(notified))
				}
				continue
			}
			env.turns.Add(1)
			timer.Reset(p.turn(context.WithoutCancel(ctx))) // a graceful stop waits for it
		}
	}, func(ctx context.Context) error {
		p.release(ctx)
		return nil
	})
	c.wake = wake.Set
	return c
}

// seconds returns a lease in whole seconds, and at least one.
func seconds(d time.Duration) int64 { return max(1, int64(d/time.Second)) }
