package elector_test

import (
	stdsql "database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/elector/electortest/sqlworld"
	"conclave/elector/fence"
	"conclave/internal/mysqltest"
)

// What the election costs a program that uses it: go test -run - -bench . ./elector/tests/
// on the embedded server, with TEST_ALL=1 on MySQL. Everything runs over sockets on
// one machine.

// anyServer returns a MySQL server if TEST_ALL is set, otherwise the embedded one.
func anyServer(b *testing.B) *sqlworld.World {
	if mysqltest.Wanted() {
		return sqlworld.New(b, mysqltest.New(b, mysqltest.MySQL))
	}
	return sqlworld.New(b, mysqltest.NewEmbedded(b))
}

// BenchmarkLeadAndResign measures one whole leadership of a single candidate: it wins,
// Lead is called, it resigns, Lead returns.
func BenchmarkLeadAndResign(b *testing.B) {
	r := newHarness(b, anyServer(b), 1, nil, func(c *elector.Config) { c.Observer = true })
	defer r.Stop()
	n := r.Nodes()[0]
	var led uint64
	for b.Loop() {
		require.NoError(b, n.JoinElection(b.Context()))
		led = leads(b, n, led)
		require.NoError(b, n.Quit(b.Context()))
	}
}

// leads waits until a node leads a term above the given one, and returns that term. It
// polls, because waiting for Changes would add the reader's own latency.
func leads(b *testing.B, n *electortest.Node, above uint64) uint64 {
	limit := time.Now().Add(20 * time.Second)
	for {
		if t, leading := n.Leading(); leading && t.Number > above {
			return t.Number
		}
		if time.Now().After(limit) {
			b.Fatal("no node leads")
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// BenchmarkHandOver measures a resignation until the other candidate leads.
func BenchmarkHandOver(b *testing.B) {
	r := newHarness(b, anyServer(b), 2, pushed)
	defer r.Stop()
	leader, term := r.Leader()
	for b.Loop() {
		next := r.Others(leader)[0]
		require.NoError(b, leader.Resign(b.Context()))
		term.Number = leads(b, next, term.Number)
		leader = next
	}
}

// BenchmarkRenew measures one beat of the leader, triggered by Wake.
func BenchmarkRenew(b *testing.B) {
	beaten := make(chan struct{}, 1)
	r := newHarness(b, anyServer(b), 1, nil, func(c *elector.Config) {
		c.OnBeat = func(elector.Term) {
			select {
			case beaten <- struct{}{}:
			default:
			}
		}
	})
	defer r.Stop()
	leader, _ := r.Leader()
	for b.Loop() {
		leader.Wake()
		<-beaten
	}
}

// BenchmarkLeading measures the check before each act; it sends no request.
func BenchmarkLeading(b *testing.B) {
	r := newHarness(b, anyServer(b), 1, nil)
	defer r.Stop()
	leader, _ := r.Leader()
	for b.Loop() {
		if _, leading := leader.Leading(); !leading {
			b.Fatal("it leads")
		}
	}
}

// BenchmarkObserve measures taking in a beat that the leader has pushed.
func BenchmarkObserve(b *testing.B) {
	r := newHarness(b, anyServer(b), 2, nil)
	defer r.Stop()
	leader, term := r.Leader()
	follower := r.Others(leader)[0]
	r.follow(leader, term.Number)
	for b.Loop() {
		term.Beat++
		follower.Observe(term)
	}
}

// BenchmarkWrite measures an application's write with and without the fence.
func BenchmarkWrite(b *testing.B) {
	w := anyServer(b)
	r := newHarness(b, w, 1, nil)
	defer r.Stop()
	_, term := r.Leader()
	db, err := stdsql.Open("mysql", w.DSN)
	require.NoError(b, err)
	defer db.Close()
	_, err = db.Exec("CREATE TABLE orders (id int PRIMARY KEY, n bigint NOT NULL)")
	require.NoError(b, err)
	_, err = db.Exec("INSERT INTO orders VALUES (1, 0)")
	require.NoError(b, err)
	b.Run("unfenced", func(b *testing.B) {
		for b.Loop() {
			_, err := db.ExecContext(b.Context(), "UPDATE orders SET n = n + ? WHERE id = ?", 1, 1)
			require.NoError(b, err)
		}
	})
	b.Run("fenced", func(b *testing.B) {
		token := fence.New(r.lock, term)
		for b.Loop() {
			n, err := fence.Exec(b.Context(), db, token, "UPDATE orders JOIN {fence} SET n = n + ? WHERE id = ?", 1, 1)
			require.NoError(b, err)
			require.Equal(b, int64(1), n)
		}
	})
}
