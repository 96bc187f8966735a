package termcas_test

import (
	stdsql "database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/elector/termcas"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// Elections while the server's connections are killed, while it is paused in the middle
// of a statement, and while it is restarted. Pauses and restarts need the real servers:
// the embedded one cannot be paused, and witness_test.go restarts it.

// contained returns a world on a container that the test started, with the given lease.
func contained(t *testing.T, s *mysqltest.Server, lease time.Duration) *bench {
	t.Helper()
	s.NeedsContainer(t)
	b := onServer(t, s, termcas.Witness)
	b.Lease = lease
	return b
}

// holder returns the connection that holds a named lock, as the server reports it.
func (b *bench) holder(t *testing.T, lock string) (conn stdsql.NullInt64) {
	t.Helper()
	require.NoError(t, b.db.QueryRow(t.Context(), conclavesql.LockUsed, []any{lock}, &conn))
	return conn
}

func TestWitness_IsHeldByTheConnectionInTheRow(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 2)
		defer c.Stop()
		leader, term := c.Leader()
		first := b.row(t)
		require.True(t, first.lock.Valid)
		assert.True(t, first.conn.Valid)
		assert.Equal(t, first.conn, b.holder(t, first.lock.String))
		require.NoError(t, leader.Resign(t.Context()))
		c.LeaderAfter(term.Number)
		second := b.row(t)
		assert.NotEqual(t, first.lock, second.lock, "each leader has a new lock")
		assert.Equal(t, second.conn, b.holder(t, second.lock.String))
		// An abandoned wait may hold the lock until the server notices its end.
		c.Until("the old lock to be free", func() bool { return !b.holder(t, first.lock.String).Valid })
	})
}

// An operator, or a proxy, kills the connection of the leader at the server.
func TestReacquire_KilledConnectionCostsNoTerm(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		for range 3 {
			waitForWaiters(c, leader)
			before := b.row(t)
			_, err := b.db.Exec(t.Context(), "KILL ?", before.conn.Int64)
			require.NoError(t, err)
			c.Until("a new witness", func() bool { now := b.row(t); return now.lock.Valid && now.lock != before.lock })
			c.Until("the leader to act again", func() bool { _, leading := leader.Leading(); return leading })
			now := b.row(t)
			assert.NotEqual(t, before.conn, now.conn)
			assert.Equal(t, now.conn, b.holder(t, now.lock.String))
			assert.Equal(t, term.Number, now.term)
		}
		assert.Len(t, c.Ledger(), 1, "the leader was suspended, not deposed")
	})
}

// The server is paused after a swap was sent, and executes it when it continues: then
// the row names a node that has given up. That node never leads the term; it finds its
// name in the row and wins the next one.
func TestWin_SwapExecutedAfterServerPauseIsNeverLed(t *testing.T) {
	mysqltest.AtOnce(t, func(t *testing.T, s *mysqltest.Server) {
		b := contained(t, s, 9*time.Second) // pausing a container may take longer than the timeout of a statement with a lease of 3 s
		c := electortest.NewCluster(t, b.World, 2, asObserver)
		defer c.Stop()
		n := c.Nodes()[0]
		paused := make(chan func(), 1)
		n.Cable.Before("GREATEST(term", func() { paused <- s.Pause(t) })
		require.NoError(t, n.JoinElection(t.Context()))
		resume := <-paused
		c.Until("the node to give up its swap", func() bool { return n.Stats().Failed > 0 })
		release := n.Cable.Stall() // so that it does not see the result
		resume()
		c.Until("the swap to be executed", func() bool { return b.row(t).term == 1 })
		assert.Equal(t, n.ID.String(), b.row(t).owner)
		assert.Empty(t, c.Ledger(), "the row names a leader, but no node leads")
		release()
		leader, term := c.Leader()
		assert.Equal(t, n.ID, leader.ID)
		assert.Equal(t, uint64(2), term.Number, "term 1 was won too late to be led")
		assert.Equal(t, elector.CauseFirst, term.Cause)
		row := b.row(t)
		assert.Equal(t, uint64(2), row.term)
		assert.Len(t, c.Ledger(), 1)
	})
}

// The same with a renewal, for longer than a lease: the leader stops by itself, no two
// perceived leaderships overlap, and after the pause a leader has a higher term.
func TestRenewal_InPausedServer(t *testing.T) {
	mysqltest.AtOnce(t, func(t *testing.T, s *mysqltest.Server) {
		b := contained(t, s, 2500*time.Millisecond)
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		waitForWaiters(c, leader)
		paused := make(chan func(), 1)
		leader.Cable.Before("term_duration + 1", func() { paused <- s.Pause(t) })
		resume := <-paused
		began := time.Now()
		c.Until("the leader to stop", func() bool { return len(c.PerceivedLeaders()) == 0 })
		assert.LessOrEqual(t, time.Since(began), b.Lease+b.Lease/2, "its trust has ended")
		pause := time.NewTimer(2 * b.Lease)
		defer pause.Stop()
		<-pause.C
		assert.Empty(t, c.PerceivedLeaders(), "no node leads without a database")
		resume()
		next, after := c.LeaderAfter(term.Number)
		assert.Len(t, c.PerceivedLeaders(), 1)
		row := b.row(t)
		assert.Equal(t, after.Number, row.term)
		assert.Equal(t, next.ID.String(), row.owner)
	})
}

func TestPause_WithinTheLeaseCostsNoTerm(t *testing.T) {
	mysqltest.AtOnce(t, func(t *testing.T, s *mysqltest.Server) {
		b := contained(t, s, 6*time.Second)
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		waitForWaiters(c, leader)
		paused := make(chan func(), 1)
		leader.Cable.Before("term_duration + 1", func() { paused <- s.Pause(t) }) // a statement is in progress
		resume := <-paused
		beat := leader.Current().Beat
		stall := time.NewTimer(b.Lease / 4)
		defer stall.Stop()
		<-stall.C
		resume()
		c.Until("beats after the pause", func() bool { return leader.Current().Beat > beat+1 })
		now, leading := leader.Leading()
		assert.True(t, leading)
		assert.Equal(t, term.Number, now.Number)
		assert.Len(t, c.Ledger(), 1)
	})
}

// The server's process is killed and restarted. All named locks are gone, and connection
// ids start at the beginning again. No candidate has evidence, so none acquires the
// leader's lock, finds the leader alive and releases the lock, in turn with the others.
func TestRestart_OfServerKeepsTheTerm(t *testing.T) {
	mysqltest.AtOnce(t, func(t *testing.T, s *mysqltest.Server) {
		b := contained(t, s, 30*time.Second) // the restart may take part of it
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		waitForWaiters(c, leader)
		before := b.row(t)
		sent := b.statements()

		began := time.Now()
		s.Restart(t)
		t.Logf("the server was away for %v", time.Since(began))
		c.Until("the leader to reacquire a witness", func() bool { return b.row(t).lock != before.lock })
		waitForWaiters(c, leader)
		beat := leader.Current().Beat
		c.Until("a beat", func() bool { return leader.Current().Beat > beat })
		rate := float64(b.statements()-sent) / time.Since(began).Seconds()
		t.Logf("%.1f statements a second from the crash on", rate)
		assert.Less(t, rate, 25.0, "the candidates do not retry in a circle")
		assert.Less(t, leader.Stats().Failed, uint64(30), "the leader does not dial without pauses")
		assert.Zero(t, leader.Stats().Alive, "no candidate acquired the leader's lock and asked")
		now, leading := leader.Leading()
		assert.True(t, leading)
		assert.Equal(t, term.Number, now.Number)
		assert.Len(t, c.Ledger(), 1)

		killed := time.Now()
		leader.Kill()
		_, next := c.LeaderAfter(term.Number)
		assert.Less(t, time.Since(killed), b.Lease/3, "there is a witness again")
		assert.Equal(t, elector.CauseKilled, next.Cause)
	})
}

// A server that replicates statements as text gets no witness: on a replica the predicate
// would match nothing.
func TestWitness_DependsOnBinaryLogFormat(t *testing.T) {
	mysqltest.AtOnce(t, func(t *testing.T, s *mysqltest.Server) {
		s.NeedsContainer(t) // it has a binary log, and the test may change its settings
		t.Cleanup(func() { s.Exec(t, "SET GLOBAL binlog_format = 'ROW'") })
		for _, format := range []string{"ROW", "MIXED", "STATEMENT"} {
			t.Run(format, func(t *testing.T) {
				s.Exec(t, "SET GLOBAL binlog_format = ?", format)
				b := onServer(t, s, termcas.Witness)
				c := electortest.NewCluster(t, b.World, 1)
				defer c.Stop()
				c.Leader()
				assert.Equal(t, format != "STATEMENT", b.row(t).lock.Valid)
				b.shared = true
				c.Stop()
				shared := electortest.NewCluster(t, b.World, 1)
				defer shared.Stop()
				if format != "STATEMENT" {
					shared.Leader()
					return
				}
				shared.Until("an error", func() bool { return shared.Nodes()[0].Status().Err != nil })
				assert.ErrorContains(t, shared.Nodes()[0].Status().Err, "binlog_format is STATEMENT")
			})
		}
	})
}
