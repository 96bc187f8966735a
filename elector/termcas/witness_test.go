package termcas_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/elector/termcas"
	"conclave/internal/devdb"
	"conclave/sim/simnet"
	conclavesql "conclave/sql"
)

// parked waits until every other node waits for the leader's lock.
func parked(c *electortest.Cluster, leader *electortest.Node) {
	for _, n := range c.Others(leader) {
		c.Until(n.ID.String()+" to park", func() bool {
			term, _ := leader.Leading()
			return term.Number > 0 && n.Strategy.(closing).Parked() == term.Number
		})
	}
}

func TestKilledLeaderIsFollowedAtOnce(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		for range 2 { // the second one shows that the loser of the first stands by the winner
			parked(c, leader)
			began := time.Now()
			leader.Kill()
			next, nextTerm := c.LeaderAfter(term.Number)
			assert.Less(t, time.Since(began), b.soon())
			assert.Equal(t, elector.CauseKilled, nextTerm.Cause)
			assert.Equal(t, leader.ID, nextTerm.Previous)
			leader, term = next, nextTerm
		}
	})
}

func TestKillingTwiceWithin200Milliseconds(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 4)
		defer c.Stop()
		first, term := c.Leader()
		parked(c, first)
		began := time.Now()
		first.Kill()
		second, term := c.LeaderAfter(term.Number)
		time.Sleep(100 * time.Millisecond)
		second.Kill()
		_, term = c.LeaderAfter(term.Number)
		assert.Less(t, time.Since(began), 200*time.Millisecond, "the losers were on the winner's lock already")
		assert.Equal(t, elector.CauseKilled, term.Cause)
	})
}

func TestLeaderKeepsItsTermWhenItsConnectionIsKilled(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		for range 5 {
			parked(c, leader)
			beat := leader.Current().Beat
			leader.Cable.Break()
			c.Until("the next beat", func() bool { return leader.Current().Beat > beat+2 })
			now, leading := leader.Leading()
			require.True(t, leading)
			require.Equal(t, term.Number, now.Number)
		}
		assert.Len(t, c.Ledger(), 1, "suspended is not deposed")
	})
}

func TestLeaderDoesNotActBetweenTheLossOfItsConnectionAndTheNext(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 1)
		defer c.Stop()
		leader, term := c.Leader()
		leader.Cable.Cut() // idle: no statement is under way
		c.Until("the leader to notice", func() bool { _, leading := leader.Leading(); return !leading })
		assert.Equal(t, term.Number, leader.Current().Number)
		assert.Positive(t, leader.Remaining(), "it is suspended, its lease is not over")
		leader.Cable.Mend()
		c.Until("the leader to act again", func() bool { _, leading := leader.Leading(); return leading })
		assert.Len(t, c.Ledger(), 1)
	})
}

func TestAliveLeaderIsNotDeposedByTheOneWhoGotItsLock(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		parked(c, leader)
		// The connection is gone and cannot come back, but the leader lives: its
		// followers get its lock, ask, and wait for the lease.
		began := time.Now()
		leader.Cable.Cut()
		_, next := c.LeaderAfter(term.Number)
		assert.GreaterOrEqual(t, time.Since(began), b.Lease-b.Lease/3-b.Lease/20)
		assert.Equal(t, elector.CauseExpired, next.Cause)
		assert.NotZero(t, leader.Stats().Alive, "it was asked")
	})
}

// The server has ended the leader's session and the leader was not told, as behind a
// firewall that forgot the connection. Whoever is given its lock asks, and the
// question itself tells the leader.
func TestQuestionTellsALeaderThatItsConnectionIsGone(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 2)
		defer c.Stop()
		leader, term := c.Leader()
		parked(c, leader)
		beat := leader.Current().Beat
		c.Until("a beat", func() bool { return leader.Current().Beat > beat })
		beat = leader.Current().Beat
		began := time.Now()
		leader.Cable.HalfOpen()
		c.Until("the leader to park anew", func() bool { return leader.Current().Beat >= beat+2 })
		assert.Less(t, time.Since(began), max(b.Lease/4, b.soon()), "and its next beat does not hang until its trust ends")
		now, leading := leader.Leading()
		assert.True(t, leading)
		assert.Equal(t, term.Number, now.Number)
		parked(c, leader)
	})
}

func TestSilentLeaderCountsAsStopped(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 2)
		defer c.Stop()
		leader, term := c.Leader()
		parked(c, leader)
		leader.Mute()
		began := time.Now()
		leader.Cable.Cut()
		_, next := c.LeaderAfter(term.Number)
		assert.Less(t, time.Since(began), 100*time.Millisecond+b.soon(), "100 ms of silence, and the swap")
		assert.Equal(t, elector.CauseKilled, next.Cause)
	})
}

func TestLeaseModeNeverTakesOverBeforeTheLease(t *testing.T) {
	everywhere(t, termcas.Lease, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		c.Until("a beat", func() bool { return leader.Current().Beat > 0 })
		began := time.Now()
		leader.Kill()
		_, next := c.LeaderAfter(term.Number)
		assert.GreaterOrEqual(t, time.Since(began), b.Lease-b.Lease/3)
		assert.LessOrEqual(t, time.Since(began), b.Lease+b.soon())
		assert.Equal(t, elector.CauseExpired, next.Cause)
		assert.False(t, b.row(t).lock.Valid, "there is no witness in the row")
	})
}

func TestWithoutEvidenceTheLockProvesNothing(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 1)
		defer c.Stop()
		leader, term := c.Leader()
		leader.Mute()
		leader.Cable.Cut() // the lock is free, the row names it still
		began := time.Now()
		late := c.Add("late")
		next, nextTerm := c.LeaderAfter(term.Number)
		assert.Equal(t, late.ID, next.ID)
		assert.Equal(t, elector.CauseExpired, nextTerm.Cause, "it never saw the leader hold its lock")
		assert.GreaterOrEqual(t, time.Since(began), b.Lease)
	})
}

func TestStallWithinTheLeaseElectsNobody(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, _ := c.Leader()
		parked(c, leader)
		for range 10 { // at every phase of the beat
			release := leader.Cable.Stall()
			time.Sleep(700 * time.Millisecond)
			release()
			time.Sleep(b.Lease/3 + 37*time.Millisecond)
		}
		_, leading := leader.Leading()
		assert.True(t, leading)
		assert.Len(t, c.Ledger(), 1)
	})
}

func TestFrozenDatabaseLeaderIsBackWithinOneLeaseOfTheThaw(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		parked(c, leader)
		var thaw []func()
		for _, n := range c.Nodes() {
			thaw = append(thaw, n.Cable.Stall())
		}
		time.Sleep(25 * time.Second)
		assert.Empty(t, c.Believers(), "nobody trusts itself for longer than a lease")
		for _, release := range thaw {
			release()
		}
		began := time.Now()
		c.LeaderAfter(term.Number - 1)
		assert.LessOrEqual(t, time.Since(began), b.Lease)
	})
}

func TestRestartOfTheDatabaseKeepsTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(1)
		file := t.TempDir() + "/db"
		start := func() (crash func()) {
			listener, err := network.Host("db").Listen(t.Context(), "tcp", "db:3306")
			require.NoError(t, err)
			server, err := devdb.New(devdb.Config{Listener: listener, File: file})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- server.Run(ctx) }()
			return func() { cancel(); <-ended }
		}
		crash := start()
		b := newBench(t, "root@tcp(db:3306)/conclave", network.Host("nodes").DialContext, termcas.Witness)
		b.Lease, b.Bubble = 3*time.Second, true
		c := electortest.NewCluster(t, b.World, 3)
		leader, term := c.Leader()
		parked(c, leader)

		crash()
		time.Sleep(200 * time.Millisecond)
		crash = start()
		began := leader.Current().Beat
		c.Until("beats after the restart", func() bool { return leader.Current().Beat > began+4 })
		assert.Len(t, c.Ledger(), 1, "all locks vanished, and nobody took that for a death")
		now, leading := leader.Leading()
		assert.True(t, leading)
		assert.Equal(t, term.Number, now.Number)

		parked(c, leader) // and the witness is back: connection ids have started anew
		killed := time.Now()
		leader.Kill()
		c.LeaderAfter(term.Number)
		assert.Less(t, time.Since(killed), 50*time.Millisecond)
		c.Stop()
		b.db.Close()
		crash()
	})
}

func TestProxyThatGarblesTheWitnessCostsNoElection(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 0)
		defer c.Stop()
		n := c.Add("behind-proxy", func(cfg *elector.Config) { cfg.Observer = true })
		// What the swap asks for, it does not get: another connection would answer.
		n.Cable.Garble("CONNECTION_ID() =", "CONNECTION_ID()<>")
		require.NoError(t, n.JoinElection(t.Context()))
		_, term := c.Leader()
		assert.Equal(t, uint64(1), term.Number)
		assert.False(t, b.row(t).lock.Valid, "it leads without a witness")
	})
}

// The same error may come from a server that is going down or a proxy in trouble:
// only the named lock of that moment is lost, not those of all elections to come.
func TestPassingRefusalDoesNotEndTheWitness(t *testing.T) {
	for what, garble := range map[string][2]string{
		"of the lock":             {" AS conn", " FROM nn"}, // error 1146, which says nothing of locks
		"of the binlog's setting": {" AS format", " FROM nnnn"},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
				c := electortest.NewCluster(t, b.World, 1, asObserver)
				defer c.Stop()
				n := c.Nodes()[0]
				n.Cable.Garble(garble[0], garble[1])
				require.NoError(t, n.JoinElection(t.Context()))
				c.Until("the first refusal", func() bool { return n.Stats().Failed > 0 })
				n.Cable.Garble("", "")
				c.Leader()
				assert.True(t, b.row(t).lock.Valid, "the witness is there as soon as the trouble is over")
			})
		})
		t.Run(what+", again and again", func(t *testing.T) {
			bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
				c := electortest.NewCluster(t, b.World, 1, asObserver)
				defer c.Stop()
				n := c.Nodes()[0]
				n.Cable.Garble(garble[0], garble[1])
				began := time.Now()
				require.NoError(t, n.JoinElection(t.Context()))
				c.Leader()
				assert.Less(t, time.Since(began), b.Lease, "the election does not wait for it for ever")
				assert.False(t, b.row(t).lock.Valid)
				n.Cable.Garble("", "")
				n.Cable.Break()
				c.Until("a witness on the next connection", func() bool { return b.row(t).lock.Valid })
			})
		})
	}
}

func TestServerWithoutNamedLocksElectsAtOnceAndIsNotAskedAgain(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 1, asObserver)
		defer c.Stop()
		n := c.Nodes()[0]
		n.Cable.Garble("SELECT GET_LOCK(", "SELECT NOT_LOCK(") // no such function
		require.NoError(t, n.JoinElection(t.Context()))
		c.Leader()
		assert.Zero(t, n.Stats().Failed, "no try was lost to it")
		n.Cable.Garble("", "")
		n.Cable.Break()
		c.Until("the leader to park anew", func() bool { return n.Current().Beat >= 2 })
		assert.False(t, b.row(t).lock.Valid, "it has said that it has none")
	})
}

func TestIdleStatements(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		b.Push = true
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, _ := c.Leader()
		parked(c, leader)
		before := b.statements()
		time.Sleep(10 * time.Minute)
		rate := float64(b.statements()-before) / (10 * time.Minute).Seconds()
		t.Logf("%.2f statements a second", rate)
		assert.LessOrEqual(t, rate, 2.0, "three nodes, one of which leads, with pushed beats")
		assert.Len(t, c.Ledger(), 1, "ten calm minutes")
	})
}

func TestEachElectionLeavesOneRow(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 4)
		defer c.Stop()
		a, term := c.Leader()
		parked(c, a)
		require.NoError(t, a.Resign(t.Context()))
		second, term := c.LeaderAfter(term.Number)
		parked(c, second)
		second.Kill()
		third, term := c.LeaderAfter(term.Number)
		parked(c, third)
		third.Mute()
		release := third.Cable.Stall() // a partition: its connection stays open
		fourth, _ := c.LeaderAfter(term.Number)
		release()

		list, err := conclavesql.NewHistory(b.db, b.lock).List(t.Context(), 10)
		require.NoError(t, err)
		require.Len(t, list, 4)
		for i, want := range []struct {
			owner, previous, cause string
			leaderless             time.Duration
		}{
			{fourth.ID.String(), third.ID.String(), "expired", b.Lease / 3},
			{third.ID.String(), second.ID.String(), "killed", b.soon()},
			{second.ID.String(), a.ID.String(), "resigned", b.soon()},
			{a.ID.String(), "", "first", 0},
		} {
			assert.Equal(t, uint64(4-i), list[i].Term)
			assert.Equal(t, want.owner, list[i].Owner)
			if i == 0 && !b.Bubble && list[i].Cause == "killed" {
				continue // when trust ended it closed its connection, and that came through
			}
			assert.Equal(t, want.cause, list[i].Cause)
			assert.Equal(t, want.previous, list[i].Previous)
			assert.LessOrEqual(t, list[i].Leaderless, want.leaderless)
		}
	})
}
