package oversell

import (
	"context"
	"errors"
	"sync"
	"time"

	"conclave/lab/article001/rowlock"
)

// running are the workers' locks in the background.
type running struct {
	workers []*worker
	stop    context.CancelFunc
	group   sync.WaitGroup
}

// runLocks makes each worker's lock and runs them all until close.
func runLocks[L interface{ Run(context.Context) error }](ctx context.Context, sale *sale, newLock func(w *worker) (L, error)) (*running, []L, error) {
	var locks []L
	for _, w := range sale.workers {
		lock, err := newLock(w)
		if err != nil {
			return nil, nil, err
		}
		locks = append(locks, lock)
	}
	r := &running{workers: sale.workers}
	ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	for i, lock := range locks {
		ctx, pause := context.WithCancel(ctx)
		sale.workers[i].pause = pause
		r.group.Go(func() { _ = lock.Run(ctx) }) // returns ctx's error
	}
	return r, locks, nil
}

func (r *running) close() {
	r.stop()
	r.group.Wait()
}

// cost counts the statements of the locks. Rows wake no waiters.
func (r *running) cost() (wakeUps, requests *uint64) { //nolint:unparam // the form of queue
	var n uint64
	for _, w := range r.workers {
		n += w.locks.Statements()
	}
	return nil, &n
}

// articleRows is article 001's lock as published.
type articleRows struct {
	*running
	key        string
	registries []*rowlock.Registry
	turns      []chan struct{} // of each worker, cap 1: one thread at a time; nil if threads are not limited
}

func openArticle(oneThread bool) func(context.Context, *sale) (queue, error) {
	return func(ctx context.Context, sale *sale) (queue, error) {
		if err := rowlock.MigrateArticle(ctx, sale.workers[0].locks); err != nil {
			return nil, err
		}
		c := &articleRows{key: sale.workers[0].shop.goods}
		if oneThread {
			for range sale.workers {
				c.turns = append(c.turns, make(chan struct{}, 1))
			}
		}
		var err error
		c.running, c.registries, err = runLocks(ctx, sale, func(w *worker) (*rowlock.Registry, error) {
			// The article waits 2 s between two tries, and rows expire by the
			// processes' clocks.
			return rowlock.NewRegistry(rowlock.RegistryConfig{DB: w.locks, Owner: w.id.String(), Interval: 10 * time.Millisecond, Expire: time.Minute})
		})
		return c, err
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
	if c.turns != nil { // with more threads, another thread's release would remove the key
		h.good = func() bool { return r.Holds(c.key) }
	}
	return errors.Join(work(ctx, h), r.Release(ctx, c.key))
}

// lockRows is the repaired lock.
type lockRows struct {
	*running
	key    string
	locks  []*rowlock.Locks
	tokens bool // the holder's token is written to the stock's row
}

func openRows(tokens bool) func(context.Context, *sale) (queue, error) {
	return func(ctx context.Context, sale *sale) (queue, error) {
		if err := rowlock.Migrate(ctx, sale.workers[0].locks); err != nil {
			return nil, err
		}
		c := &lockRows{key: sale.workers[0].shop.goods, tokens: tokens}
		var err error
		c.running, c.locks, err = runLocks(ctx, sale, func(w *worker) (*rowlock.Locks, error) {
			lease := sale.lease(w)
			// A waiter checks the lock four times per Refresh.
			return rowlock.NewLocks(rowlock.LocksConfig{DB: w.locks, Owner: w.id, Lease: lease, Refresh: min(lease/3, time.Second)})
		})
		return c, err
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
	if released := k.Release(ctx); !errors.Is(released, rowlock.ErrNotHeld) { // a frozen holder has lost the lock already
		err = errors.Join(err, released)
	}
	return err
}
