package elector_test

import (
	"context"
	stdsql "database/sql"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/electorfake"
	"conclave/elector/fence"
	"conclave/elector/termcas"
	"conclave/internal/mysqltest"
	"conclave/sql"
)

// What docs/takeover.md makes of programs that have another lock. The page quotes these
// functions.

// asLeader does the work in one process at a time.
func asLeader(ctx context.Context, dsn, name string, work func(context.Context, fence.Token) error) error {
	lock := sql.Lock{DataCenter: "shop", Name: "nightly"}
	db, err := sql.Open(dsn, sql.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Migrate(ctx, lock); err != nil {
		return err
	}
	strategy, err := termcas.New(termcas.Config{DB: db, Lock: lock})
	if err != nil {
		return err
	}
	e, err := elector.New(elector.Config{ID: conclave.NodeID{Name: name}, Strategy: strategy, Logger: slog.Default(),
		Lead: func(ctx context.Context, term elector.Term) error { return work(ctx, fence.New(lock, term)) }})
	if err != nil {
		return err
	}
	return e.Run(ctx)
}

// pay is one of the writes.
func pay(ctx context.Context, db *stdsql.DB, token fence.Token, order int) error {
	_, err := fence.Exec(ctx, db, token, "UPDATE orders JOIN {fence} SET state = ? WHERE id = ?", "paid", order)
	return err
}

// One process works, the next one when the first has stopped, and a write that the first
// had decided before changes nothing afterwards.
func TestTakeover_FromAWrapperOfGetLock(t *testing.T) {
	server := mysqltest.NewEmbedded(t)
	shop, err := stdsql.Open("mysql", server.DSN)
	require.NoError(t, err)
	defer shop.Close()
	server.Exec(t, "CREATE TABLE conclave.orders (id int PRIMARY KEY, state varchar(10))")
	server.Exec(t, "INSERT INTO conclave.orders VALUES (7, ''), (8, '')")

	works := make(chan fence.Token)
	process := func(name string) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- asLeader(ctx, server.DSN, name, func(ctx context.Context, token fence.Token) error {
				works <- token
				<-ctx.Done()
				return nil
			})
		}()
		stop = sync.OnceFunc(func() { cancel(); assert.NoError(t, <-ended) })
		t.Cleanup(stop)
		return stop
	}
	stop := process("one")
	first := <-works
	require.NoError(t, pay(t.Context(), shop, first, 7))
	process("two")
	stop()
	second := <-works
	assert.Greater(t, second.Term, first.Term)
	require.ErrorIs(t, pay(t.Context(), shop, first, 8), fence.ErrTermEnded)
	var state string
	require.NoError(t, shop.QueryRow("SELECT state FROM orders WHERE id = 8").Scan(&state))
	assert.Empty(t, state)
	require.NoError(t, pay(t.Context(), shop, second, 8))
}

// runController runs the controllers while this process leads, and returns when it has
// led or ctx has ended.
func runController(ctx context.Context, strategy elector.Strategy, identity string, controllers func(context.Context), onStopped func(), onNewLeader func(string)) error {
	ctx, stop := context.WithCancel(ctx)
	e, err := elector.New(elector.Config{
		ID:       conclave.NodeID{Name: identity},
		Strategy: strategy,
		Lease:    15 * time.Second,
		Margin:   5 * time.Second,
		Beat:     2 * time.Second,
		Lead: func(ctx context.Context, _ elector.Term) error {
			defer stop() // as RunOrDie returns; without it, this process competes again
			controllers(ctx)
			onStopped()
			return nil
		},
	})
	if err != nil {
		return err
	}
	leader, changes := "", e.Changes(ctx)
	go func() {
		for status := range changes {
			if now := status.Term.Leader.Name; now != leader {
				leader = now
				onNewLeader(leader)
			}
		}
	}()
	return e.Run(ctx)
}

// The callbacks are called when those of client-go are.
func TestTakeover_FromClientGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		election := electorfake.New()
		election.Elect("other")
		var seen []string
		var mu sync.Mutex
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, what)
		}
		ended := make(chan error, 1)
		go func() {
			ended <- runController(t.Context(), election.Strategy(), "me",
				func(ctx context.Context) { note("started"); <-ctx.Done() },
				func() { note("stopped") },
				func(leader string) {
					if leader != "" { // between two leaders, if this node reads the row then
						note("leader " + leader)
					}
				})
		}()
		time.Sleep(time.Minute)
		election.Resign()
		time.Sleep(time.Minute)
		election.Elect("third")
		synctest.Wait()
		time.Sleep(time.Minute)
		<-ended
		mu.Lock()
		defer mu.Unlock()
		assert.ElementsMatch(t, []string{"leader other", "leader me", "started", "leader third", "stopped"}, seen)
		assert.Less(t, slices.Index(seen, "started"), slices.Index(seen, "stopped"))
	})
}
