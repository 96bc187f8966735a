package termcas_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
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

// Elections on replicated servers while they fail. Each test checks that no term has two
// owners and that terms rise (the cluster's ledger), that the newest term led is in the
// row at the end, and that all servers then have the same row.

// replicated runs a test on each kind of replicated servers.
func replicated(t *testing.T, test func(t *testing.T, r *mysqltest.Replicas, b *bench)) {
	mysqltest.OnReplicas(t, func(t *testing.T, r *mysqltest.Replicas) { test(t, r, onReplicas(t, r, termcas.Witness)) })
}

// sameEverywhere checks that the newest term led is in the row, and that all servers
// have that row.
func (b *bench) sameEverywhere(t *testing.T, r *mysqltest.Replicas, c *electortest.Cluster) {
	t.Helper()
	c.Stop()
	r.Settle(t)
	ledger := c.Ledger()
	row := b.row(t)
	assert.GreaterOrEqual(t, row.term, ledger[len(ledger)-1].Term.Number, "no term was lost")
	database := r.Database()
	for _, m := range r.Members {
		assert.Eventually(t, func() bool {
			return m.Value("SELECT CONCAT(owner, ' ', term, ' ', term_duration) FROM "+database+".distribute_lock WHERE lock_name = '"+b.lock.Name+"'") ==
				r.Primary(t).Value("SELECT CONCAT(owner, ' ', term, ' ', term_duration) FROM "+database+".distribute_lock WHERE lock_name = '"+b.lock.Name+"'")
		}, 20*time.Second, 100*time.Millisecond, "the row of %s", m.Addr)
	}
}

// killSoon returns a function that kills the writer once: before it returns, or while the
// caller goes on. start starts it again.
func killSoon(t *testing.T, r *mysqltest.Replicas) (kill func(), killed <-chan time.Time) {
	victim := r.Primary(t)
	at := make(chan time.Time, 1)
	before := rand.IntN(2) == 0
	late := time.Duration(rand.IntN(100)) * time.Millisecond
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	return sync.OnceFunc(func() {
		now := func() {
			victim.Kill(t)
			at <- time.Now()
		}
		if before {
			now()
			return
		}
		running.Go(func() { time.Sleep(late); now() })
	}), at
}

func TestReplicas_WriterKilledInARenewal(t *testing.T) {
	replicated(t, func(t *testing.T, r *mysqltest.Replicas, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		kill, killed := killSoon(t, r)
		leader.Cable.Before("term_duration = term_duration + 1", kill)
		at := <-killed
		c.LeaderAfter(term.Number)
		t.Logf("figure: no leader for %.1f s after the writer was killed", time.Since(at).Seconds())
		b.sameEverywhere(t, r, c)
	})
}

func TestReplicas_WriterKilledInASwap(t *testing.T) {
	replicated(t, func(t *testing.T, r *mysqltest.Replicas, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		kill, killed := killSoon(t, r)
		for _, n := range c.Others(leader) {
			n.Cable.Before("GREATEST(term", kill)
		}
		require.NoError(t, leader.Resign(t.Context()))
		at := <-killed
		c.LeaderAfter(term.Number)
		c.Until("a leader that renews", func() bool {
			for _, n := range c.PerceivedLeaders() {
				if now, leading := n.Leading(); leading && now.Number > term.Number && n.Current().Beat > 3 {
					return true
				}
			}
			return false
		})
		t.Logf("figure: a leader that renews %.1f s after the writer was killed", time.Since(at).Seconds())
		b.sameEverywhere(t, r, c)
	})
}

// The writer loses the other servers, while all nodes still reach it: it may answer reads
// and hold writes. What it answers is never a win.
func TestReplicas_WriterCutOffAlone(t *testing.T) {
	replicated(t, func(t *testing.T, r *mysqltest.Replicas, b *bench) {
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		_, term := c.Leader()
		former := r.Primary(t)
		mend := r.Cut(t, former)
		at := time.Now()
		c.LeaderAfter(term.Number)
		t.Logf("figure: no leader for %.1f s after the writer was cut off", time.Since(at).Seconds())
		b.awayFrom(c, former)
		mend()
		b.sameEverywhere(t, r, c)
	})
}

func TestReplicas_QuorumLostAndRegained(t *testing.T) {
	replicated(t, func(t *testing.T, r *mysqltest.Replicas, b *bench) {
		r.WaitForQuorum(t)
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		_, term := c.Leader()
		var mends []func()
		for _, m := range r.Secondaries(t) {
			mends = append(mends, r.Cut(t, m))
		}
		c.Until("no node to lead without a quorum", func() bool { return len(c.PerceivedLeaders()) == 0 })
		none := time.NewTimer(2 * b.Lease)
		defer none.Stop()
		<-none.C
		assert.Empty(t, c.PerceivedLeaders())
		for _, mend := range mends {
			mend()
		}
		at := time.Now()
		c.LeaderAfter(term.Number - 1) // the same term may continue
		c.Until("a leader", func() bool { return len(c.PerceivedLeaders()) == 1 })
		t.Logf("figure: a leader %.1f s after the quorum came back", time.Since(at).Seconds())
		b.sameEverywhere(t, r, c)
	})
}

// An operator makes another server the primary: the leader takes a new witness there, and
// followers do not take the free lock on the former one for its death.
func TestGroup_PrimarySwitchedOnPurpose(t *testing.T) {
	r := mysqltest.NewReplicas(t, mysqltest.GroupReplication)
	b := onReplicas(t, r, termcas.Witness)
	c := electortest.NewCluster(t, b.World, 3)
	defer c.Stop()
	leader, term := c.Leader()
	waitForWaiters(c, leader)
	before := b.row(t)
	at := time.Now()
	r.Switch(t, r.Secondaries(t)[0])
	c.Until("a new witness", func() bool { return b.row(t).lock != before.lock })
	t.Logf("figure: %.1f s until the leader had a witness on the new primary", time.Since(at).Seconds())
	c.Until("a leader that renews", func() bool {
		leaders := c.PerceivedLeaders()
		return len(leaders) == 1 && leaders[0].Current().Beat > before.beat+3
	})
	for _, entry := range c.Ledger()[1:] {
		t.Logf("the switch took longer than the lease: term %d", entry.Term.Number)
	}
	if len(c.Ledger()) == 1 {
		assert.Equal(t, term.Number, b.row(t).term, "the term continues")
		assert.Zero(t, leader.Stats().Ended)
	}
	b.sameEverywhere(t, r, c)
}

// Named locks are known on one server only. A follower whose connection is to another
// server than the leader's sees the row with the witness, and no lock of that name: it
// must neither wait for the lock nor take it for the leader's death.
func TestGroup_WitnessOnAnotherServerIsNoEvidence(t *testing.T) {
	r := mysqltest.NewReplicas(t, mysqltest.GroupReplication)
	b := onReplicas(t, r, termcas.Witness)
	c := electortest.NewCluster(t, b.World, 1)
	defer c.Stop()
	_, term := c.Leader()
	row := b.row(t)
	require.True(t, row.lock.Valid)

	secondary := r.Secondaries(t)[0]
	db, err := conclavesql.Open(r.OnlyDSN(secondary), conclavesql.Options{Deadline: 5 * time.Second})
	require.NoError(t, err)
	defer db.Close()
	var seen string
	require.Eventually(t, func() bool { // it is replicated
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return db.QueryRow(ctx, "SELECT witness_lock FROM distribute_lock WHERE lock_name = ?", []any{b.lock.Name}, &seen) == nil && seen == row.lock.String
	}, 20*time.Second, 50*time.Millisecond)
	var taken int
	pinned, err := db.Pin(t.Context(), nil)
	require.NoError(t, err)
	defer pinned.Close()
	require.NoError(t, pinned.QueryRow(t.Context(), conclavesql.LockAwait, []any{row.lock.String, 0}, &taken))
	assert.Equal(t, 1, taken, "there the leader's lock is free although the leader lives")
	require.NoError(t, pinned.Close())

	far := b.World
	far.Strategy = b.strategies(r.OnlyDSN(secondary), termcas.Witness)
	other := electortest.NewCluster(t, far, 1)
	defer other.Stop()
	follower := other.Nodes()[0]
	rounds := follower.Stats().Rounds
	other.Until("some rounds", func() bool { return follower.Stats().Rounds > rounds+5 })
	assert.Zero(t, follower.Strategy.(closing).WaitingFor(), "it does not wait for a lock that another server keeps")
	assert.Zero(t, follower.Stats().Won)
	assert.Empty(t, other.Ledger())
	now, leading := c.Nodes()[0].Leading()
	assert.True(t, leading)
	assert.Equal(t, term.Number, now.Number)
}

// On Galera a follower that found the leader's lock free would know nothing, so there is
// none, and the lease elects.
func TestGalera_ElectsByTheLease(t *testing.T) {
	r := mysqltest.NewReplicas(t, mysqltest.Galera)
	b := onReplicas(t, r, termcas.Witness)
	c := electortest.NewCluster(t, b.World, 2)
	defer c.Stop()
	leader, term := c.Leader()
	assert.False(t, b.row(t).lock.Valid, "no witness is published")
	at := time.Now()
	leader.Kill()
	_, next := c.LeaderAfter(term.Number)
	assert.Equal(t, elector.CauseExpired, next.Cause)
	assert.GreaterOrEqual(t, time.Since(at), b.Lease/3, "the lease was waited for")
	b.sameEverywhere(t, r, c)
}

// An operator makes a Galera node that is cut off writable without the others.
func TestGalera_SplitByForceHasOneLeader(t *testing.T) {
	r := mysqltest.NewReplicas(t, mysqltest.Galera)
	splitByForce(t, r)
}

// An operator makes the primary of a group the only member of its group, while it does not
// reach the others. What it held back until then is executed there.
func TestGroup_SplitByForceHasOneLeader(t *testing.T) {
	r := mysqltest.NewReplicas(t, mysqltest.GroupReplication)
	r.Primary(t).Exec(t, "SET GLOBAL group_replication_unreachable_majority_timeout = 0") // it waits for them, until it is restored
	splitByForce(t, r)
}

// splitByForce makes the writer accept writes without the others, while these have a new
// writer: two servers accept writes, and each has all members that it knows. A DSN with
// all hosts uses only the one with the majority of them.
func splitByForce(t *testing.T, r *mysqltest.Replicas) {
	b := onReplicas(t, r, termcas.Witness)
	c := electortest.NewCluster(t, b.World, 3)
	defer c.Stop()
	_, term := c.Leader()
	former := r.Primary(t)
	mend := r.Cut(t, former)
	r.Force(t, former)
	c.LeaderAfter(term.Number)
	b.awayFrom(c, former)
	alone, err := conclavesql.Open(r.OnlyDSN(former), conclavesql.Options{Deadline: 5 * time.Second})
	require.NoError(t, err)
	defer alone.Close()
	require.Eventually(t, func() bool {
		_, err := alone.Exec(t.Context(), "UPDATE distribute_lock SET address = 'alone' WHERE lock_name = ?", b.lock.Name)
		if err != nil && r.Kind == mysqltest.Galera { // a node that is forced too early takes itself back
			r.Force(t, former)
		}
		return err == nil
	}, time.Minute, 500*time.Millisecond, "two servers accept writes")
	inRow := func() (row string) { // the term may be one that was swapped in before, and held back: it is never led
		require.NoError(t, alone.QueryRow(t.Context(), "SELECT CONCAT(address, ' ', owner, ' ', term) FROM distribute_lock WHERE lock_name = ?", []any{b.lock.Name}, &row))
		return row
	}
	forced := inRow()
	late := c.Add("late") // it sees both writers
	settle := time.NewTimer(3 * b.Lease)
	defer settle.Stop()
	<-settle.C
	c.Until("the late node to know a leader", func() bool { return late.Current().Number > term.Number })
	assert.Equal(t, forced, inRow(), "no node wins a term there")
	mend()
	r.Restore(t, former)
	b.sameEverywhere(t, r, c)
}

// awayFrom waits until the connections of all nodes are to another writer.
func (b *bench) awayFrom(c *electortest.Cluster, former *mysqltest.Replica) {
	c.Until("all nodes to leave the former writer", func() bool {
		return !slices.ContainsFunc(b.dbs, func(db *conclavesql.DB) bool { return db.Writer() == former.Addr })
	})
}
