package versioncas_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector/electortest"
	"conclave/elector/versioncas"
)

// One test per statement of article 003, which is retold in its comment; then one per
// weakness, those that the article lists and those found since.

// node is a running service.
type node struct {
	*versioncas.Service
	cable *electortest.Cable
	kill  func()
}

// service makes a node that does not run its tasks.
func (w *world) service(t *testing.T, now func() time.Time) *node {
	t.Helper()
	require.NoError(t, versioncas.MigrateArticle(t.Context(), w.DB, key))
	cable := electortest.NewCable(w.Dial)
	s, err := versioncas.NewService(versioncas.ServiceConfig{DB: w.Open(t, cable.Dial, time.Second), Key: key, Now: now})
	require.NoError(t, err)
	return &node{Service: s, cable: cable}
}

// start starts a node's tasks, and returns after its first election.
func (w *world) start(t *testing.T, now func() time.Time) *node {
	t.Helper()
	n := w.launch(t, now)
	time.Sleep(100 * time.Millisecond)
	return n
}

// launch starts a node's tasks.
func (w *world) launch(t *testing.T, now func() time.Time) *node {
	t.Helper()
	n := w.service(t, now)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	n.kill = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(n.kill)
	return n
}

// leaders returns the nodes that believe they lead.
func leaders(nodes ...*node) (list []*node) {
	for _, n := range nodes {
		if n.IsLeader() {
			list = append(list, n)
		}
	}
	return list
}

// version returns the row's version and leader.
func (w *world) version(t *testing.T) (version, leader int64) {
	t.Helper()
	require.NoError(t, w.DB.QueryRow(t.Context(), "SELECT version, leader_id FROM leader_election WHERE elect_key = ?", []any{key}, &version, &leader))
	return version, leader
}

// Article 003: "the row has elect_key, version, tick_time, leader_id, create_time and
// update_time".
func TestArticleTableHasItsColumns(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		require.NoError(t, versioncas.MigrateArticle(t.Context(), w.DB, key))
		for _, column := range []string{"elect_key", "version", "tick_time", "leader_id", "create_time", "update_time"} {
			var n int
			require.NoError(t, w.DB.QueryRow(t.Context(), "SELECT COUNT("+column+") FROM leader_election", nil, &n))
			assert.Equal(t, 1, n, column)
		}
		version, leader := w.version(t)
		assert.Zero(t, version)
		assert.Zero(t, leader)
	})
}

// Article 003: "elect: every node swaps the version from 0, one does it and is the
// leader; each has an id of its own".
func TestArticleElectIsWonByOne(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		nodes := []*node{w.service(t, nil), w.service(t, nil), w.service(t, nil)}
		var won []*node
		for _, n := range nodes {
			ok, err := n.Elect(t.Context())
			require.NoError(t, err)
			if ok {
				won = append(won, n)
			}
		}
		require.Len(t, won, 1)
		assert.Equal(t, won, leaders(nodes...))
		version, leader := w.version(t)
		assert.Equal(t, int64(1), version)
		assert.Equal(t, won[0].ServiceID(), leader)
		assert.NotEqual(t, nodes[0].ServiceID(), nodes[1].ServiceID())
	})
}

// Article 003: "tick: the leader swaps the version to version + 1, each five seconds;
// its followers only read".
func TestArticleLeaderTicks(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		leader, follower := w.start(t, nil), w.start(t, nil)
		time.Sleep(52 * time.Second)
		version, _ := w.version(t)
		assert.Equal(t, int64(1+10), version)
		assert.True(t, leader.IsLeader())
		assert.False(t, follower.IsLeader())
		assert.Equal(t, 1, follower.Swaps(), "the first election only")
	})
}

// Article 003: "doesLeaderCrashed: the last tick is older than five seconds; then a
// follower re-elects from the version that it saw".
func TestArticleFollowerReelects(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		leader, follower := w.start(t, nil), w.start(t, nil)
		time.Sleep(7 * time.Second)
		crashed, err := follower.LeaderCrashed(t.Context())
		require.NoError(t, err)
		assert.False(t, crashed)
		leader.kill()
		time.Sleep(5 * time.Second)
		assert.True(t, follower.IsLeader())
		version, id := w.version(t)
		assert.Equal(t, int64(3), version, "elected, one tick, elected")
		assert.Equal(t, follower.ServiceID(), id)
	})
}

// Article 003: "a leader that wakes from a stall and finds that it is none becomes a
// follower".
func TestArticleLeaderThatLostBecomesAFollower(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		old, follower := w.service(t, nil), w.service(t, nil)
		_, err := old.Elect(t.Context())
		require.NoError(t, err)
		time.Sleep(7 * time.Second)
		crashed, err := follower.LeaderCrashed(t.Context())
		require.NoError(t, err)
		require.True(t, crashed)
		won, err := follower.Reelect(t.Context())
		require.NoError(t, err)
		require.True(t, won)
		alive, err := old.Tick(t.Context())
		require.NoError(t, err)
		assert.False(t, alive)
		assert.Equal(t, []*node{follower}, leaders(old, follower))
	})
}

// Article 003, its own list: "a stalled leader learns late that it has lost".
// Two nodes believe they lead at the same time. The old leader is cut off from the
// store, and no clock of its own ends its leadership.
func TestArticleWeaknessTwoLeadersUntilTheNextTick(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		old, follower := w.start(t, nil), w.start(t, nil)
		time.Sleep(7 * time.Second)
		release := old.cable.Stall()
		time.Sleep(10 * time.Second)
		assert.Len(t, leaders(old, follower), 2)
		time.Sleep(time.Second)
		assert.True(t, old.IsLeader(), "its ticks have no answer, but it still believes it leads")
		release()
		time.Sleep(5 * time.Second)
		assert.False(t, old.IsLeader())
	})
}

// Article 003, its own list: "re-election waits for the next probe".
func TestArticleWeaknessReelectionWaitsForTheNextProbe(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		leader, follower := w.start(t, nil), w.start(t, nil)
		time.Sleep(15*time.Second + 100*time.Millisecond) // just after a tick
		leader.kill()
		began := time.Now()
		for !follower.IsLeader() {
			time.Sleep(10 * time.Millisecond)
		}
		took := time.Since(began)
		t.Logf("from the leader's death to the next leader: %v", took)
		assert.Greater(t, took, 5*time.Second, "the time-out had not passed at the first probe")
		assert.Less(t, took, 11*time.Second)
	})
}

// Article 003, its own list: "the herd is not avoided".
func TestArticleWeaknessTheHerdSwapsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		leader := w.start(t, nil)
		var nodes []*node
		for range 10 {
			nodes = append(nodes, w.launch(t, nil))
		}
		time.Sleep(7 * time.Second)
		for _, n := range nodes { // no swap arrives before all nodes have read the row
			n.cable.Before("UPDATE", func() { time.Sleep(time.Millisecond) })
		}
		leader.kill()
		tried := 0
		for len(leaders(nodes...)) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond)
		for _, n := range nodes {
			tried += n.Swaps() - 1
		}
		assert.Equal(t, len(nodes), tried)
		assert.Len(t, leaders(nodes...), 1)
	})
}

// Article 003, found since: after a re-election the local version is 1 while the row
// holds more. The first tick fails and the leader steps down; the next check finds a
// dead leader, and so on: no node leads for longer than a tick.
func TestArticleFaultLocalVersionAfterAReelection(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		leader, follower := w.start(t, nil), w.start(t, nil)
		time.Sleep(22 * time.Second)
		leader.kill()
		for !follower.IsLeader() {
			time.Sleep(10 * time.Millisecond)
		}
		version, id := w.version(t)
		require.Equal(t, follower.ServiceID(), id)
		require.Greater(t, version, int64(1), "the row's version is higher than the winner assumes")
		began := time.Now()
		for follower.IsLeader() {
			time.Sleep(10 * time.Millisecond)
		}
		assert.LessOrEqual(t, time.Since(began), versioncas.ArticleTick, "deposed by its first tick")
		after, id := w.version(t)
		assert.Equal(t, version, after, "the tick matched nothing")
		assert.Equal(t, follower.ServiceID(), id, "although no other node was elected")

		terms, leaderless := 0, 0
		was := false
		for range 600 { // a minute, alone and healthy
			time.Sleep(100 * time.Millisecond)
			is := follower.IsLeader()
			if is && !was {
				terms++
			}
			if !is {
				leaderless++
			}
			was = is
		}
		t.Logf("one healthy node for a minute: elected %d times, no leader for %d s", terms, leaderless/10)
		assert.GreaterOrEqual(t, terms, 5)
		assert.Greater(t, leaderless, 100, "a sixth of the minute, at least")
	})
}

// The same in the repaired form: the winner knows the version that it wrote.
func TestArticleRepairedWinnerKnowsItsVersion(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := electortest.NewCluster(t, suite.World(t, w.World, 3*time.Second, time.Second/2), 2)
		defer c.Stop()
		first, term := c.Leader()
		c.Until("some ticks", func() bool { return first.Current().Beat >= 4 })
		first.Kill()
		second, next := c.LeaderAfter(term.Number)
		assert.GreaterOrEqual(t, next.Number, uint64(6), "a term is the version with which it began")
		time.Sleep(time.Minute)
		now, leading := second.Leading()
		assert.True(t, leading)
		assert.Equal(t, next.Number, now.Number, "a minute later, the same term")
		assert.Zero(t, second.Stats().Ended)
		var version uint64
		require.NoError(t, w.DB.QueryRow(t.Context(), "SELECT version FROM leader_version", nil, &version))
		assert.InDelta(t, now.Number+now.Beat, version, 1)
	})
}

// Article 003, found since: elect assumes version 0, so that a cluster which is
// started again has no leader until a check has found the old leader dead.
func TestArticleFaultARestartedClusterCannotElect(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		leader := w.start(t, nil)
		time.Sleep(7 * time.Second)
		leader.kill()
		time.Sleep(time.Minute)
		again := w.service(t, nil)
		won, err := again.Elect(t.Context())
		require.NoError(t, err)
		assert.False(t, won, "the row is never at version 0 again")
	})
}

// Article 003, found since: the age of a tick is by the reader's clock. One follower
// whose clock is 10 s fast deposes healthy leaders for ever; one whose clock is slow
// never follows a dead one.
func TestArticleFaultAFollowersClockDeposes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		leader := w.start(t, nil)
		fast := w.start(t, func() time.Time { return time.Now().Add(10 * time.Second) })
		slow := w.start(t, func() time.Time { return time.Now().Add(-time.Hour) })
		time.Sleep(6500 * time.Millisecond)
		assert.True(t, fast.IsLeader(), "elected although the leader ticked a second ago")
		assert.True(t, leader.IsLeader(), "the old leader does not know yet")
		leader.kill()
		fast.kill()
		time.Sleep(10 * time.Minute)
		assert.False(t, slow.IsLeader())
	})
}

// Article 003, found since: the time-out is as long as the tick's period, and the
// clock counts whole seconds: a tick that is a second late deposes its leader.
func TestArticleFaultNoRoomForALateTick(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		leader, follower := w.service(t, nil), w.service(t, nil)
		time.Sleep(900 * time.Millisecond)
		_, err := leader.Elect(t.Context())
		require.NoError(t, err)
		time.Sleep(5050 * time.Millisecond) // the next tick is 50 ms late
		crashed, err := follower.LeaderCrashed(t.Context())
		require.NoError(t, err)
		assert.True(t, crashed)
	})
}

// The repaired form does not depend on these clocks.
func TestArticleRepairedComparesNoClocks(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := electortest.NewCluster(t, suite.World(t, w.World, 3*time.Second, time.Second/2), 3)
		defer c.Stop()
		leader, term := c.Leader()
		_, err := w.DB.Exec(t.Context(), "UPDATE leader_version SET tick_time = DATE_SUB(NOW(3), INTERVAL 1 HOUR)") // the database's clock leaps
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		now, leading := leader.Leading()
		assert.True(t, leading)
		assert.Equal(t, term.Number, now.Number)

		// A clock that is set back does not keep a dead leader's term alive: three
		// leases of observation are enough.
		leader.Kill()
		_, err = w.DB.Exec(t.Context(), "UPDATE leader_version SET tick_time = DATE_ADD(NOW(3), INTERVAL 1 HOUR)")
		require.NoError(t, err)
		began := time.Now()
		c.LeaderAfter(term.Number)
		assert.Less(t, time.Since(began), 10*time.Second)
	})
}

// A renewal whose answer is lost has raised the version; the next one continues from
// it.
func TestRenew_LostAnswerDeposesNoLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := electortest.NewCluster(t, suite.World(t, w.World, 3*time.Second, time.Second/2), 2)
		defer c.Stop()
		leader, term := c.Leader()
		for i := range 5 {
			before := leader.Current().Beat
			leader.Cable.LoseReply("version + 1")
			c.Until("a tick after the one that was lost", func() bool { return leader.Current().Beat >= before+3 })
			assert.Equal(t, i+1, leader.Cable.Lost())
		}
		now, leading := leader.Leading()
		assert.True(t, leading)
		assert.Equal(t, term.Number, now.Number)
	})
}

// A renewal that is executed long after its sender has given up matches nothing.
func TestRenew_LateStatementMatchesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := electortest.NewCluster(t, suite.World(t, w.World, 3*time.Second, time.Second/2), 2)
		defer c.Stop()
		old, term := c.Leader()
		deliver := old.Cable.Delay("version + 1")
		time.Sleep(2 * time.Second)
		require.NoError(t, old.Resign(t.Context()))
		next, nextTerm := c.LeaderAfter(term.Number)
		before := next.Current()
		deliver()
		old.Cable.Delivered()
		time.Sleep(10 * time.Second)
		now, leading := next.Leading()
		assert.True(t, leading)
		assert.Equal(t, nextTerm.Number, now.Number)
		assert.Greater(t, now.Beat, before.Beat)
	})
}
