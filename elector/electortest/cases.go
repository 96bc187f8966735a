package electortest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
)

// The cases of the suite, in the order of the list in suite.go.

func oneLeaderOfMany(t *testing.T, w World) {
	c := NewCluster(t, w, 7)
	defer c.Stop()
	leader, term := c.Leader()
	for _, n := range c.Others(leader) {
		c.Until("all to know the leader", func() bool { return n.Current().Leader == leader.ID })
		assert.Equal(t, term.Number, n.Current().Number)
		assert.Positive(t, n.Remaining(), "the lease is known to be valid")
	}
	assert.Equal(t, []*Node{leader}, c.PerceivedLeaders())
	assert.Len(t, c.Ledger(), 1)
	assert.Equal(t, elector.CauseFirst, term.Cause)
}

func losingIsAResult(t *testing.T, w World) {
	c := NewCluster(t, w, 3)
	defer c.Stop()
	leader, _ := c.Leader()
	for _, n := range c.Others(leader) {
		c.Until("the loser to know the winner", func() bool { return n.Current().Leader == leader.ID })
		assert.Zero(t, n.Stats().Failed, "rounds of %s that failed", n.ID)
		assert.Zero(t, n.Stats().Won)
	}
}

func resigning(t *testing.T, w World) {
	c := NewCluster(t, w, 3)
	defer c.Stop()
	old, term := c.Leader()
	for _, n := range c.Others(old) {
		c.Until("followers", func() bool { return n.Current().Leader == old.ID })
	}
	began := time.Now()
	require.NoError(t, old.Resign(t.Context()))
	_, leading := old.Leading()
	assert.False(t, leading, "a node that has resigned does not lead")
	next, nextTerm := c.LeaderAfter(term.Number)
	assert.Less(t, time.Since(began), w.Lease/2, "no wait for the lease")
	assert.NotEqual(t, old.ID, next.ID, "the node that has resigned does not compete")
	assert.Equal(t, elector.CauseResigned, nextTerm.Cause)
	assert.Equal(t, old.ID, nextTerm.Previous)
	assert.ErrorIs(t, old.Resign(t.Context()), elector.ErrNotLeading)
}

func leadReturns(t *testing.T, w World) {
	enough := make(chan struct{})
	var led atomic.Bool // the first term is not 1 in every store
	c := NewCluster(t, w, 2, func(cfg *elector.Config) {
		cfg.Lead = func(ctx context.Context, _ elector.Term) error {
			if led.Swap(true) {
				<-ctx.Done()
				return nil
			}
			<-enough
			return nil
		}
	})
	defer c.Stop()
	old, term := c.Leader()
	close(enough)
	next, _ := c.LeaderAfter(term.Number)
	assert.NotEqual(t, old.ID, next.ID)
}

func resigningAlone(t *testing.T, w World) {
	c := NewCluster(t, w, 1)
	defer c.Stop()
	only, term := c.Leader()
	resigned := time.Now() // the two leases begin after this
	require.NoError(t, only.Resign(t.Context()))
	_, next := c.LeaderAfter(term.Number)
	assert.GreaterOrEqual(t, time.Since(resigned), 2*w.Lease, "it does not compete for two leases")
	assert.Less(t, time.Since(resigned), 3*w.Lease)
	assert.Equal(t, term.Number+1, next.Number)
}

func deadLeader(t *testing.T, w World) {
	c := NewCluster(t, w, 4)
	defer c.Stop()
	old, term := c.Leader()
	for range 3 { // the last node leads in the end
		old.Kill()
		next, nextTerm := c.LeaderAfter(term.Number)
		assert.NotEqual(t, old.ID, next.ID)
		assert.Greater(t, nextTerm.Number, term.Number)
		old, term = next, nextTerm
	}
	assert.Len(t, c.Ledger(), 4)
}

func partition(t *testing.T, w World) {
	stopped := make(chan error, 1)
	c := NewCluster(t, w, 3, func(cfg *elector.Config) {
		cfg.Lead = func(ctx context.Context, _ elector.Term) error {
			<-ctx.Done()
			select {
			case stopped <- context.Cause(ctx):
			default: // the first to stop is the one that is cut off
			}
			return nil
		}
	})
	defer c.Stop()
	old, term := c.Leader()
	old.StopAnswering()
	release := old.Cable.Stall()
	began := time.Now()
	next, nextTerm := c.LeaderAfter(term.Number)
	took := time.Since(began)
	_, leads := old.Leading()
	assert.False(t, leads, "the old leader has stopped before the new one leads")
	assert.NotEqual(t, old.ID, next.ID)
	assert.ErrorIs(t, <-stopped, elector.ErrTrust)
	assert.GreaterOrEqual(t, took, w.Lease-w.Lease/3-w.Lease/10, "no leader was deposed within its lease")
	assert.Less(t, took, w.Lease+w.Lease/2, "no wait for a second lease")
	// When its trust ends a leader closes its connection, which frees its witness a
	// margin before the lease has expired.
	assert.Contains(t, []elector.Cause{elector.CauseExpired, elector.CauseKilled}, nextTerm.Cause)
	release()
	c.Until("the old leader to follow", func() bool { return old.Current().Number == nextTerm.Number })
}

func cutFromStore(t *testing.T, w World) {
	c := NewCluster(t, w, 1)
	defer c.Stop()
	only, term := c.Leader()
	only.Cable.Cut()
	began := time.Now()
	c.Until("the leader to stop", func() bool {
		_, leading := only.Leading()
		return !leading
	})
	assert.LessOrEqual(t, time.Since(began), w.Lease+w.late(), "the leader does not act after its lease")
	c.Until("its lease to expire", func() bool { return only.Remaining() <= 0 })
	only.Cable.Mend()
	_, again := c.LeaderAfter(term.Number - 1)
	assert.GreaterOrEqual(t, again.Number, term.Number)
}

func trustFromBefore(t *testing.T, w World) {
	c := NewCluster(t, w, 1)
	defer c.Stop()
	only, _ := c.Leader()
	slow := 3 * w.Lease / 5 // within the lease, so the renewal is only slow
	judged := func() bool {
		release := only.Cable.Stall()
		began := time.Now()
		timer := time.AfterFunc(slow, release)
		defer timer.Stop()
		before := only.Current()
		c.Until("the slow renewal", func() bool { return only.Current().Beat > before.Beat })
		waited, remaining := time.Since(began), only.Remaining()
		_, leading := only.Leading()
		assert.True(t, leading, "a stall within the lease deposes no leader")
		if only.Current().Beat != before.Beat+1 {
			return false // the machine is slow: the next renewal has been answered, too
		}
		// The renewal was sent at most a beat after the stall began, and trust counts from then.
		assert.LessOrEqual(t, remaining, w.Lease-(waited-w.Lease/3), "a slow answer does not extend trust")
		return true
	}
	c.Until("a look between the slow renewal and the next one", judged)
	assert.Len(t, c.Ledger(), 1)
}

func observer(t *testing.T, w World) {
	c := NewCluster(t, w, 1)
	defer c.Stop()
	leader, term := c.Leader()
	o := c.Add("watcher", func(cfg *elector.Config) { cfg.Observer = true })
	c.Until("the observer to know the leader", func() bool { return o.Current().Leader == leader.ID })
	leader.Kill()
	lease := time.NewTimer(4 * w.Lease)
	defer lease.Stop()
	<-lease.C
	_, leading := o.Leading()
	assert.False(t, leading)
	assert.Len(t, c.Ledger(), 1, "an observer does not lead")
	assert.Equal(t, term.Number, o.Current().Number)
	require.NoError(t, o.JoinElection(t.Context()))
	next, _ := c.LeaderAfter(term.Number)
	assert.Equal(t, o.ID, next.ID)
}

func quitAndJoin(t *testing.T, w World) {
	c := NewCluster(t, w, 2)
	defer c.Stop()
	first, term := c.Leader()
	require.NoError(t, first.Quit(t.Context()))
	assert.True(t, first.Observing())
	second, next := c.LeaderAfter(term.Number)
	assert.NotEqual(t, first.ID, second.ID)
	require.NoError(t, first.JoinElection(t.Context()))
	assert.False(t, first.Observing())
	c.Until("the first to follow", func() bool { return first.Current().Number == next.Number })
	second.Kill()
	third, _ := c.LeaderAfter(next.Number)
	assert.Equal(t, first.ID, third.ID)
}

func restarted(t *testing.T, w World) {
	c := NewCluster(t, w, 1)
	defer c.Stop()
	old, term := c.Leader()
	old.Kill()
	again := c.Add(old.ID.Name)
	require.NotEqual(t, old.ID, again.ID, "the name is the same, the incarnation is new")
	leader, next := c.LeaderAfter(term.Number)
	assert.Equal(t, again.ID, leader.ID)
	assert.Greater(t, next.Number, term.Number, "the term in the store belongs to the old incarnation")
}

// lostAnswers loses the answer to a different request in each of several elections.
func lostAnswers(t *testing.T, w World) {
	c := NewCluster(t, w, 2)
	defer c.Stop()
	leader, term := c.Leader()
	for i, text := range []string{"SELECT", "UPDATE", "INSERT", "GET_LOCK", "GREATEST", "UPDATE", "SELECT"} {
		for _, n := range c.Others(leader) {
			n.Cable.LoseReply(text)
		}
		require.NoError(t, leader.Resign(t.Context()), "resignation %d", i)
		leader, term = c.LeaderAfter(term.Number)
	}
	for _, entry := range c.Ledger()[1:] {
		assert.NotZero(t, entry.Term.Number) // the ledger checks that no term has two owners
	}
}

func promise(t *testing.T, w World) {
	c := NewCluster(t, w, 1)
	defer c.Stop()
	only, term := c.Leader()
	assert.True(t, only.ConfirmLeading(term.Number, "another lock"), "the node leads that term")
	assert.False(t, only.ConfirmLeading(term.Number+1, "a lock"), "the node promises never to lead the next term")
	if now, leading := only.Leading(); leading { // it may have won again already
		assert.Greater(t, now.Number, term.Number, "the promise covers lower terms")
	}
	_, next := c.LeaderAfter(term.Number)
	assert.Equal(t, term.Number+2, next.Number, "the promised term is skipped")
}

func outranked(t *testing.T, w World) {
	c := NewCluster(t, w, 1)
	defer c.Stop()
	only, term := c.Leader()
	only.Seen(term.Number + 40)
	began := time.Now()
	_, next := c.LeaderAfter(term.Number)
	assert.Equal(t, term.Number+41, next.Number)
	assert.Equal(t, elector.CauseRestored, next.Cause)
	assert.Less(t, time.Since(began), w.Lease, "it wins at once from itself")
	only.Seen(next.Number + 1<<41)
	_, leading := only.Leading()
	assert.True(t, leading, "a term too high to be true is ignored")
}

func leadReturnsFirst(t *testing.T, w World) {
	var mu sync.Mutex
	running := map[conclave.NodeID]int{}
	linger := make(chan struct{})
	option := func(cfg *elector.Config) {
		id := cfg.ID
		cfg.Lead = func(ctx context.Context, _ elector.Term) error {
			mu.Lock()
			running[id]++
			assert.Equal(t, 1, running[id], "%s leads while its last Lead still runs", id)
			mu.Unlock()
			defer func() {
				mu.Lock()
				running[id]--
				mu.Unlock()
			}()
			<-ctx.Done()
			<-linger // slow to return
			return nil
		}
	}
	c := NewCluster(t, w, 1, option)
	defer c.Stop()
	only, term := c.Leader()
	release := only.Cable.Stall()
	c.Until("trust to end", func() bool {
		_, leading := only.Leading()
		return !leading
	})
	release()
	c.Until("a read of the store while Lead still runs", func() bool { return only.Current().Leader.IsZero() })
	close(linger)
	_, next := c.LeaderAfter(term.Number)
	assert.Greater(t, next.Number, term.Number)
}

func abstain(t *testing.T, w World) {
	c := NewCluster(t, w, 1)
	defer c.Stop()
	only, term := c.Leader()
	did, err := only.Abstain(t.Context())
	require.NoError(t, err)
	assert.True(t, did)
	began := time.Now()
	c.LeaderAfter(term.Number)
	assert.GreaterOrEqual(t, time.Since(began), 2*w.Lease-w.Lease/10)
	did, err = only.Abstain(t.Context())
	require.NoError(t, err)
	assert.False(t, did, "within ten leases it does not abstain again")
}

func shutdown(t *testing.T, w World) {
	c := NewCluster(t, w, 2)
	defer c.Stop()
	old, term := c.Leader()
	for _, n := range c.Others(old) {
		c.Until("a follower", func() bool { return n.Current().Leader == old.ID })
	}
	began := time.Now()
	require.NoError(t, old.Shutdown(t.Context()))
	next, _ := c.LeaderAfter(term.Number)
	assert.Less(t, time.Since(began), w.Lease/2)
	assert.NotEqual(t, old.ID, next.ID)
	assert.ErrorIs(t, old.Resign(t.Context()), elector.ErrStopped)
	require.NoError(t, old.Shutdown(t.Context()), "a second Shutdown does nothing")
}

func staleAct(t *testing.T, w World) {
	if w.FencedWrite == nil {
		t.Log("this store has no fenced writes: nothing to test")
		return
	}
	c := NewCluster(t, w, 2)
	defer c.Stop()
	old, term := c.Leader()
	written, err := w.FencedWrite(t.Context(), old.ID, term.Number)
	require.NoError(t, err)
	assert.True(t, written, "the leader's write is accepted")
	require.NoError(t, old.Resign(t.Context()))
	next, nextTerm := c.LeaderAfter(term.Number)
	written, err = w.FencedWrite(t.Context(), old.ID, term.Number)
	require.NoError(t, err)
	assert.False(t, written, "the old leader's write is refused")
	written, err = w.FencedWrite(t.Context(), next.ID, nextTerm.Number)
	require.NoError(t, err)
	assert.True(t, written)
}

func calm(t *testing.T, w World) {
	c := NewCluster(t, w, 3)
	defer c.Stop()
	leader, term := c.Leader()
	c.Until("some beats", func() bool { return leader.Current().Beat >= 6 })
	assert.Len(t, c.Ledger(), 1, "no leader is deposed without a fault")
	now, leading := leader.Leading()
	assert.True(t, leading)
	assert.Equal(t, term.Number, now.Number)
	for _, n := range c.Nodes() {
		assert.Zero(t, n.Stats().Failed, fmt.Sprint(n.ID))
	}
}
