package elector_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/elector/electortest/sqlworld"
	"conclave/elector/termcas"
	"conclave/internal/trace"
	conclavesql "conclave/sql"
)

// rig is a cluster that elects by termcas, and counts what that costs the database.
type rig struct {
	*electortest.Cluster
	lock conclavesql.Lock
	db   *conclavesql.DB // the test's own way in

	mu    sync.Mutex // guards what follows
	dbs   []*conclavesql.DB
	swaps []trace.Claim // each attempt to win, as it ended
}

// newRig starts n candidates on w. change may be nil.
func newRig(t testing.TB, w *sqlworld.World, n int, change func(*electortest.World), options ...electortest.Option) *rig {
	r := &rig{lock: conclavesql.Lock{DataCenter: "test", Name: "rig"}, db: w.DB}
	require.NoError(t, w.DB.Migrate(t.Context(), r.lock))
	world := electortest.World{
		Dial: w.Dial, Lease: 3 * time.Second, Quiet: true,
		Strategy: func(t testing.TB, seat electortest.Seat) elector.Strategy {
			db, err := conclavesql.Open(w.DSN, conclavesql.Options{Dial: seat.Cable.Dial, Deadline: seat.Beat / 2})
			require.NoError(t, err)
			r.mu.Lock()
			r.dbs = append(r.dbs, db)
			r.mu.Unlock()
			s, err := termcas.New(termcas.Config{
				DB: db, Lock: r.lock, Rand: seat.Rand, Logger: seat.Logger, Trace: r.hear, Ask: seat.Ask,
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

// pooled closes a strategy's pool with it.
type pooled struct {
	*termcas.Strategy
	db *conclavesql.DB
}

func (p pooled) Close() error {
	err := p.Strategy.Close()
	if closed := p.db.Close(); err == nil {
		err = closed
	}
	return err
}

// pushed is what metas do: the leader's beats are pushed to the others.
func pushed(w *electortest.World) { w.Push = true }

func (r *rig) hear(c trace.Claim) {
	if c.Kind == trace.Swapped {
		r.mu.Lock()
		r.swaps = append(r.swaps, c)
		r.mu.Unlock()
	}
}

// attempts are the statements that tried to win since the last call, and how many of
// them did.
func (r *rig) attempts() (tried, won int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.swaps {
		tried++
		won += c.Count
	}
	r.swaps = nil
	return tried, won
}

// statements is how many all candidates have sent, the dead ones too.
func (r *rig) statements() (n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, db := range r.dbs {
		n += db.Statements()
	}
	return n
}

// follow waits until everybody else knows the leader of the term.
func (r *rig) follow(leader *electortest.Node, term uint64) {
	for _, n := range r.Others(leader) {
		r.Until(n.ID.String()+" to know the leader", func() bool { return n.Current().Number == term && n.Current().Leader == leader.ID })
	}
}

// parked waits until everybody else waits for the lock of the leader of the term.
func (r *rig) parked(leader *electortest.Node, term uint64) {
	for _, n := range r.Others(leader) {
		r.Until(n.ID.String()+" to park", func() bool { return n.Strategy.(pooled).Parked() == term })
	}
}
