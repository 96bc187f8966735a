package termcas_test

import (
	"context"
	stdsql "database/sql"
	"net"
	"sync/atomic"
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

// asObserver makes a node an observer until the test calls JoinElection.
func asObserver(cfg *elector.Config) { cfg.Observer = true }

func TestWin_LostAnswerIsLedAtOnce(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 1, asObserver)
		defer c.Stop()
		n := c.Nodes()[0]
		n.Cable.LoseReply("GREATEST(term")
		began := time.Now()
		require.NoError(t, n.JoinElection(t.Context()))
		_, term := c.Leader()
		assert.Equal(t, 1, n.Cable.Lost())
		assert.Equal(t, uint64(1), term.Number, "the row has its nonce")
		assert.Less(t, time.Since(began), max(b.Lease/3, b.soon()), "no wait for the lease")
		row := b.row(t)
		assert.Equal(t, uint64(2), c.Ledger()[0].Term.Beat, "renewed on a new connection before it was led")
		assert.GreaterOrEqual(t, row.beat, uint64(2))
		assert.True(t, row.lock.Valid)
	})
}

func TestWin_LateSwapAfterAnotherWinIsNeverLed(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 1, asObserver)
		defer c.Stop()
		n := c.Nodes()[0]
		deliver := n.Cable.Delay("GREATEST(term")
		require.NoError(t, n.JoinElection(t.Context()))
		_, first := c.Leader() // the swap is delayed; a second one has won
		assert.Equal(t, uint64(1), first.Number)
		deliver()
		c.Until("some beats", func() bool { return n.Current().Beat > 3 })
		assert.Len(t, c.Ledger(), 1, "the late swap matched nothing")
		row := b.row(t)
		assert.Equal(t, uint64(1), row.term)
	})
}

// A late swap that is executed while the row is still as it was read makes a node the
// owner that does not know it. That node finds its name and wins the next term at once.
func TestWin_LateWinIsReplacedByTheNextTerm(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 1, asObserver)
		defer c.Stop()
		n := c.Nodes()[0]
		deliver := n.Cable.Delay("GREATEST(term")
		go n.JoinElection(t.Context())
		time.Sleep(b.Lease / 12) // the swap has been sent
		release := n.Cable.Stall()
		time.Sleep(4 * b.Lease) // and nothing else is sent
		deliver()
		time.Sleep(b.Lease)
		release()
		began := time.Now()
		_, term := c.Leader()
		assert.Equal(t, uint64(2), term.Number, "term 1 was won too late to be led")
		assert.LessOrEqual(t, time.Since(began), b.Lease/3+b.Lease/20, "it wins the next term from itself without waiting")
		assert.Equal(t, elector.CauseFirst, term.Cause, "the cause is that of the late win")
	})
}

func TestRenewal_LateStatementMatchesNothing(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 1)
		defer c.Stop()
		n, _ := c.Leader()
		deliver := n.Cable.Delay("term_duration = term_duration + 1")
		time.Sleep(b.Lease / 2)
		n.Cable.Break() // the connection with the renewal on it; the leader reacquires a witness
		c.Until("the leader to reacquire a witness", func() bool { return n.Current().Beat == 2 })
		before := b.row(t).beat
		deliver()
		time.Sleep(b.Lease / 100)
		assert.Equal(t, before, b.row(t).beat, "the late renewal names an old beat")
		c.Until("some beats", func() bool { return n.Current().Beat > before+3 })
		assert.Len(t, c.Ledger(), 1)
	})
}

// A renewal that other transactions were in the way of is repeated on its connection: the
// witness stays, and no follower is given it. (The embedded server has no such answers.)
func TestRenewal_RefusedKeepsTheWitness(t *testing.T) {
	mysqltest.AtOnce(t, func(t *testing.T, s *mysqltest.Server) {
		b := contained(t, s, 9*time.Second) // with room for a lock wait, of 2 s
		c := electortest.NewCluster(t, b.World, 2)
		defer c.Stop()
		leader, _ := c.Leader()
		waitForWaiters(c, leader)
		before := b.row(t)
		db, err := stdsql.Open("mysql", b.dsn)
		require.NoError(t, err)
		defer db.Close()
		tx, err := db.Begin()
		require.NoError(t, err)
		defer func() { _ = tx.Rollback() }() // without effect after the first
		var term uint64
		require.NoError(t, tx.QueryRow("SELECT term FROM distribute_lock WHERE lock_name = ? FOR UPDATE", b.lock.Name).Scan(&term))
		c.Until("a refused renewal", func() bool { return leader.Status().Err != nil })
		require.True(t, conclavesql.IsContention(leader.Status().Err), "%v", leader.Status().Err)
		require.NoError(t, tx.Rollback())
		c.Until("renewals", func() bool { return leader.Status().Err == nil && leader.Current().Beat > before.beat+2 })
		after := b.row(t)
		assert.Equal(t, before.lock, after.lock)
		assert.Equal(t, before.conn, after.conn)
		assert.Len(t, c.Ledger(), 1)
		assert.Zero(t, leader.Stats().Ended)
	})
}

// An observer whose address leads to another server reads that one a lease after the rows
// of the former stand still.
func TestObserver_FollowsAnAddressThatMoves(t *testing.T) {
	t.Run("own", func(t *testing.T) { movesUnderAnObserver(t, false) })
	t.Run("shared", func(t *testing.T) { movesUnderAnObserver(t, true) })
}

func movesUnderAnObserver(t *testing.T, shared bool) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		b.shared = shared
		former := electortest.NewCluster(t, b.World, 1)
		defer former.Stop()
		leader, term := former.Leader()
		seen := b.World
		var moved atomic.Bool
		next := inBubble(t, termcas.Witness)
		seen.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if moved.Load() {
				return next.Dial(ctx, network, addr)
			}
			return b.Dial(ctx, network, addr)
		}
		o := electortest.NewCluster(t, seen, 1, asObserver)
		defer o.Stop()
		observer := o.Nodes()[0]
		o.Until("the observer to see the leader", func() bool { return observer.Current().Number == term.Number })
		leader.Kill()
		moved.Store(true)
		promoted := electortest.NewCluster(t, next.World, 2)
		defer promoted.Stop()
		at, term := promoted.Leader()
		require.NoError(t, at.Resign(t.Context()))
		_, term = promoted.LeaderAfter(term.Number)
		began := time.Now()
		o.Until("the observer to see the promoted server", func() bool { return observer.Current().Number == term.Number })
		assert.LessOrEqual(t, time.Since(began), 2*b.Lease)
	})
}

func TestRow_DeletedIsVacantOnlyAfterALease(t *testing.T) {
	everywhere(t, termcas.Lease, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 2)
		defer c.Stop()
		leader, term := c.Leader()
		c.Until("beats", func() bool { return leader.Current().Beat > 2 })
		began := time.Now()
		b.exec(t, "DELETE FROM distribute_lock WHERE data_center = ? AND lock_name = ?")
		_, next := c.LeaderAfter(term.Number)
		assert.GreaterOrEqual(t, time.Since(began), b.Lease, "the old leader may still act")
		assert.Equal(t, term.Number+1, next.Number, "terms continue above the highest seen")
		assert.Equal(t, elector.CauseRestored, next.Cause)
		assert.Equal(t, next.Number, b.row(t).term, "the row has the same term")
	})
}

func TestRow_EmptiedIsVacantOnlyAfterALease(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 2)
		defer c.Stop()
		leader, term := c.Leader()
		c.Until("beats", func() bool { return leader.Current().Beat > 2 })
		began := time.Now()
		b.exec(t, "UPDATE distribute_lock SET owner = '', term = 0, nonce = '', witness_lock = NULL WHERE data_center = ? AND lock_name = ?")
		_, next := c.LeaderAfter(term.Number)
		assert.GreaterOrEqual(t, time.Since(began), b.Lease)
		assert.Equal(t, term.Number+1, next.Number)
		assert.Equal(t, next.Number, b.row(t).term, "the row has the same term")
	})
}

func TestRow_RestoredIsWonAboveTheHighestTermSeen(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		for range 4 {
			require.NoError(t, leader.Resign(t.Context()))
			leader, term = c.LeaderAfter(term.Number)
		}
		for _, n := range c.Nodes() {
			c.Until("all to have seen the term", func() bool { return n.Highest() == term.Number })
		}
		// A backup from term 2 is restored.
		b.exec(t, "UPDATE distribute_lock SET owner = 'gone@0', term = 2, nonce = 'old', witness_lock = 'old', witness_conn = 1 WHERE data_center = ? AND lock_name = ?")
		_, next := c.LeaderAfter(term.Number)
		assert.Greater(t, next.Number, term.Number, "above the term that every node has seen")
		assert.Equal(t, next.Number, b.row(t).term, "the row has the same term")
		assert.Equal(t, elector.CauseRestored, next.Cause)
	})
}

func TestRow_LeaseInRowDecides(t *testing.T) {
	bubble(t, termcas.Lease, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 1)
		defer c.Stop()
		leader, term := c.Leader()
		c.Add("short", func(cfg *elector.Config) { cfg.Lease = b.Lease / 3 })
		time.Sleep(5 * b.Lease)
		assert.Len(t, c.Ledger(), 1, "a candidate's own shorter lease deposes no leader")
		began := time.Now()
		leader.Kill()
		b.exec(t, "UPDATE distribute_lock SET gmt_modified = DATE_SUB(NOW(3), INTERVAL 1 HOUR) WHERE data_center = ? AND lock_name = ?")
		c.LeaderAfter(term.Number)
		assert.GreaterOrEqual(t, time.Since(began), b.Lease-b.Lease/3, "the candidate observes for the lease in the row")
	})
}

func TestDatabaseClock_StepNeitherDeposesNorBlocks(t *testing.T) {
	t.Run("forward", func(t *testing.T) {
		bubble(t, termcas.Lease, func(t *testing.T, b *bench) {
			c := electortest.NewCluster(t, b.World, 3)
			defer c.Stop()
			c.Leader()
			for range 20 { // by the database's clock every renewal is an hour old
				b.exec(t, "UPDATE distribute_lock SET gmt_modified = DATE_SUB(NOW(3), INTERVAL 1 HOUR) WHERE data_center = ? AND lock_name = ?")
				time.Sleep(b.Lease / 5)
			}
			assert.Len(t, c.Ledger(), 1)
		})
	})
	t.Run("back", func(t *testing.T) {
		bubble(t, termcas.Lease, func(t *testing.T, b *bench) {
			c := electortest.NewCluster(t, b.World, 2)
			defer c.Stop()
			leader, term := c.Leader()
			c.Until("a beat", func() bool { return leader.Current().Beat > 0 })
			leader.Kill()
			b.exec(t, "UPDATE distribute_lock SET gmt_modified = DATE_ADD(NOW(3), INTERVAL 1 HOUR) WHERE data_center = ? AND lock_name = ?")
			began := time.Now()
			_, next := c.LeaderAfter(term.Number)
			assert.InDelta(t, 2*b.Lease, next.Leaderless, float64(b.Lease/5), "without a leader for two of the three leases")
			assert.Greater(t, time.Since(began), 2*b.Lease)
			assert.Less(t, time.Since(began), 4*b.Lease, "after three leases of observation the database's clock does not matter")
		})
	})
}

func TestRecord_LeaderlessTimeIsMeasuredOnce(t *testing.T) {
	bubble(t, termcas.Lease, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 2)
		defer c.Stop()
		leader, term := c.Leader()
		c.Until("a beat", func() bool { return leader.Current().Beat > 0 })
		next := c.Others(leader)[0]
		next.Cable.Garble("INTO election_history", "INTO election_missing")
		leader.Kill()
		_, won := c.LeaderAfter(term.Number)
		assert.Less(t, won.Leaderless, b.soon(), "measured although it is not recorded")
		c.Until("three beats", func() bool { return next.Current().Beat > 3 })
		next.Cable.Garble("", "")
		history := conclavesql.NewHistory(b.db, b.lock)
		var newest conclavesql.Election
		c.Until("the history to have it", func() bool {
			list, err := history.List(t.Context(), 1)
			require.NoError(t, err)
			newest = list[0]
			return newest.Term == won.Number
		})
		assert.Equal(t, won.Leaderless.Milliseconds(), newest.Leaderless.Milliseconds(), "a retry three beats later records the same time")
	})
}

func TestObserver_GivesUpTermThatNamesIt(t *testing.T) {
	bubble(t, termcas.Lease, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 1, asObserver)
		defer c.Stop()
		n := c.Nodes()[0]
		b.exec(t, "UPDATE distribute_lock SET owner = '"+n.ID.String()+"', term = 4 WHERE data_center = ? AND lock_name = ?")
		c.Until("the term to be given up", func() bool { return b.row(t).resigned })
		assert.Equal(t, uint64(4), b.row(t).term)
	})
}

func TestFence_StateWriteUnderEndedTermIsRefused(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 2)
		defer c.Stop()
		leader, term := c.Leader()
		store := conclavesql.NewStateStore(b.db, b.lock)
		states, err := store.Read(t.Context())
		require.NoError(t, err)
		fence := conclavesql.Fence{Owner: leader.ID.String(), Term: term.Number}
		leader.Kill()
		c.LeaderAfter(term.Number)
		outcome, err := store.Write(t.Context(), fence, states[conclavesql.KindTable], conclavesql.State{Body: "{}", Seq: 1, Nonce: "n"})
		require.NoError(t, err)
		assert.Equal(t, conclavesql.Deposed, outcome)
	})
}

// A node that was cut off while two terms passed, and wins after the second was
// resigned, records the leader that resigned, not the last one that it saw.
func TestHistory_PreviousLeaderIsOfTheTermBefore(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		first, term := c.Leader()
		var away *electortest.Node
		for _, n := range c.Nodes() {
			if n != first {
				away = n
			}
		}
		time.Sleep(b.Lease) // so that it has seen the first term
		away.Cable.Cut()
		require.NoError(t, first.Quit(t.Context()))
		second, term := c.LeaderAfter(term.Number)
		require.NotEqual(t, first.ID, second.ID)
		require.NoError(t, second.Quit(t.Context()))
		away.Cable.Mend()
		third, next := c.LeaderAfter(term.Number)
		require.Equal(t, away.ID, third.ID)
		assert.Equal(t, second.ID, next.Previous)
	})
}
