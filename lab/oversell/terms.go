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

// electionBeat is the longest beat: the interval of a leader's renewals and of
// a follower's checks.
const electionBeat = time.Second

// terms uses an election as a lock: the workers lead in turn, and each leader
// serves some of the waiting buyers and then resigns.
type terms struct {
	workers []*worker
	members []*member
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

// member is one worker's part in the election.
type member struct {
	worker  *worker
	elector *elector.Elector
	start   sync.Once
	jobs    chan job // that it serves: terms.jobs, or a channel of its own, closed after its only buyer
	only    bool     // it has only one buyer, which is to be frozen
}

func openTerms(fenced bool) func(context.Context, *sale) (queue, error) {
	return func(ctx context.Context, sale *sale) (queue, error) {
		lock := lockOf(sale.workers[0].shop.goods)
		if err := sale.workers[0].locks.Migrate(ctx, lock); err != nil {
			return nil, err
		}
		c := &terms{workers: sale.workers, fenced: fenced, jobs: make(chan job)}
		c.ctx, c.crash = context.WithCancel(context.WithoutCancel(ctx))
		for _, w := range sale.workers {
			strategy, err := termcas.New(termcas.Config{DB: w.locks, Lock: lock})
			if err != nil {
				c.crash()
				return nil, err
			}
			m := &member{worker: w, jobs: c.jobs, only: sale.way.Paused && w.n == 0}
			if m.only {
				m.jobs = make(chan job)
			}
			m.elector, err = elector.New(elector.Config{
				ID: w.id, Strategy: strategy, Lease: sale.lease(w), Beat: min(sale.lease(w)/3, electionBeat),
				WakePeers: func(context.Context, elector.Term) { c.wake(m) },
				Lead:      func(ctx context.Context, term elector.Term) error { return c.lead(ctx, m, fence.New(lock, term)) },
			})
			if err != nil {
				c.crash()
				return nil, err
			}
			c.members = append(c.members, m)
		}
		return c, nil
	}
}

// perTerm is how many buyers a leader serves before it resigns.
const perTerm = 10

// lead serves some buyers; when it returns, the term is resigned. A buyer's
// work has the context of the sale, not that of the leadership, because a buyer
// that is frozen between its check and its write does not notice that the term
// has ended.
func (c *terms) lead(ctx context.Context, m *member, token fence.Token) error {
	h := plain(m.worker)
	h.good = func() bool { _, leading := m.elector.Leading(); return leading }
	if c.fenced {
		h.write = func(ctx context.Context, stock int) (bool, error) {
			return m.worker.shop.writeFenced(ctx, stock, token)
		}
	}
	for range perTerm {
		select {
		case j, open := <-m.jobs:
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

// wake notifies the other members of a resignation, as the metas of a cluster
// do. A term of some milliseconds ends before they wait for its witness.
func (c *terms) wake(except *member) {
	for _, m := range c.members {
		if m != except {
			m.elector.Wake()
		}
	}
}

// serve queues a buyer. Any leader serves it, so that no buyer has to wait
// until its own worker leads: a worker that has resigned abstains until another
// has led, or for two leases.
func (c *terms) serve(ctx context.Context, w *worker, work func(context.Context, hold) error) error {
	m := c.members[w.n]
	m.start.Do(func() {
		c.group.Go(func() { _ = m.elector.Run(c.ctx) }) // it ends when the queue is closed
	})
	j := job{work: work, ctx: ctx, done: make(chan error, 1)}
	select {
	case m.jobs <- j:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := <-j.done
	if m.only && !errors.Is(err, errEarly) { // its only buyer has finished: it leaves the election
		close(m.jobs)
		_ = m.elector.Quit(ctx) // an error: it has lost its term already
	}
	return err
}

func (c *terms) close(ctx context.Context) error {
	for _, m := range c.members {
		m.start.Do(func() {}) // one that has not started will not start
		c.group.Go(func() { _ = m.elector.Shutdown(ctx) })
	}
	c.group.Wait()
	c.crash()
	return nil
}

// cost counts the elections' statements.
func (c *terms) cost() (wakeUps, requests *uint64) {
	return (&running{workers: c.workers}).cost()
}
