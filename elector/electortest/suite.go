package electortest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	_ "conclave/internal/bubble" // one processor under the race detector
)

// Factory makes a new world for one test. Run calls it inside the bubble, if there is one.
type Factory func(t *testing.T) World

// testCase is one test of the suite. Run starts its nodes, waits for a leader, and
// stops them after it; a case with no nodes starts its own.
type testCase struct {
	name  string
	nodes int
	run   func(t *testing.T, c *Cluster, leader *Node, term elector.Term)
}

// cases returns the tests that every strategy must pass.
func cases() []testCase {
	return []testCase{
		{"one leader of many, and all learn the same", 7, oneLeaderOfMany},
		{"losing is a result", 3, losingIsAResult},
		{"a resignation lets the next round win at once", 3, resigning},
		{"a leader that returns from Lead resigns", 0, leadReturns},
		{"a lone leader that resigned comes back after two leases", 1, resigningAlone},
		{"a dead leader is replaced, terms rise", 4, deadLeader},
		{"a partitioned leader stops before the next one leads", 0, partition},
		{"a leader cut from the store stops by itself", 1, cutFromStore},
		{"trust counts from before the request", 1, trustFromBefore},
		{"an observer never competes", 1, observer},
		{"quit resigns, join competes", 2, quitAndJoin},
		{"a restarted name gets a new term", 1, restarted},
		{"no lost answer makes two leaders", 2, lostAnswers},
		{"a promise is kept although the win was acknowledged", 1, promise},
		{"a higher term seen elsewhere makes the leader jump above it", 1, outranked},
		{"Lead has returned before the next campaign", 0, leadReturnsFirst},
		{"an outranked leader keeps the others from leading until Lead has returned", 0, outrankedHolds},
		{"an unreachable leader abstains, at most once in ten leases", 1, abstain},
		{"shutdown hands over", 2, shutdown},
		{"an old leader's effect is refused by the store", 2, staleAct},
		{"no election without a fault", 3, calm},
	}
}

// play runs the case in a world.
func (c testCase) play(t *testing.T, w World) {
	cluster := NewCluster(t, w, c.nodes)
	defer cluster.Stop()
	var leader *Node
	var term elector.Term
	if c.nodes > 0 {
		leader, term = cluster.Leader()
	}
	c.run(t, cluster, leader, term)
}

// Run runs the suite against the strategy of the worlds that factory makes. If bubble
// is set, the worlds are in memory and each test runs in a synctest bubble. except
// names the cases that this strategy fails: a faithful copy of an article's election
// has the article's weaknesses, and lists them there. Each of them is run in a process
// of its own, and must fail there.
func Run(t *testing.T, bubble bool, factory Factory, except ...string) {
	names := map[string]bool{}
	for _, c := range cases() {
		names[c.name] = true
		t.Run(c.name, func(t *testing.T) {
			if slices.Contains(except, c.name) && os.Getenv(exemptEnv) == "" {
				failsAlone(t)
				return
			}
			if !bubble {
				c.play(t, factory(t))
				return
			}
			synctest.Test(t, func(t *testing.T) { c.play(t, factory(t)) })
		})
	}
	for _, name := range except {
		assert.True(t, names[name], "the suite has no case %q", name)
	}
}

// exemptEnv is set in the process that runs an exempt case.
const exemptEnv = "ELECTORTEST_EXEMPT"

// failsAlone runs the present test in a process of its own and checks that it fails
// there.
func failsAlone(t *testing.T) {
	var pattern []string
	for part := range strings.SplitSeq(t.Name(), "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	run := exec.Command(os.Args[0], "-test.run", strings.Join(pattern, "/"), "-test.timeout", "1m")
	run.Env = append(os.Environ(), exemptEnv+"=1")
	out, err := run.CombinedOutput()
	assert.Error(t, err, "an exempt case passes")
	assert.Contains(t, string(out), "--- FAIL: "+t.Name()+" ")
}

// The cases of the suite, in the order of the list above: what happens to a
// cluster with a leader.

func oneLeaderOfMany(t *testing.T, c *Cluster, leader *Node, term elector.Term) {
	c.followed(leader)
	for _, n := range c.Others(leader) {
		assert.Equal(t, term.Number, n.Current().Number)
		assert.Positive(t, n.Remaining(), "the lease is known to be valid")
	}
	var leading []conclave.NodeID // and not the nodes: a failed test would print what they are writing
	for _, n := range c.PerceivedLeaders() {
		leading = append(leading, n.ID)
	}
	assert.Equal(t, []conclave.NodeID{leader.ID}, leading)
	assert.Len(t, c.Ledger(), 1)
	assert.Equal(t, elector.CauseFirst, term.Cause)
}

func losingIsAResult(t *testing.T, c *Cluster, leader *Node, _ elector.Term) {
	c.followed(leader)
	for _, n := range c.Others(leader) {
		assert.Zero(t, n.Stats().Failed, "rounds of %s that failed", n.ID)
		assert.Zero(t, n.Stats().Won)
	}
}

func resigning(t *testing.T, c *Cluster, old *Node, term elector.Term) {
	c.followed(old)
	began := time.Now()
	require.NoError(t, old.Resign(t.Context()))
	_, leading := old.Leading()
	assert.False(t, leading, "a node that has resigned does not lead")
	next, nextTerm := c.LeaderAfter(term.Number)
	assert.Less(t, time.Since(began), c.world.Lease/2+c.world.late(), "no wait for the lease")
	assert.NotEqual(t, old.ID, next.ID, "the node that has resigned does not compete")
	assert.Equal(t, elector.CauseResigned, nextTerm.Cause)
	assert.Equal(t, old.ID, nextTerm.Previous)
	assert.ErrorIs(t, old.Resign(t.Context()), elector.ErrNotLeading)
}

func leadReturns(t *testing.T, c *Cluster, _ *Node, _ elector.Term) {
	enough := make(chan struct{})
	var led atomic.Bool // the first term is not 1 in every store
	c.start(2, func(cfg *elector.Config) {
		cfg.Lead = func(ctx context.Context, _ elector.Term) error {
			if led.Swap(true) {
				<-ctx.Done()
				return nil
			}
			<-enough
			return nil
		}
	})
	old, term := c.Leader()
	close(enough)
	next, _ := c.LeaderAfter(term.Number)
	assert.NotEqual(t, old.ID, next.ID)
}

func resigningAlone(t *testing.T, c *Cluster, only *Node, term elector.Term) {
	resigned := time.Now() // the two leases begin after this
	require.NoError(t, only.Resign(t.Context()))
	_, next := c.LeaderAfter(term.Number)
	assert.GreaterOrEqual(t, time.Since(resigned), 2*c.world.Lease, "it does not compete for two leases")
	assert.Less(t, time.Since(resigned), 3*c.world.Lease)
	assert.Equal(t, term.Number+1, next.Number)
}

func deadLeader(t *testing.T, c *Cluster, old *Node, term elector.Term) {
	for range 3 { // the last node leads in the end
		old.Kill()
		next, nextTerm := c.LeaderAfter(term.Number)
		assert.NotEqual(t, old.ID, next.ID)
		assert.Greater(t, nextTerm.Number, term.Number)
		old, term = next, nextTerm
	}
	assert.Len(t, c.Ledger(), 4)
}

func partition(t *testing.T, c *Cluster, _ *Node, _ elector.Term) {
	stopped := make(chan error, 1)
	c.start(3, func(cfg *elector.Config) {
		cfg.Lead = func(ctx context.Context, _ elector.Term) error {
			<-ctx.Done()
			select {
			case stopped <- context.Cause(ctx):
			default: // the first to stop is the one that is cut off
			}
			return nil
		}
	})
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
	assert.GreaterOrEqual(t, took, c.world.Lease-c.world.Lease/3-c.world.Lease/10, "no leader was deposed within its lease")
	assert.Less(t, took, c.world.Lease+c.world.Lease/2, "no wait for a second lease")
	// When its trust ends a leader closes its connection, which frees its witness a
	// margin before the lease has expired.
	assert.Contains(t, []elector.Cause{elector.CauseExpired, elector.CauseKilled}, nextTerm.Cause)
	release()
	c.Until("the old leader to follow", func() bool { return old.Current().Number == nextTerm.Number })
}

func cutFromStore(t *testing.T, c *Cluster, only *Node, term elector.Term) {
	only.Cable.Cut()
	began := time.Now()
	c.Until("the leader to stop", func() bool {
		_, leading := only.Leading()
		return !leading
	})
	assert.LessOrEqual(t, time.Since(began), c.world.Lease+c.world.late(), "the leader does not act after its lease")
	c.Until("its lease to expire", func() bool { return only.Remaining() <= 0 })
	only.Cable.Mend()
	_, again := c.LeaderAfter(term.Number - 1)
	assert.GreaterOrEqual(t, again.Number, term.Number)
}

func trustFromBefore(t *testing.T, c *Cluster, only *Node, _ elector.Term) {
	// A renewal is held on its way to the store: it was sent before that. The next one is
	// held until the test has looked.
	held, deliver, look := make(chan time.Time, 1), make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(deliver) })
	defer release()
	defer close(look)
	only.Cable.Before("UPDATE", func() {
		only.Cable.Before("UPDATE", func() { <-look })
		held <- time.Now()
		<-deliver
	})
	c.Until("a renewal to be sent", func() bool { return len(held) == 1 })
	sent, before := <-held, only.Current()
	slow := time.NewTimer(c.world.Lease / 3) // trust has two beats left, so the renewal is only slow
	defer slow.Stop()
	<-slow.C
	release()
	c.Until("the slow renewal", func() bool { return only.Current().Beat > before.Beat })
	waited, remaining := time.Since(sent), only.Remaining()
	_, leading := only.Leading()
	assert.True(t, leading, "a stall within the lease deposes no leader")
	assert.LessOrEqual(t, remaining, c.world.Lease-waited, "a slow answer does not extend trust")
	assert.Len(t, c.Ledger(), 1)
}

func observer(t *testing.T, c *Cluster, leader *Node, term elector.Term) {
	o := c.Add("watcher", func(cfg *elector.Config) { cfg.Observer = true })
	c.Until("the observer to know the leader", func() bool { return o.Current().Leader == leader.ID })
	leader.Kill()
	lease := time.NewTimer(4 * c.world.Lease)
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

func quitAndJoin(t *testing.T, c *Cluster, first *Node, term elector.Term) {
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

func restarted(t *testing.T, c *Cluster, old *Node, term elector.Term) {
	old.Kill()
	again := c.Add(old.ID.Name)
	require.NotEqual(t, old.ID, again.ID, "the name is the same, the incarnation is new")
	leader, next := c.LeaderAfter(term.Number)
	assert.Equal(t, again.ID, leader.ID)
	assert.Greater(t, next.Number, term.Number, "the term in the store belongs to the old incarnation")
}

// lostAnswers loses the answer to a different request in each of several elections.
func lostAnswers(t *testing.T, c *Cluster, leader *Node, term elector.Term) {
	for i, text := range []string{"SELECT", "UPDATE", "INSERT", "GET_LOCK", "GREATEST", "UPDATE", "SELECT"} {
		if c.world.Bubble {
			synctest.Wait() // the fault is for a request of the next election, and not of a round that has begun
		}
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

func promise(t *testing.T, c *Cluster, only *Node, term elector.Term) {
	assert.True(t, only.ConfirmLeading(term.Number, "another lock"), "the node leads that term")
	assert.False(t, only.ConfirmLeading(term.Number+1, "a lock"), "the node promises never to lead the next term")
	if now, leading := only.Leading(); leading { // it may have won again already
		assert.Greater(t, now.Number, term.Number, "the promise covers lower terms")
	}
	_, next := c.LeaderAfter(term.Number)
	assert.Equal(t, term.Number+2, next.Number, "the promised term is skipped")
}

func outranked(t *testing.T, c *Cluster, only *Node, term elector.Term) {
	only.Seen(term.Number + 40)
	began := time.Now()
	_, next := c.LeaderAfter(term.Number)
	assert.Equal(t, term.Number+41, next.Number)
	assert.Equal(t, elector.CauseRestored, next.Cause)
	assert.Less(t, time.Since(began), c.world.Lease, "it wins at once from itself")
	only.Seen(next.Number + 1<<41)
	_, leading := only.Leading()
	assert.True(t, leading, "a term too high to be true is ignored")
}

func leadReturnsFirst(t *testing.T, c *Cluster, _ *Node, _ elector.Term) {
	var mu sync.Mutex
	running := map[conclave.NodeID]int{}
	linger := make(chan struct{})
	c.start(1, func(cfg *elector.Config) {
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
	})
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

func outrankedHolds(t *testing.T, c *Cluster, _ *Node, _ elector.Term) {
	linger := make(chan struct{})
	returns := sync.OnceFunc(func() { close(linger) })
	defer returns()
	c.start(2, func(cfg *elector.Config) {
		cfg.Lead = func(ctx context.Context, _ elector.Term) error {
			<-ctx.Done()
			<-linger // slow to return, but within the lease
			return nil
		}
	})
	old, term := c.Leader()
	c.followed(old)
	old.Seen(term.Number + 40)
	within := time.NewTimer(c.world.Lease / 2)
	defer within.Stop()
	<-within.C
	assert.Len(t, c.Ledger(), 1)
	returns()
	c.LeaderAfter(term.Number)
}

func abstain(t *testing.T, c *Cluster, only *Node, term elector.Term) {
	did, err := only.Abstain(t.Context())
	require.NoError(t, err)
	assert.True(t, did)
	began := time.Now()
	c.LeaderAfter(term.Number)
	assert.GreaterOrEqual(t, time.Since(began), 2*c.world.Lease-c.world.Lease/10)
	did, err = only.Abstain(t.Context())
	require.NoError(t, err)
	assert.False(t, did, "within ten leases it does not abstain again")
}

func shutdown(t *testing.T, c *Cluster, old *Node, term elector.Term) {
	c.followed(old)
	began := time.Now()
	require.NoError(t, old.Shutdown(t.Context()))
	next, _ := c.LeaderAfter(term.Number)
	assert.Less(t, time.Since(began), c.world.Lease/2+c.world.late())
	assert.NotEqual(t, old.ID, next.ID)
	assert.ErrorIs(t, old.Resign(t.Context()), elector.ErrStopped)
	require.NoError(t, old.Shutdown(t.Context()), "a second Shutdown does nothing")
}

func staleAct(t *testing.T, c *Cluster, old *Node, term elector.Term) {
	if c.world.FencedWrite == nil {
		t.Log("this store has no fenced writes: nothing to test")
		return
	}
	written, err := c.world.FencedWrite(t.Context(), old.ID, term.Number)
	require.NoError(t, err)
	assert.True(t, written, "the leader's write is accepted")
	require.NoError(t, old.Resign(t.Context()))
	next, nextTerm := c.LeaderAfter(term.Number)
	written, err = c.world.FencedWrite(t.Context(), old.ID, term.Number)
	require.NoError(t, err)
	assert.False(t, written, "the old leader's write is refused")
	written, err = c.world.FencedWrite(t.Context(), next.ID, nextTerm.Number)
	require.NoError(t, err)
	assert.True(t, written)
}

func calm(t *testing.T, c *Cluster, leader *Node, term elector.Term) {
	c.Until("some beats", func() bool { return leader.Current().Beat >= 6 })
	assert.Len(t, c.Ledger(), 1, "no leader is deposed without a fault")
	now, leading := leader.Leading()
	assert.True(t, leading)
	assert.Equal(t, term.Number, now.Number)
	for _, n := range c.Nodes() {
		assert.Zero(t, n.Stats().Failed, fmt.Sprint(n.ID))
	}
}
