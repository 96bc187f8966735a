package oversell

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"conclave"
	conclavesql "conclave/sql"
)

// worker is one process of the shop: with a pool of its own to the stock and another
// to the locks. Its buyers are goroutines in it.
type worker struct {
	n     int
	id    conclave.NodeID
	shop  shop
	locks *conclavesql.DB
	ice   *ice
}

// hold is what a buyer has while it is his turn.
type hold struct {
	// good is the check to make before acting: do I still hold what I was given?
	good func() bool
	// write puts the stock to a value; false: refused, nothing was written.
	write func(ctx context.Context, stock int) (bool, error)
}

// plain is a hold that promises nothing and writes without a guard.
func plain(w *worker) hold {
	return hold{good: func() bool { return true }, write: w.shop.write}
}

// counter is where the buyers of one way are served.
type counter interface {
	// serve does a buyer's work for a worker when it is his turn. It returns the work's
	// error, or why there was no turn.
	serve(ctx context.Context, w *worker, work func(ctx context.Context, h hold) error) error
	// close ends what was started, and joins it.
	close(ctx context.Context) error
	// tally is what the way cost; nil stands for what is not counted.
	tally() (wakeUps, requests *uint64)
}

// floor is one run of one way: the shop, its workers and its buyers.
type floor struct {
	cfg     Config
	way     Way
	workers []*worker
	opened  bool // the shop has rows
	counter counter

	frozen, wake, woken chan struct{} // closed: buyer 0 is frozen; he is to wake up; he is through

	mu     sync.Mutex // guards what follows
	began  time.Time
	row    Row
	frames []Point
}

// openFloor makes everything that a run needs. close it, also after an error.
func openFloor(ctx context.Context, cfg Config, way Way, goods string) (*floor, error) {
	f := &floor{cfg: cfg, way: way, frozen: make(chan struct{}), wake: make(chan struct{}), woken: make(chan struct{})}
	for i := range cfg.Workers {
		w := &worker{n: i, id: conclave.NodeID{Name: fmt.Sprintf("worker-%d", i), Incarnation: goods}, ice: &ice{}}
		db, err := openDB(cfg.DSN)
		if err != nil {
			return f, err
		}
		w.shop = shop{db, goods}
		f.workers = append(f.workers, w)
		if w.locks, err = conclavesql.Open(cfg.DSN, conclavesql.Options{Dial: w.ice.dial, Deadline: patience}); err != nil {
			return f, err
		}
	}
	if err := f.workers[0].shop.open(ctx, cfg.Items); err != nil {
		return f, err
	}
	f.opened = true
	c, err := way.open(ctx, f)
	if err != nil {
		return f, fmt.Errorf("prepare the lock: %w", err)
	}
	f.counter = c
	return f, nil
}

// close takes everything down; what the run has put into the database is deleted.
func (f *floor) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	var errs []error
	for _, w := range f.workers {
		w.ice.thaw()
	}
	if f.counter != nil {
		errs = append(errs, f.counter.close(ctx))
	}
	if f.opened {
		errs = append(errs, f.workers[0].shop.close(ctx))
	}
	for _, w := range f.workers {
		if w.locks != nil {
			errs = append(errs, w.locks.Close())
		}
		w.shop.db.Close()
	}
	return errors.Join(errs...)
}

// sell lets all buyers in, and returns when all are gone.
func (f *floor) sell(ctx context.Context, buyers int) (Row, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	visit := func(n int, w *worker) {
		group.Go(func() {
			work := func(ctx context.Context, h hold) error { return f.buy(ctx, w, n, h) }
			err := f.counter.serve(ctx, w, work)
			for errors.Is(err, errEarly) {
				err = f.counter.serve(ctx, w, work)
			}
			if err != nil {
				cancel(fmt.Errorf("buyer %d at %s: %w", n, w.id.Name, err))
			}
		})
	}
	f.began = time.Now()
	workers := f.workers
	next := 0
	if f.way.Paused { // a process with one buyer, who is inside before the others come
		visit(0, workers[0])
		select {
		case <-f.frozen:
		case <-ctx.Done():
		}
		workers, next = workers[1:], 1
	}
	for n := next; n < buyers; n++ {
		visit(n, workers[n%len(workers)])
	}
	group.Wait()
	f.row.TookMs = time.Since(f.began).Milliseconds()
	if err := context.Cause(ctx); err != nil {
		return f.row, err
	}
	var err error
	f.row.Buyers = buyers
	f.row.Left, f.row.Orders, err = f.workers[0].shop.books(ctx)
	f.row.WakeUps, f.row.Requests = f.counter.tally()
	f.row.Points = thin(f.frames)
	if buyers < f.cfg.Buyers {
		f.row.Note = fmt.Sprintf("%d buyers only: %s", buyers, f.way.why)
	}
	f.row.judge(f.way, f.cfg.Items)
	return f.row, err
}

// errEarly: the machine stalled, so that the lease of who is to be frozen was over
// before he was. He comes again.
var errEarly = errors.New("the lease was over before its holder was frozen")

// buy is what each buyer does in his turn, by whatever way he got it: read the stock,
// think, write the stock. With a turn that is his alone that is right; without it is
// the lost update.
func (f *floor) buy(ctx context.Context, w *worker, n int, h hold) error {
	stock, err := w.shop.read(ctx)
	if err != nil {
		return err
	}
	if f.cfg.AfterRead != nil {
		f.cfg.AfterRead(ctx, f.way.Name, n)
	}
	if stock <= 0 {
		return nil
	}
	if err := f.think(ctx, n); err != nil {
		return err
	}
	if !h.good() {
		if f.way.Paused && n == 0 {
			return errEarly
		}
		f.note(func() { f.row.Refused++ })
		return nil
	}
	if f.way.Paused && n == 0 { // the worst moment: he has looked, and is about to write
		defer close(f.woken)
		if err := f.freeze(ctx, w); err != nil {
			return err
		}
	}
	has, err := h.write(ctx, stock-1)
	if err != nil {
		return err
	}
	if !has {
		f.note(func() { f.row.Refused++ })
		return nil
	}
	if err := w.shop.order(ctx, n); err != nil {
		return err
	}
	sold := 0
	f.note(func() {
		f.row.Sold++
		sold = f.row.Sold
		f.frames = append(f.frames, Point{AtMs: time.Since(f.began).Milliseconds(), Stock: stock - 1, Orders: sold})
	})
	if f.way.Paused && n != 0 && sold == f.half() {
		return f.wakeUp(ctx)
	}
	return nil
}

// note changes the row.
func (f *floor) note(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// think is the article's pause, of a length drawn for each buyer.
func (f *floor) think(ctx context.Context, n int) error {
	if f.cfg.Think <= 0 {
		return ctx.Err()
	}
	random := rand.New(rand.NewPCG(f.cfg.Seed, uint64(n)))
	timer := time.NewTimer(time.Duration(random.Int64N(int64(f.cfg.Think))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// half is after how many of the others' purchases the frozen buyer wakes up.
func (f *floor) half() int { return max(1, f.cfg.Items/2) }

// freeze stops buyer 0 and his process between his check and his write, until the
// others, who can only have got in because his lease ran out, have sold half.
func (f *floor) freeze(ctx context.Context, w *worker) error {
	w.ice.freeze()
	defer w.ice.thaw()
	close(f.frozen)
	select {
	case <-f.wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// wakeUp puts the frozen buyer's write between two purchases of the others: an event,
// and not a sleep, so that the outcome is the same each time.
func (f *floor) wakeUp(ctx context.Context) error {
	close(f.wake)
	select {
	case <-f.woken:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
