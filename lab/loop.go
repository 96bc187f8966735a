package lab

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"conclave/internal/signal"
)

// loops is a candidate whose loops run until their context ends.
type loops struct {
	run     func(context.Context)       // returns when its context has ended
	release func(context.Context) error // releases what the rule holds; called once, after run has returned
	leads   func() (number uint64, ok bool)
	wake    func()
	cost    func() (statements, turns uint64)

	once sync.Once
	stop chan struct{} // closed by Stop
	done chan struct{} // closed by Run
}

// loops returns a candidate that leads while its perceived leadership lasts.
func (env *environment) loops(run func(context.Context), release func(context.Context) error) *loops {
	return &loops{
		run: run, release: release, leads: env.perceived.leading, wake: func() {},
		cost: func() (uint64, uint64) { return env.db.Statements(), env.turns.Load() },
		stop: make(chan struct{}), done: make(chan struct{}),
	}
}

func (c *loops) Run(ctx context.Context) error {
	defer close(c.done)
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { c.run(ctx) })
	select {
	case <-c.stop:
	case <-ctx.Done():
	}
	cancel()
	group.Wait()
	return nil
}

func (c *loops) Stop(ctx context.Context) error {
	c.once.Do(func() { close(c.stop) })
	<-c.done
	return c.release(ctx)
}

func (c *loops) Leading() (uint64, bool)          { return c.leads() }
func (c *loops) Wake()                            { c.wake() }
func (c *loops) Cost() (statements, turns uint64) { return c.cost() }

// peer is a rule of another project that runs in one loop.
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

// loop returns a candidate that runs the loop of a peer.
func (env *environment) loop(p peer) candidate {
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
				if n, ok := p.(notified); ok {
					timer.Reset(n.resignationDelay())
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
