package oversell

import (
	"context"
	"errors"
	"sync"
	"time"

	"conclave/elector/rowlock"
)

// running are tasks of the workers' locks that run beside the sale.
type running struct {
	workers []*worker
	stop    context.CancelFunc
	group   sync.WaitGroup
}

// begin starts run, which ends with its context.
func (r *running) begin(ctx context.Context, run func(context.Context) error) {
	r.group.Go(func() { _ = run(ctx) }) // it ends with ctx, and says so
}

func (r *running) close(context.Context) error { //nolint:unparam // as a counter has it
	r.stop()
	r.group.Wait()
	return nil
}

// tally counts the statements of the locks; nobody is woken by a row.
func (r *running) tally() (wakeUps, requests *uint64) {
	var n uint64
	for _, w := range r.workers {
		n += w.locks.Statements()
	}
	return nil, &n
}

// articleRows is article 001's lock to the letter.
type articleRows struct {
	running
	key        string
	registries []*rowlock.Registry
	turns      []chan struct{} // cap 1 each: one thread at a time; nil: all at once
}

func openArticle(oneThread bool) func(context.Context, *floor) (counter, error) {
	return func(ctx context.Context, f *floor) (counter, error) {
		if err := rowlock.MigrateArticle(ctx, f.workers[0].locks); err != nil {
			return nil, err
		}
		run, stop := context.WithCancel(context.WithoutCancel(ctx))
		c := &articleRows{running: running{workers: f.workers, stop: stop}, key: f.workers[0].shop.goods}
		for _, w := range f.workers {
			// The article waits 2 s between two tries, and expires by its processes' clocks.
			r, err := rowlock.NewRegistry(rowlock.RegistryConfig{DB: w.locks, Owner: w.id.String(), Interval: 10 * time.Millisecond, Expire: time.Minute})
			if err != nil {
				stop()
				return nil, err
			}
			c.registries = append(c.registries, r)
			if oneThread {
				c.turns = append(c.turns, make(chan struct{}, 1))
			}
		}
		for _, r := range c.registries {
			c.begin(run, r.Run)
		}
		return c, nil
	}
}

func (c *articleRows) serve(ctx context.Context, w *worker, work func(context.Context, hold) error) error {
	if c.turns != nil {
		select {
		case c.turns[w.n] <- struct{}{}:
			defer func() { <-c.turns[w.n] }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	r := c.registries[w.n]
	if err := r.Acquire(ctx, c.key); err != nil {
		return err
	}
	h := plain(w)
	if c.turns != nil { // another thread's release drops the key that this one holds by
		h.good = func() bool { return r.Holds(c.key) }
	}
	return errors.Join(work(ctx, h), r.Release(ctx, c.key))
}

// lockRows is the repaired lock.
type lockRows struct {
	running
	key    string
	locks  []*rowlock.Locks
	tokens bool // the stock's row names the holder's
}

func openRows(tokens bool) func(context.Context, *floor) (counter, error) {
	return func(ctx context.Context, f *floor) (counter, error) {
		if err := rowlock.Migrate(ctx, f.workers[0].locks); err != nil {
			return nil, err
		}
		run, stop := context.WithCancel(context.WithoutCancel(ctx))
		c := &lockRows{running: running{workers: f.workers, stop: stop}, key: f.workers[0].shop.goods, tokens: tokens}
		for _, w := range f.workers {
			lease := f.lease(w)
			// Refresh also says how often a waiter looks: four times in it.
			locks, err := rowlock.NewLocks(rowlock.LocksConfig{DB: w.locks, Owner: w.id, Lease: lease, Refresh: min(lease/3, time.Second)})
			if err != nil {
				stop()
				return nil, err
			}
			c.locks = append(c.locks, locks)
		}
		for _, l := range c.locks {
			c.begin(run, l.Run)
		}
		return c, nil
	}
}

func (c *lockRows) serve(ctx context.Context, w *worker, work func(context.Context, hold) error) error {
	k, err := c.locks[w.n].Acquire(ctx, c.key)
	if err != nil {
		return err
	}
	h := hold{good: k.Held, write: w.shop.write}
	if c.tokens {
		if err := w.shop.claim(ctx, k.Token()); err != nil {
			return err
		}
		h.write = func(ctx context.Context, stock int) (bool, error) { return w.shop.writeToken(ctx, stock, k.Token()) }
	}
	err = work(ctx, h)
	if released := k.Release(ctx); !errors.Is(released, rowlock.ErrNotHeld) { // a frozen one has nothing to give back
		err = errors.Join(err, released)
	}
	return err
}
