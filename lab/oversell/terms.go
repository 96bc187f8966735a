package oversell

import (
	"context"
	"errors"
	"sync"
	"time"

	"conclave/elector"
	"conclave/elector/fence"
	"conclave/elector/termcas"
)

// electionBeat bounds the beat: a leader renews, and a follower looks, at least so often.
const electionBeat = time.Second

// terms is an election as a lock: the workers lead by turns, and each leader serves
// some buyers of the queue and resigns.
type terms struct {
	workers []*worker
	desks   []*desk
	fenced  bool
	jobs    chan job // unbuffered; never closed
	ctx     context.Context
	crash   context.CancelFunc
	group   sync.WaitGroup // the electors' runs
}

// job is one buyer's work.
type job struct {
	work func(ctx context.Context, h hold) error
	ctx  context.Context
	done chan error // cap 1
}

// desk is one worker's place in the election.
type desk struct {
	worker  *worker
	elector *elector.Elector
	start   sync.Once
	jobs    chan job // those that it serves: everybody's, or its only buyer's, and then it is closed
	only    bool
}

func openTerms(fenced bool) func(context.Context, *floor) (counter, error) {
	return func(ctx context.Context, f *floor) (counter, error) {
		lock := lockOf(f.workers[0].shop.goods)
		if err := f.workers[0].locks.Migrate(ctx, lock); err != nil {
			return nil, err
		}
		c := &terms{workers: f.workers, fenced: fenced, jobs: make(chan job)}
		c.ctx, c.crash = context.WithCancel(context.WithoutCancel(ctx))
		for _, w := range f.workers {
			strategy, err := termcas.New(termcas.Config{DB: w.locks, Lock: lock})
			if err != nil {
				c.crash()
				return nil, err
			}
			d := &desk{worker: w, jobs: c.jobs, only: f.way.Paused && w.n == 0}
			if d.only {
				d.jobs = make(chan job)
			}
			d.elector, err = elector.New(elector.Config{
				ID: w.id, Strategy: strategy, Lease: f.lease(w), Beat: min(f.lease(w)/3, electionBeat),
				WakePeers: func(context.Context, elector.Term) { c.wake(d) },
				Lead:      func(ctx context.Context, term elector.Term) error { return c.lead(ctx, d, fence.New(lock, term)) },
			})
			if err != nil {
				c.crash()
				return nil, err
			}
			c.desks = append(c.desks, d)
		}
		return c, nil
	}
}

// perTerm is how many buyers a leader serves before it resigns.
const perTerm = 10

// lead serves some buyers; returning resigns. What a buyer does ends with the sale and
// not with the leadership: who is frozen between his check and his write does not
// notice that it has ended.
func (c *terms) lead(ctx context.Context, d *desk, token fence.Token) error {
	h := plain(d.worker)
	h.good = func() bool { _, leading := d.elector.Leading(); return leading }
	if c.fenced {
		h.write = func(ctx context.Context, stock int) (bool, error) {
			return d.worker.shop.writeFenced(ctx, stock, token)
		}
	}
	for range perTerm {
		select {
		case j, open := <-d.jobs:
			if !open {
				return nil
			}
			j.done <- j.work(j.ctx, h)
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// wake tells the others that the term was given back, as the metas of a cluster tell
// each other: a term of some milliseconds is over before they wait for its witness.
func (c *terms) wake(but *desk) {
	for _, d := range c.desks {
		if d != but {
			d.elector.Wake()
		}
	}
}

// serve queues a buyer. Whoever leads serves him, so that no worker is left alone with
// a queue: who has resigned lets others lead first, or waits for two leases.
func (c *terms) serve(ctx context.Context, w *worker, work func(context.Context, hold) error) error {
	d := c.desks[w.n]
	d.start.Do(func() {
		c.group.Go(func() { _ = d.elector.Run(c.ctx) }) // it ends with the counter
	})
	j := job{work: work, ctx: ctx, done: make(chan error, 1)}
	select {
	case d.jobs <- j:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := <-j.done
	if d.only && !errors.Is(err, errEarly) { // it has no more buyers, and lets the others lead
		close(d.jobs)
		_ = d.elector.Quit(ctx) // it has lost its term already
	}
	return err
}

func (c *terms) close(ctx context.Context) error {
	for _, d := range c.desks {
		d.start.Do(func() {}) // one that never began begins no more
		c.group.Go(func() { _ = d.elector.Shutdown(ctx) })
	}
	c.group.Wait()
	c.crash()
	return nil
}

// tally counts the elections' statements.
func (c *terms) tally() (wakeUps, requests *uint64) {
	return (&running{workers: c.workers}).tally()
}
