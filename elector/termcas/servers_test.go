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

// What happens to an election when something happens to the server: its connections
// are killed, it is paused in the middle of a statement, it is restarted. The real
// ones only: the embedded server cannot be paused, and witness_test.go restarts it.

// contained is a world on a container of ours, with a lease that outlasts a pause.
func contained(t *testing.T, s *mysqltest.Server, lease time.Duration) *bench {
	t.Helper()
	s.NeedsContainer(t)
	b := onServer(t, s, termcas.Witness)
	b.Lease = lease
	return b
}

// holder is the connection that holds a named lock, as the server says.
func (b *bench) holder(t *testing.T, lock string) (conn stdsql.NullInt64) {
	t.Helper()
	require.NoError(t, b.db.QueryRow(t.Context(), conclavesql.LockUsed, []any{lock}, &conn))
	return conn
}

func TestWitnessIsHeldByTheConnectionThatTheRowNames(t *testing.T) {
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
		assert.NotEqual(t, first.lock, second.lock, "each leader has a lock that nobody knew before")
		assert.Equal(t, second.conn, b.holder(t, second.lock.String))
		// A wait that was abandoned may be given it for the moment in which the server
		// notices.
		c.Until("who has resigned to hold nothing", func() bool { return !b.holder(t, first.lock.String).Valid })
	})
}

// An operator, or a proxy, kills the connection of the leader at the server.
func TestKilledConnectionCostsNoTerm(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		for range 3 {
			parked(c, leader)
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
		assert.Len(t, c.Ledger(), 1, "suspended is not deposed")
	})
}

// The server is paused with a swap on its way, and carries it out when it goes on:
// then the row names a node that gave up long ago. That node never leads the term; it
// finds its name and takes the next one.
func TestSwapThatAPausedServerCarriesOutLaterIsNeverLed(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		b := contained(t, s, 9*time.Second) // to pause a container may take longer than a statement of 3 s' lease has
		c := electortest.NewCluster(t, b.World, 2, asObserver)
		defer c.Stop()
		n := c.Nodes()[0]
		paused := make(chan func(), 1)
		n.Cable.Before("GREATEST(term", func() { paused <- s.Pause(t) })
		require.NoError(t, n.JoinElection(t.Context()))
		resume := <-paused
		c.Until("the node to give its swap up", func() bool { return n.Stats().Failed > 0 })
		release := n.Cable.Stall() // it sees nothing of what comes
		resume()
		c.Until("the swap to land", func() bool { return b.row(t).term == 1 })
		assert.Equal(t, n.ID.String(), b.row(t).owner)
		assert.Empty(t, c.Ledger(), "the row names a leader, and nobody leads")
		release()
		leader, term := c.Leader()
		assert.Equal(t, n.ID, leader.ID)
		assert.Equal(t, uint64(2), term.Number, "term 1 was won by nobody who knew")
		assert.Equal(t, elector.CauseFirst, term.Cause)
		row := b.row(t)
		assert.Equal(t, uint64(2), row.term)
		assert.Len(t, c.Ledger(), 1)
	})
}

// The same with a renewal, for longer than a lease: the leader stops by itself, no two
// believe at any time, and a leader is back after the pause, in a higher term.
func TestRenewalInAPausedServer(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		b := contained(t, s, 2500*time.Millisecond)
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		parked(c, leader)
		paused := make(chan func(), 1)
		leader.Cable.Before("term_duration + 1", func() { paused <- s.Pause(t) })
		resume := <-paused
		began := time.Now()
		c.Until("the leader to stop", func() bool { return len(c.Believers()) == 0 })
		assert.LessOrEqual(t, time.Since(began), b.Lease+b.Lease/2, "its trust has ended")
		pause := time.NewTimer(2 * b.Lease)
		defer pause.Stop()
		<-pause.C
		assert.Empty(t, c.Believers(), "nobody leads without a database")
		resume()
		next, after := c.LeaderAfter(term.Number)
		assert.Len(t, c.Believers(), 1)
		row := b.row(t)
		assert.Equal(t, after.Number, row.term)
		assert.Equal(t, next.ID.String(), row.owner)
	})
}

func TestPauseWithinTheLeaseCostsNoTerm(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		b := contained(t, s, 6*time.Second)
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		parked(c, leader)
		paused := make(chan func(), 1)
		leader.Cable.Before("term_duration + 1", func() { paused <- s.Pause(t) }) // a statement is under way
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

// The server's process is killed and comes back. All named locks are gone, and its
// connections are numbered from the beginning again. Nobody has evidence, so nobody
// takes the leader's lock, finds it alive and drops it, in a circle with the others.
func TestRestartedServerKeepsTheTerm(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		b := contained(t, s, 30*time.Second) // of which the server may take a while to be back
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		parked(c, leader)
		before := b.row(t)
		said := b.statements()

		began := time.Now()
		s.Restart(t)
		t.Logf("the server was away for %v", time.Since(began))
		c.Until("the leader to park anew", func() bool { return b.row(t).lock != before.lock })
		parked(c, leader)
		beat := leader.Current().Beat
		c.Until("a beat", func() bool { return leader.Current().Beat > beat })
		rate := float64(b.statements()-said) / time.Since(began).Seconds()
		t.Logf("%.1f statements a second from the crash on", rate)
		assert.Less(t, rate, 25.0, "nobody goes in circles")
		assert.Less(t, leader.Stats().Failed, uint64(30), "nor dials as fast as it can")
		assert.Zero(t, leader.Stats().Alive, "nobody was given the leader's lock, and asked")
		now, leading := leader.Leading()
		assert.True(t, leading)
		assert.Equal(t, term.Number, now.Number)
		assert.Len(t, c.Ledger(), 1)

		killed := time.Now()
		leader.Kill()
		_, next := c.LeaderAfter(term.Number)
		assert.Less(t, time.Since(killed), b.Lease/3, "and the witness is back")
		assert.Equal(t, elector.CauseKilled, next.Cause)
	})
}

// A server that repeats statements as text on its replicas gets no witness: there its
// predicate would match nothing.
func TestWitnessGoesByTheBinaryLog(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		s.NeedsContainer(t) // it has a binary log, and its settings are ours to change
		t.Cleanup(func() { s.Exec(t, "SET GLOBAL binlog_format = 'ROW'") })
		for _, format := range []string{"ROW", "MIXED", "STATEMENT"} {
			t.Run(format, func(t *testing.T) {
				s.Exec(t, "SET GLOBAL binlog_format = ?", format)
				b := onServer(t, s, termcas.Witness)
				c := electortest.NewCluster(t, b.World, 1)
				defer c.Stop()
				c.Leader()
				assert.Equal(t, format != "STATEMENT", b.row(t).lock.Valid)
			})
		}
	})
}
