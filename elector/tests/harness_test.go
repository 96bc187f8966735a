package elector_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/elector/electortest/sqlworld"
	"conclave/elector/termcas"
	conclavesql "conclave/sql"
)

// harness is a cluster that elects by termcas, and counts its statements.
type harness struct {
	*electortest.Cluster
	lock conclavesql.Lock
	db   *conclavesql.DB // the test's own connections

	mu    sync.Mutex // guards the fields below
	dbs   []*conclavesql.DB
	swaps []elector.Event // each attempt to win, with its result
}

// newHarness starts n candidates on w. change may be nil.
func newHarness(t testing.TB, w *sqlworld.World, n int, change func(*electortest.World), options ...electortest.Option) *harness {
	r := &harness{lock: conclavesql.Lock{DataCenter: "test", Name: "harness"}, db: w.DB}
	require.NoError(t, w.DB.Migrate(t.Context(), r.lock))
	world := electortest.World{
		Dial: w.Dial, Lease: 3 * time.Second, Quiet: true,
		Strategy: func(t testing.TB, spec electortest.NodeSpec) elector.Strategy {
			db, err := conclavesql.Open(w.DSN, conclavesql.Options{Dial: spec.Cable.Dial, Deadline: spec.Beat / 2})
			require.NoError(t, err)
			r.mu.Lock()
			r.dbs = append(r.dbs, db)
			r.mu.Unlock()
			s, err := termcas.New(termcas.Config{
				DB: db, Lock: r.lock, Rand: spec.Rand, Logger: spec.Logger, Trace: r.record, Ask: spec.Ask,
			})
			require.NoError(t, err)
			return pooled{s, db}
		},
	}
	if change != nil {
		change(&world)
	}
	r.Cluster = electortest.NewCluster(t, world, n, options...)
	return r
}

// pooled is a strategy that closes its connection pool when it is closed.
type pooled struct {
	*termcas.Strategy
	db *conclavesql.DB
}

func (p pooled) Close() error {
	err := p.Strategy.Close()
	return errors.Join(err, p.db.Close())
}

// pushed makes the leader push its beats to the others, as meta nodes do.
func pushed(w *electortest.World) { w.Push = true }

func (r *harness) record(c elector.Event) {
	if c.Kind == elector.EventSwapped {
		r.mu.Lock()
		r.swaps = append(r.swaps, c)
		r.mu.Unlock()
	}
}

// attempts returns how many statements have tried to win since the last call, and how
// many of them won.
func (r *harness) attempts() (tried, won int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.swaps {
		tried++
		won += c.Rows
	}
	r.swaps = nil
	return tried, won
}

// statements returns how many statements all candidates have sent, including killed
// ones.
func (r *harness) statements() (n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, db := range r.dbs {
		n += db.Statements()
	}
	return n
}

// follow waits until all other nodes know the leader of the term.
func (r *harness) follow(leader *electortest.Node, term uint64) {
	for _, n := range r.Others(leader) {
		r.Until(n.ID.String()+" to know the leader", func() bool { return n.Current().Number == term && n.Current().Leader == leader.ID })
	}
}

// waitForWaiters waits until all other nodes wait for the witness of the term's leader.
func (r *harness) waitForWaiters(leader *electortest.Node, term uint64) {
	for _, n := range r.Others(leader) {
		r.Until(n.ID.String()+" to wait for the witness", func() bool { return n.Strategy.(pooled).WaitingFor() == term })
	}
}
