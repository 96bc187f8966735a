package termcas_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/elector/termcas"
	"conclave/internal/devdb"
	conclavesql "conclave/sql"
	"conclave/testbed/simulated/simnet"
)

// parked waits until every other node waits for the leader's lock.
func waitForWaiters(c *electortest.Cluster, leader *electortest.Node) {
	for _, n := range c.Others(leader) {
		c.Until(n.ID.String()+" to wait for the witness", func() bool {
			term, _ := leader.Leading()
			return term.Number > 0 && n.Strategy.(closing).WaitingFor() == term.Number
		})
	}
}

func TestWitness_KilledLeaderIsReplacedAtOnce(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		for range 2 { // the second kill needs the loser of the first election to wait for the winner's lock
			waitForWaiters(c, leader)
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

func TestWitness_TwoKillsWithin200Milliseconds(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 4)
		defer c.Stop()
		first, term := c.Leader()
		waitForWaiters(c, first)
		began := time.Now()
		first.Kill()
		second, term := c.LeaderAfter(term.Number)
		time.Sleep(100 * time.Millisecond)
		second.Kill()
		_, term = c.LeaderAfter(term.Number)
		assert.Less(t, time.Since(began), 200*time.Millisecond, "the losers waited for the winner's lock already")
		assert.Equal(t, elector.CauseKilled, term.Cause)
	})
}

func TestReacquire_LeaderKeepsItsTermWhenConnectionBreaks(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		for range 5 {
			waitForWaiters(c, leader)
			beat := leader.Current().Beat
			leader.Cable.Break()
			c.Until("the next beat", func() bool { return leader.Current().Beat > beat+2 })
			now, leading := leader.Leading()
			require.True(t, leading)
			require.Equal(t, term.Number, now.Number)
		}
		assert.Len(t, c.Ledger(), 1, "the leader was suspended, not deposed")
	})
}

func TestSuspended_LeaderDoesNotActUntilReconnected(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 1)
		defer c.Stop()
		leader, term := c.Leader()
		leader.Cable.Cut() // no statement is in progress
		c.Until("the leader to notice", func() bool { _, leading := leader.Leading(); return !leading })
		assert.Equal(t, term.Number, leader.Current().Number)
		assert.Positive(t, leader.Remaining(), "the leader is suspended, its lease has not expired")
		leader.Cable.Mend()
		c.Until("the leader to act again", func() bool { _, leading := leader.Leading(); return leading })
		assert.Len(t, c.Ledger(), 1)
	})
}

func TestWitness_AliveLeaderIsNotDeposedWhenAPeerGetsItsLock(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		waitForWaiters(c, leader)
		// The connection is broken and cannot be replaced, but the leader is alive: its
		// followers acquire its lock, ask, and wait for the lease.
		began := time.Now()
		leader.Cable.Cut()
		_, next := c.LeaderAfter(term.Number)
		assert.GreaterOrEqual(t, time.Since(began), b.Lease-b.Lease/3-b.Lease/20)
		assert.Equal(t, elector.CauseExpired, next.Cause)
		assert.NotZero(t, leader.Stats().Alive, "the leader was asked at its port")
	})
}

// The server has ended the leader's session but the leader did not notice, as behind a
// firewall that forgot the connection. The node that acquires its lock asks, and by the
// question the leader learns of the loss.
func TestWitness_QuestionSuspendsLeaderWithHalfOpenConnection(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 2)
		defer c.Stop()
		leader, term := c.Leader()
		waitForWaiters(c, leader)
		beat := leader.Current().Beat
		c.Until("a beat", func() bool { return leader.Current().Beat > beat })
		beat = leader.Current().Beat
		began := time.Now()
		leader.Cable.HalfOpen()
		c.Until("the leader to reacquire a witness", func() bool { return leader.Current().Beat >= beat+2 })
		assert.Less(t, time.Since(began), max(b.Lease/4, b.soon()), "the next beat does not hang until trust ends")
		now, leading := leader.Leading()
		assert.True(t, leading)
		assert.Equal(t, term.Number, now.Number)
		waitForWaiters(c, leader)
	})
}

func TestWitness_SilentLeaderCountsAsStopped(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 2)
		defer c.Stop()
		leader, term := c.Leader()
		waitForWaiters(c, leader)
		leader.StopAnswering()
		began := time.Now()
		leader.Cable.Cut()
		_, next := c.LeaderAfter(term.Number)
		assert.Less(t, time.Since(began), 100*time.Millisecond+b.soon(), "100 ms without an answer, and the swap")
		assert.Equal(t, elector.CauseKilled, next.Cause)
	})
}

func TestTakeoverLease_NeverBeforeTheLeaseExpires(t *testing.T) {
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

func TestWitness_FreeLockWithoutEvidenceIsNoReason(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 1)
		defer c.Stop()
		leader, term := c.Leader()
		leader.StopAnswering()
		leader.Cable.Cut() // the lock is free, but the row still names it
		began := time.Now()
		late := c.Add("late")
		next, nextTerm := c.LeaderAfter(term.Number)
		assert.Equal(t, late.ID, next.ID)
		assert.Equal(t, elector.CauseExpired, nextTerm.Cause, "the new candidate never saw the leader hold its lock")
		assert.GreaterOrEqual(t, time.Since(began), b.Lease)
	})
}

func TestStall_WithinTheLeaseCostsNoTerm(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, _ := c.Leader()
		waitForWaiters(c, leader)
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

func TestStall_LeaderIsBackWithinALeaseOfItsEnd(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		waitForWaiters(c, leader)
		var resume []func()
		for _, n := range c.Nodes() {
			resume = append(resume, n.Cable.Stall())
		}
		time.Sleep(25 * time.Second)
		assert.Empty(t, c.PerceivedLeaders(), "no node trusts itself for longer than a lease")
		for _, release := range resume {
			release()
		}
		began := time.Now()
		c.LeaderAfter(term.Number - 1)
		assert.LessOrEqual(t, time.Since(began), b.Lease)
	})
}

func TestRestart_OfTheEmbeddedServerKeepsTheTerm(t *testing.T) {
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
		waitForWaiters(c, leader)

		crash()
		time.Sleep(200 * time.Millisecond)
		crash = start()
		began := leader.Current().Beat
		c.Until("beats after the restart", func() bool { return leader.Current().Beat > began+4 })
		assert.Len(t, c.Ledger(), 1, "all locks vanished, and no candidate took that for a death")
		now, leading := leader.Leading()
		assert.True(t, leading)
		assert.Equal(t, term.Number, now.Number)

		waitForWaiters(c, leader) // with connection ids that start at the beginning again
		killed := time.Now()
		leader.Kill()
		c.LeaderAfter(term.Number)
		assert.Less(t, time.Since(killed), 50*time.Millisecond)
		c.Stop()
		b.db.Close()
		crash()
	})
}

func TestProxy_AlteredWitnessCostsNoElection(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 0)
		defer c.Stop()
		n := c.Add("behind-proxy", func(cfg *elector.Config) { cfg.Observer = true })
		// The statement that reaches the server has another predicate.
		n.Cable.Garble("CONNECTION_ID() =", "CONNECTION_ID()<>")
		require.NoError(t, n.JoinElection(t.Context()))
		_, term := c.Leader()
		assert.Equal(t, uint64(1), term.Number)
		assert.False(t, b.row(t).lock.Valid, "the leader has no witness")
	})
}

// A server that is shutting down or a failing proxy may answer with the same error: only
// that try has no witness; later elections have one.
func TestRefusal_TemporaryErrorDoesNotDisableWitness(t *testing.T) {
	for what, garble := range map[string][2]string{
		"of the lock":           {" AS conn", " FROM nn"}, // error 1146, which is not about locks
		"of the binlog setting": {" AS format", " FROM nnnn"},
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
				assert.True(t, b.row(t).lock.Valid, "there is a witness as soon as the error has ended")
			})
		})
		t.Run(what+", repeatedly", func(t *testing.T) {
			bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
				c := electortest.NewCluster(t, b.World, 1, asObserver)
				defer c.Stop()
				n := c.Nodes()[0]
				n.Cable.Garble(garble[0], garble[1])
				began := time.Now()
				require.NoError(t, n.JoinElection(t.Context()))
				c.Leader()
				assert.Less(t, time.Since(began), b.Lease, "the election does not wait for the witness for ever")
				assert.False(t, b.row(t).lock.Valid)
				n.Cable.Garble("", "")
				n.Cable.Break()
				c.Until("a witness on the next connection", func() bool { return b.row(t).lock.Valid })
			})
		})
	}
}

func TestRefusal_ServerWithoutNamedLocksElectsAtOnce(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 1, asObserver)
		defer c.Stop()
		n := c.Nodes()[0]
		n.Cable.Garble("SELECT GET_LOCK(", "SELECT NOT_LOCK(") // no such function
		require.NoError(t, n.JoinElection(t.Context()))
		c.Leader()
		assert.Zero(t, n.Stats().Failed, "no round failed because of it")
		n.Cable.Garble("", "")
		n.Cable.Break()
		c.Until("the leader to reacquire a witness", func() bool { return n.Current().Beat >= 2 })
		assert.False(t, b.row(t).lock.Valid, "the server was not asked again")
	})
}

func TestIdle_StatementsWithPushedBeats(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		b.Push = true
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, _ := c.Leader()
		waitForWaiters(c, leader)
		before := b.statements()
		time.Sleep(10 * time.Minute)
		rate := float64(b.statements()-before) / (10 * time.Minute).Seconds()
		t.Logf("%.2f statements a second", rate)
		assert.LessOrEqual(t, rate, 2.0, "three nodes with pushed beats")
		assert.Len(t, c.Ledger(), 1, "no election in ten minutes")
	})
}

func TestHistory_EachElectionLeavesOneRow(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 4)
		defer c.Stop()
		a, term := c.Leader()
		waitForWaiters(c, a)
		require.NoError(t, a.Resign(t.Context()))
		second, term := c.LeaderAfter(term.Number)
		waitForWaiters(c, second)
		second.Kill()
		third, term := c.LeaderAfter(term.Number)
		waitForWaiters(c, third)

		// The record is written beside the beginning of the leadership.
		history := conclavesql.NewHistory(b.db, b.lock)
		recorded := func(n int) []conclavesql.Election {
			var list []conclavesql.Election
			c.Until("the elections to be recorded", func() bool {
				var err error
				list, err = history.List(t.Context(), 10)
				require.NoError(t, err)
				return len(list) >= n
			})
			require.Len(t, list, n)
			return list
		}
		recorded(3)
		third.StopAnswering()
		release := third.Cable.Stall() // a partition: its connection stays open
		fourth, _ := c.LeaderAfter(term.Number)
		release()

		list := recorded(4)
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
				continue // at the end of trust the leader closed its connection, and the server noticed
			}
			assert.Equal(t, want.cause, list[i].Cause)
			assert.Equal(t, want.previous, list[i].Previous)
			assert.LessOrEqual(t, list[i].Leaderless, want.leaderless)
		}
	})
}

// A candidate that loses its connection while it asks the leader has lost the evidence,
// too: it wins at the lease.
func TestWitness_ConnectionLostDuringTheQuestion(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.World, 1)
		defer c.Stop()
		leader, term := c.Leader()
		cable := electortest.NewCable(b.Dial)
		db, err := conclavesql.Open(b.dsn, conclavesql.Options{Dial: cable.Dial, Deadline: b.Lease / 6})
		require.NoError(t, err)
		asked := 0
		s, err := termcas.New(termcas.Config{DB: db, Lock: b.lock, Ask: func(context.Context, string, uint64, string) (alive, known bool) {
			asked++
			cable.Break()
			time.Sleep(b.Lease / 100) // it notices
			return false, true
		}})
		require.NoError(t, err)
		follower, err := elector.New(elector.Config{ID: conclave.NodeID{Name: "follower"}, Strategy: closing{s, db}, Lease: b.Lease})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- follower.Run(ctx) }()
		c.Until("the follower to wait", func() bool { return s.WaitingFor() == term.Number })
		leader.Kill()
		c.Until("the follower to lead", func() bool { now, leading := follower.Leading(); return leading && now.Cause == elector.CauseExpired })
		assert.Equal(t, 1, asked)
		cancel()
		require.NoError(t, <-ended)
	})
}
