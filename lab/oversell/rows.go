package oversell

import (
	"context"
	"errors"
	"time"

	"conclave/lab/article001/rowlock"
)

// openArticle gives each worker article 001's lock as published. With one thread, a
// worker's buyers come one at a time.
func openArticle(oneThread bool) func(context.Context, *sale) error {
	return func(ctx context.Context, s *sale) error {
		if err := rowlock.MigrateArticle(ctx, s.workers[0].locks); err != nil {
			return err
		}
		s.cost = s.statements
		for _, w := range s.workers {
			// The article waits 2 s between two tries, and rows expire by the
			// processes' clocks.
			r, err := rowlock.NewRegistry(rowlock.RegistryConfig{DB: w.locks, Owner: w.id.String(), Interval: 10 * time.Millisecond, Expire: time.Minute})
			if err != nil {
				return err
			}
			s.refresh(w, r.Run)
			threads := s.cfg.Buyers
			if oneThread {
				threads = 1
			}
			running := make(chan struct{}, threads)
			releasing := make(chan struct{}, 1) // two releases at once may leave the row for ever, a fault of its own
			key := w.shop.goods
			w.lock = func(ctx context.Context) (hold, error) {
				select {
				case running <- struct{}{}:
				case <-ctx.Done():
					return hold{}, context.Cause(ctx)
				}
				h := plain(w)
				if oneThread { // with more threads, another thread's release would remove the key
					h.good = func() bool { return r.Holds(key) }
				}
				h.release = func(ctx context.Context) error {
					releasing <- struct{}{}
					defer func() { <-releasing; <-running }()
					return r.Release(ctx, key)
				}
				return h, r.Acquire(ctx, key) // an error ends the sale
			}
		}
		return nil
	}
}

// openRows gives each worker the repaired lock. With tokens, the holder's token is
// written to the stock's row.
func openRows(tokens bool) func(context.Context, *sale) error {
	return func(ctx context.Context, s *sale) error {
		if err := rowlock.Migrate(ctx, s.workers[0].locks); err != nil {
			return err
		}
		s.cost = s.statements
		for _, w := range s.workers {
			lease := s.lease(w)
			// A waiter checks the lock four times per Refresh.
			locks, err := rowlock.NewLocks(rowlock.LocksConfig{DB: w.locks, Owner: w.id, Lease: lease, Refresh: min(lease/3, time.Second)})
			if err != nil {
				return err
			}
			s.refresh(w, locks.Run)
			w.lock = func(ctx context.Context) (hold, error) {
				k, err := locks.Acquire(ctx, w.shop.goods)
				if err != nil {
					return hold{}, err
				}
				h := hold{good: k.Held, write: w.shop.write}
				h.release = func(ctx context.Context) error {
					err := k.Release(ctx)
					if errors.Is(err, rowlock.ErrNotHeld) { // a frozen holder has lost the lock already
						err = nil
					}
					return err
				}
				if tokens {
					h.write = func(ctx context.Context, stock int) (bool, error) { return w.shop.writeToken(ctx, stock, k.Token()) }
					err = w.shop.claim(ctx, k.Token())
				}
				return h, err
			}
		}
		return nil
	}
}
