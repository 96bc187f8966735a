package oversell

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"conclave"
	"conclave/internal/sleep"
	conclavesql "conclave/sql"
)

// worker stands for one process of the shop. It has one connection pool for the
// stock and another for the locks. Its buyers are goroutines.
type worker struct {
	n     int
	id    conclave.NodeID
	shop  shop
	locks *conclavesql.DB
	lock  func(ctx context.Context) (hold, error) // waits until a buyer has its turn
	pause context.CancelFunc                      // stops the refreshes of its lock; nil if it has none
}

// hold is what a buyer has during its turn.
type hold struct {
	// good reports whether the buyer still holds the lock. It is called before
	// the write.
	good func() bool
	// write sets the stock. It returns false if the write was refused.
	write func(ctx context.Context, stock int) (bool, error)
	// release ends the turn.
	release func(ctx context.Context) error
}

// plain returns a hold without a check, a guard and a lock.
func plain(w *worker) hold {
	return hold{
		good: func() bool { return true }, write: w.shop.write,
		release: func(context.Context) error { return nil },
	}
}

// sale is one run of one way: the shop, its workers and its buyers.
type sale struct {
	cfg     Config
	way     Way
	workers []*worker
	opened  bool     // the shop's rows have been written
	stops   []func() // what ends the locks
	// cost returns how many waiters were woken and how many requests were sent
	// to the locks' store; nil if that is not counted.
	cost func() (wakeUps, requests *uint64)

	frozen, wake, woken chan struct{} // closed when buyer 0 is frozen, shall continue, has finished

	mu  sync.Mutex // guards row
	row Row
}

// openSale creates what a run needs. The sale must be closed, also after an
// error.
func openSale(ctx context.Context, cfg Config, way Way, goods string) (*sale, error) {
	s := &sale{cfg: cfg, way: way, frozen: make(chan struct{}), wake: make(chan struct{}), woken: make(chan struct{})}
	s.cost = func() (wakeUps, requests *uint64) { return nil, nil }
	for i := range cfg.Workers {
		db, err := conclavesql.Open(cfg.DSN, conclavesql.Options{Deadline: dbTimeout, MaxConns: 8})
		if err != nil {
			return s, err
		}
		locks, err := conclavesql.Open(cfg.DSN, conclavesql.Options{Deadline: dbTimeout})
		if err != nil {
			return s, errors.Join(err, db.Close())
		}
		w := &worker{n: i, id: conclave.NodeID{Name: fmt.Sprintf("worker-%d", i), Incarnation: goods}, shop: shop{db, goods}, locks: locks}
		w.lock = func(context.Context) (hold, error) { return plain(w), nil }
		s.workers = append(s.workers, w)
	}
	if err := s.workers[0].shop.open(ctx, cfg.Items); err != nil {
		return s, err
	}
	if s.opened = true; way.open == nil {
		return s, nil
	}
	if err := way.open(ctx, s); err != nil {
		return s, fmt.Errorf("prepare the lock: %w", err)
	}
	return s, nil
}

// close ends the run and deletes its rows of the shop's tables.
func (s *sale) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dbTimeout)
	defer cancel()
	for _, stop := range slices.Backward(s.stops) {
		stop()
	}
	var errs []error
	if s.opened {
		errs = append(errs, s.workers[0].shop.close(ctx))
	}
	for _, w := range s.workers {
		errs = append(errs, w.locks.Close(), w.shop.db.Close())
	}
	return errors.Join(errs...)
}

// refresh runs what refreshes a worker's lock, until the worker is paused or the sale
// ends.
func (s *sale) refresh(w *worker, run func(context.Context) error) {
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	running.Go(func() { _ = run(ctx) }) // returns ctx's error
	w.pause = stop
	s.stops = append(s.stops, func() { stop(); running.Wait() })
}

// statements is the cost of locks that are rows, which wake no waiters.
func (s *sale) statements() (wakeUps, requests *uint64) {
	requests = new(uint64)
	for _, w := range s.workers {
		*requests += w.locks.Statements()
	}
	return nil, requests
}

// sell starts all buyers and returns when all have finished.
func (s *sale) sell(ctx context.Context, buyers int) (Row, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	visit := func(n int, w *worker) {
		group.Go(func() {
			err := s.turn(ctx, w, n)
			for errors.Is(err, errEarly) {
				err = s.turn(ctx, w, n)
			}
			if err != nil {
				cancel(fmt.Errorf("buyer %d at %s: %w", n, w.id.Name, err))
			}
		})
	}
	began := time.Now()
	workers := s.workers
	next := 0
	if s.way.Paused { // worker 0 has one buyer, which has its turn before the others come
		visit(0, workers[0])
		select {
		case <-s.frozen:
		case <-ctx.Done():
		}
		workers, next = workers[1:], 1
	}
	for n := next; n < buyers; n++ {
		visit(n, workers[n%len(workers)])
	}
	group.Wait()
	s.row.TookMs = time.Since(began).Milliseconds()
	if err := context.Cause(ctx); err != nil {
		return s.row, err
	}
	var err error
	s.row.Buyers = buyers
	s.row.Left, s.row.Orders, err = s.workers[0].shop.books(ctx)
	s.row.WakeUps, s.row.Requests = s.cost()
	if buyers < s.cfg.Buyers {
		s.row.Note = fmt.Sprintf("only %d buyers: %s", buyers, s.way.why)
	}
	s.row.check(s.way, s.cfg.Items)
	return s.row, err
}

// errEarly reports that the machine stalled: the lease of the holder that was
// to be frozen expired first. The buyer tries again.
var errEarly = errors.New("the lease expired before its holder was frozen")

// turn waits for the turn of buyer n, and lets it buy.
func (s *sale) turn(ctx context.Context, w *worker, n int) error {
	h, err := w.lock(ctx)
	if err != nil {
		return err
	}
	return errors.Join(s.buy(ctx, w, n, h), h.release(ctx))
}

// buy is what buyer n does in its turn (purchase in article 004): read the stock, think,
// write the stock less one, and write the order. If no other buyer has a turn at the same
// time, this is correct; otherwise it is a lost update.
func (s *sale) buy(ctx context.Context, w *worker, n int, h hold) (err error) {
	paused := s.way.Paused && n == 0
	defer func() {
		if paused && !errors.Is(err, errEarly) {
			close(s.woken)
		}
	}()
	left, err := w.shop.read(ctx)
	if err != nil {
		return err
	}
	if s.cfg.AfterRead != nil {
		s.cfg.AfterRead(ctx, s.way.Name, n)
	}
	if left < 1 {
		return nil // sold out
	}
	if err := s.think(ctx, n); err != nil {
		return err
	}
	switch good := h.good(); { // the article does not check that it still holds the lock
	case !good && paused:
		return errEarly
	case !good:
		s.note(func() { s.row.Refused++ })
		return nil
	case paused:
		// The worst moment: after the check and before the write. Nothing refreshes
		// the lock any more, so that the others get their turns when its lease has
		// expired. It continues when they have bought half the items.
		w.pause()
		if err := meet(ctx, s.frozen, s.wake); err != nil {
			return err
		}
	}
	if done, err := h.write(ctx, left-1); err != nil {
		return err
	} else if !done {
		s.note(func() { s.row.Refused++ })
		return nil
	}
	if err := w.shop.order(ctx, n); err != nil {
		return err
	}
	sold := 0
	s.note(func() {
		s.row.Sold++
		sold = s.row.Sold
	})
	if s.way.Paused && !paused && sold == max(1, s.cfg.Items/2) { // its write comes between two purchases
		return meet(ctx, s.wake, s.woken)
	}
	return nil
}

// note runs a function that changes the row, with mu held.
func (s *sale) note(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// think is the article's pause, of a random length for each buyer.
func (s *sale) think(ctx context.Context, n int) error {
	if s.cfg.Think <= 0 {
		return ctx.Err()
	}
	random := rand.New(rand.NewPCG(s.cfg.Seed, uint64(n)))
	if sleep.For(ctx, time.Duration(random.Int64N(int64(s.cfg.Think)))) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// meet announces one event and waits for another. Because it does not sleep, the
// outcome is the same each time.
func meet(ctx context.Context, announce chan<- struct{}, await <-chan struct{}) error {
	close(announce)
	select {
	case <-await:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
