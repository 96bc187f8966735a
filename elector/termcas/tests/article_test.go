package termcas_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/elector/termcas"
	conclavesql "conclave/sql"
)

// One test per statement of article 000, which is retold in its comment.

// The lock is one row with the columns that the article lists, one per data centre
// and lock name.
//
// Article 000: the election rests on one row of the table distribute_lock, unique per data centre and lock name.
func TestArticleOneRowPerDataCentreAndLock(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		for _, column := range []string{"id", "data_center", "lock_name", "owner", "duration", "term", "term_duration", "gmt_create", "gmt_modified"} {
			var n int
			require.NoError(t, b.db.QueryRow(t.Context(), "SELECT COUNT("+column+") FROM distribute_lock WHERE data_center = ? AND lock_name = ?",
				[]any{b.lock.DataCenter, b.lock.Name}, &n))
			assert.Equal(t, 1, n, column)
		}
		_, err := b.db.Exec(t.Context(), "INSERT INTO distribute_lock (data_center, lock_name, duration) VALUES (?, ?, 1)", b.lock.DataCenter, b.lock.Name)
		assert.Error(t, err, "the unique key refuses a second row")
	})
}

// Article 000: at start every node tries; one becomes the leader, the others follow it.
func TestArticleOneOfThreeBecomesLeader(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		assert.Equal(t, uint64(1), term.Number)
		assert.Equal(t, leader.ID.String(), b.row(t).owner)
		assert.Len(t, c.PerceivedLeaders(), 1)
	})
}

// Article 000: the leader beats each second; with each beat term_duration grows by one and the term stays.
func TestArticleLeaderBeats(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 1)
		defer c.Stop()
		leader, term := c.Leader()
		for want := uint64(1); want <= 3; want++ {
			c.Until("a beat", func() bool { return leader.Current().Beat >= want })
			row := b.row(t)
			assert.GreaterOrEqual(t, row.beat, want)
			assert.Equal(t, term.Number, row.term)
		}
		second := b.Lease / 3 // a second of a lease of 3 s
		before := b.row(t).beat
		time.Sleep(10 * second)
		assert.InDelta(t, 10, b.row(t).beat-before, 1, "beats in ten times %v", second)
	})
}

// Each predicate of the beat, alone: a statement that names another owner, another term
// or an earlier beat changes nothing.
//
// Article 000: the beat names owner, term and term_duration as they were read.
func TestArticleBeatNamesOwnerTermAndBeat(t *testing.T) {
	everywhere(t, termcas.Lease, func(t *testing.T, b *bench) {
		b.exec(t, "UPDATE distribute_lock SET owner = 'a@1', term = 4, term_duration = 9 WHERE data_center = ? AND lock_name = ?")
		for _, beat := range []struct {
			what       string
			owner      string
			term, beat int
			changed    int64
		}{
			{"another owner", "a@2", 4, 9, 0}, {"another term", "a@1", 3, 9, 0}, {"an earlier beat", "a@1", 4, 8, 0}, {"as read", "a@1", 4, 9, 1},
		} {
			n, err := b.db.Exec(t.Context(), conclavesql.LockRenew, b.lock.DataCenter, b.lock.Name, beat.owner, beat.term, beat.beat)
			require.NoError(t, err)
			assert.Equal(t, beat.changed, n, beat.what)
		}
		row := b.row(t)
		assert.Equal(t, uint64(10), row.beat)
		assert.Equal(t, uint64(4), row.term)
	})
}

// The demonstration: three nodes, the leader is killed, and of the two that compete
// with what they read one changes a row and the other none; then the new leader is
// killed and the last node leads.
//
// Article 000: one follower's update matches a row and its term is one higher; the other's matches none and it follows.
func TestArticleOfTwoFollowersOneMatches(t *testing.T) {
	for _, takeover := range []termcas.Takeover{termcas.Lease, termcas.Witness} {
		t.Run(string(takeover), func(t *testing.T) {
			everywhere(t, takeover, func(t *testing.T, b *bench) {
				c := electortest.NewCluster(t, b.World, 3)
				defer c.Stop()
				first, term := c.Leader()
				require.Equal(t, uint64(1), term.Number)
				first.Kill()
				second, term := c.LeaderAfter(term.Number)
				assert.Equal(t, uint64(2), term.Number)
				assert.Zero(t, c.Ledger()[1].Term.Beat, "term_duration starts at 0 again")
				loser := c.Others(second)[0]
				c.Until("the other to follow", func() bool { return loser.Current().Leader == second.ID })
				assert.Zero(t, loser.Stats().Won)
				second.Kill()
				third, term := c.LeaderAfter(term.Number)
				assert.Equal(t, loser.ID, third.ID)
				assert.Equal(t, uint64(3), term.Number)
			})
		})
	}
}

// Two swaps from the same read, executed directly: the second matches nothing, because
// owner, term and nonce have changed since it was read.
//
// Article 000: compete by update: where owner, term and term_duration are what I read and the lease has passed.
func TestArticleSwapFromAnOldReadingMatchesNothing(t *testing.T) {
	everywhere(t, termcas.Lease, func(t *testing.T, b *bench) {
		b.exec(t, "UPDATE distribute_lock SET owner = 'gone@1', term = 4, term_duration = 9, duration = 1, nonce = 'n' WHERE data_center = ? AND lock_name = ?")
		swap := func(me string, beat int) int64 {
			n, err := b.db.Exec(t.Context(), conclavesql.LockWinExpired,
				me, "address", 4, 3000, "nonce of "+me, nil, nil,
				b.lock.DataCenter, b.lock.Name, "gone@1", 4, "n", nil, nil, "cv:none", beat)
			require.NoError(t, err)
			return n
		}
		wait := time.NewTimer(20 * time.Millisecond) // its lease is 1 ms
		defer wait.Stop()
		<-wait.C
		assert.Equal(t, int64(0), swap("hasty@1", 8), "another beat than was read: the leader is alive")
		assert.Equal(t, int64(1), swap("one@1", 9))
		assert.Equal(t, int64(0), swap("two@1", 9))
		row := b.row(t)
		assert.Equal(t, "one@1", row.owner)
		assert.Equal(t, uint64(5), row.term, "one higher")
		assert.Zero(t, row.beat)
	})
}

// Article 000: the database's time decides whether gmt_modified + duration has passed.
// In microseconds: whole seconds, as in the original, make a lease up to a second longer.
func TestArticleDatabaseTimeDecidesTheLease(t *testing.T) {
	bubble(t, termcas.Lease, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 2)
		defer c.Stop()
		old, term := c.Leader()
		c.Until("a beat", func() bool { return old.Current().Beat > 0 })
		began := time.Now()
		old.Kill()
		c.LeaderAfter(term.Number)
		took := time.Since(began)
		assert.LessOrEqual(t, took, b.Lease+b.Lease/20, "a lease of 3 s expires after 3 s, not 4")
	})
	everywhere(t, termcas.Lease, func(t *testing.T, b *bench) {
		for _, age := range []struct {
			micros string
			won    int64
		}{{"-3600000000", 0}, {"2000000", 0}, {"3001000", 1}} {
			b.exec(t, "UPDATE distribute_lock SET owner = 'gone@1', term = 4, term_duration = 9, duration = 3000, nonce = 'n', "+
				"gmt_modified = DATE_SUB(UTC_TIMESTAMP(3), INTERVAL "+age.micros+" MICROSECOND) WHERE data_center = ? AND lock_name = ?")
			n, err := b.db.Exec(t.Context(), conclavesql.LockWinExpired,
				"one@1", "address", 4, 3000, "m", nil, nil,
				b.lock.DataCenter, b.lock.Name, "gone@1", 4, "n", nil, nil, "cv:none", 9)
			require.NoError(t, err)
			assert.Equal(t, age.won, n, "at an age of %s us by the database's clock", age.micros)
		}
	})
}

// Article 000: on a change the listeners are called: I am leader, I am not leader.
func TestArticleListenersAreNotifiedOfBoth(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 1, asObserver)
		defer c.Stop()
		n := c.Nodes()[0]
		changes := n.Changes(context.Background())
		require.NoError(t, n.JoinElection(t.Context()))
		c.Leader()
		require.NoError(t, n.Resign(t.Context()))
		c.Stop()
		var got []elector.State
		for status := range changes {
			if status.Term.Leader == n.ID {
				got = append(got, status.State)
			}
		}
		// A round that the stop cuts off is a change as well, and no other state.
		assert.Equal(t, []elector.State{elector.Leading, elector.Resigning, elector.Following, elector.Observing}, slices.Compact(got))
	})
}

// Article 000: an observer only reads.
func TestArticleObserverOnlyReads(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 1, asObserver)
		defer c.Stop()
		time.Sleep(10 * b.Lease)
		row := b.row(t)
		assert.Empty(t, row.owner, "the free lock was not taken")
		assert.Zero(t, row.term)
	})
}
