package sofaloop_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/lab/article000/sofaloop"
	conclavesql "conclave/sql"
)

// Article 000, the demonstration: three nodes, the leader is killed, then the new
// leader. Each time one node's update matches and the term rises by one.
func TestRun_KillTheLeaderTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		nodes := []*node{w.start(t, "a"), w.start(t, "b"), w.start(t, "c")}
		for term := range uint64(2) {
			time.Sleep(10 * time.Second)
			require.Equal(t, []string{w.row(t).owner}, leaders(nodes...))
			i := slices.IndexFunc(nodes, func(n *node) bool { return n.AmILeader() })
			nodes[i].kill()
			nodes = slices.Delete(nodes, i, i+1)
			began := time.Now()
			time.Sleep(15 * time.Second)
			assert.Empty(t, leaders(nodes...))
			for len(leaders(nodes...)) == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			took := time.Since(began)
			t.Logf("from the kill of the leader to the next one: %v", took)
			assert.Greater(t, took, 20*time.Second-sofaloop.Interval, "since its last renewal 20 s and more")
			assert.Less(t, took, 22*time.Second+sofaloop.Interval)
			assert.Equal(t, term+2, w.row(t).term)
		}
	})
}

// Article 000: the leader renews each second; the beat rises by one, the term
// stays.
func TestRun_LeaderBeatsEachSecond(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		leader, follower := w.start(t, "a"), w.start(t, "b")
		for second := range uint64(30) {
			assert.Equal(t, row{"a", 1, second}, w.row(t))
			time.Sleep(time.Second)
		}
		assert.Equal(t, []string{"a"}, leaders(leader, follower))
		assert.Equal(t, "a", follower.Leader().Leader)
	})
}

// Article 000, elect: in each round one of onIamLeader and onIamNotLeader is
// called, whether anything has changed or not.
func TestElect_CallsBackInEachRound(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var calls []string
		n := w.loop(t, "a", func(cfg *sofaloop.Config) {
			cfg.OnIamLeader = func() { calls = append(calls, "leader") }
			cfg.OnIamNotLeader = func() { calls = append(calls, "not leader") }
		})
		elect(t, n, n)
		_, err := w.DB.Exec(t.Context(), "UPDATE distribute_lock SET owner = 'b', gmt_modified = UTC_TIMESTAMP(3)")
		require.NoError(t, err)
		elect(t, n, n)
		assert.Equal(t, []string{"leader", "leader", "not leader", "not leader"}, calls)
	})
}

// Article 000, elect: an observer only reads (doQuery), also an expired row.
func TestElect_ObserverOnlyReads(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		observer := w.loop(t, "o", func(cfg *sofaloop.Config) { cfg.Observer = true })
		elect(t, observer)
		assert.Equal(t, sofaloop.LeaderInfo{}, observer.Leader(), "there is no row, and it inserts none")
		elect(t, w.loop(t, "a"), observer)
		assert.Equal(t, "a", observer.Leader().Leader)
		w.age(t, time.Hour)
		elect(t, observer)
		assert.Equal(t, row{"a", 1, 0}, w.row(t))
	})
}

// What a node believes is the row that it read last, for half of the duration
// after the last renewal. No node leads from then until the lock has expired.
func TestAmILeader_ForHalfOfTheDuration(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		leader, follower := w.start(t, "a"), w.start(t, "b")
		time.Sleep(5 * time.Second)
		began := time.Now()
		leader.cable.Cut()
		for leader.AmILeader() {
			time.Sleep(10 * time.Millisecond)
		}
		assert.InDelta(t, 9500*time.Millisecond, time.Since(began), float64(time.Second), "10 s after its last renewal")
		assert.Equal(t, "a", follower.Leader().Leader)
		for !follower.AmILeader() {
			assert.False(t, leader.AmILeader())
			time.Sleep(10 * time.Millisecond)
		}
		assert.InDelta(t, 21*time.Second, time.Since(began), float64(1500*time.Millisecond))
	})
}

// A call to SQL that hangs leaves the flag as it was: the callback that would
// report the end comes after the call. AmILeader ends by the node's own clock.
func TestElect_HangingCallLeavesTheFlag(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var flag atomic.Bool
		var calls atomic.Int64
		set := func(to bool) func() { return func() { flag.Store(to); calls.Add(1) } }
		leader := w.start(t, "a", func(cfg *sofaloop.Config) { cfg.OnIamLeader, cfg.OnIamNotLeader = set(true), set(false) })
		follower := w.start(t, "b")
		time.Sleep(5 * time.Second)
		release := leader.cable.Stall()
		before := calls.Load()
		time.Sleep(30 * time.Second)
		assert.True(t, follower.AmILeader(), "another leads")
		assert.Equal(t, before, calls.Load(), "one call has hung for 30 s")
		assert.True(t, flag.Load(), "a listener of the callbacks still leads")
		assert.False(t, leader.AmILeader(), "AmILeader ends by the clock")
		release()
		time.Sleep(2 * time.Second)
		assert.False(t, flag.Load())
	})
}

// The owner has no incarnation: a restarted node leads the term of the node that
// died, and knows nothing of what that one did.
func TestElect_RestartedNodeResumesItsOwnRow(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		follower := w.loop(t, "b")
		elect(t, w.loop(t, "a"), follower)
		again := w.loop(t, "a")
		assert.False(t, again.AmILeader())
		elect(t, again)
		assert.True(t, again.AmILeader())
		assert.Equal(t, row{"a", 1, 0}, w.row(t), "it has read its own row, as a follower")
		elect(t, again)
		assert.Equal(t, row{"a", 1, 1}, w.row(t), "and renews it: the same term")

		w.age(t, 15*time.Second) // more than half of the duration
		late := w.loop(t, "a")
		elect(t, late, late, late)
		assert.False(t, late.AmILeader())
		assert.Equal(t, row{"a", 1, 1}, w.row(t), "it follows its own row until that expires")
		w.age(t, 22*time.Second)
		elect(t, late)
		assert.True(t, late.AmILeader())
		assert.Equal(t, row{"a", 2, 0}, w.row(t))
	})
}

// A node whose clock is ahead by half of the duration wins, and never leads.
// Since it renews only what it leads, its row expires, and it wins again.
func TestAmILeader_NeverByAClockThatIsAhead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start(t, "a", ahead(11*time.Second))
		for range 3000 {
			time.Sleep(100 * time.Millisecond)
			require.False(t, n.AmILeader())
		}
		got := w.row(t)
		t.Logf("in five minutes: %d terms, no leader", got.term)
		assert.Zero(t, got.beat)
		assert.InDelta(t, 14, got.term, 1, "a term for every 21 to 22 s")
	})
}

func TestNew_RejectsInvalidConfig(t *testing.T) {
	db, err := conclavesql.Open("root@tcp(127.0.0.1:1)/x", conclavesql.Options{})
	require.NoError(t, err)
	defer db.Close()
	for want, cfg := range map[string]sofaloop.Config{
		"DB is missing": {Lock: key, Myself: "a"},
		"data center":   {DB: db, Myself: "a"},
		"myself":        {DB: db, Lock: key},
	} {
		_, err := sofaloop.New(cfg)
		assert.ErrorContains(t, err, want)
	}
}
