package versioncas_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector/electortest"
	"conclave/lab/article003/versioncas"
)

// One test per statement of article 003, which is retold in its comment.

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
	n.kill = w.run(t, n.Service)
	return n
}

// run runs a service until kill is called or the test ends.
func (w *world) run(t *testing.T, s *versioncas.Service) (kill func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	kill = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(kill)
	return kill
}

// leaders returns the ids of the nodes that believe they lead.
func leaders(nodes ...*node) (ids []int64) {
	for _, n := range nodes {
		if n.IsLeader() {
			ids = append(ids, n.ServiceID())
		}
	}
	return ids
}

// version returns the row's version and leader.
func (w *world) version(t *testing.T) (version, leader int64) {
	t.Helper()
	require.NoError(t, w.DB.QueryRow(t.Context(), "SELECT version, leader_id FROM leader_election WHERE elect_key = ?", []any{key}, &version, &leader))
	return version, leader
}

// Article 003: the row has elect_key, version, tick_time, leader_id, create_time and
// update_time.
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

// Article 003: elect: every node swaps the version from 0, one does it and is the
// leader; each has an id of its own. All have read the row before the first swaps.
func TestArticleElectIsWonByOne(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		nodes := []*node{w.service(t, nil), w.service(t, nil), w.service(t, nil)}
		var elections, allRead sync.WaitGroup
		allRead.Add(len(nodes))
		for _, n := range nodes {
			n.cable.Before("UPDATE", func() { allRead.Done(); allRead.Wait() })
			elections.Go(func() {
				won, err := n.Elect(t.Context())
				assert.NoError(t, err)
				assert.Equal(t, won, n.IsLeader())
			})
		}
		elections.Wait()
		won := leaders(nodes...)
		require.Len(t, won, 1)
		version, leader := w.version(t)
		assert.Equal(t, int64(1), version)
		assert.Equal(t, won[0], leader)
		for _, n := range nodes {
			assert.Equal(t, 1, n.Swaps(), "each has swapped")
		}
		assert.NotEqual(t, nodes[0].ServiceID(), nodes[1].ServiceID())
	})
}

// Article 003: tick: the leader swaps the version to version + 1, at each full five
// seconds; its followers only read, a second later.
func TestArticleLeaderTicks(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		require.Equal(t, 5*time.Second, versioncas.ArticleTick)
		require.Equal(t, time.Second, versioncas.ArticleOffset)
		time.Sleep(3 * time.Second) // the start decides nothing
		leader, follower := w.start(t, nil), w.start(t, nil)
		for tick := range int64(10) {
			boundary := time.Now().Truncate(versioncas.ArticleTick).Add(versioncas.ArticleTick)
			checked := make(chan time.Time, 1)
			follower.cable.Before("SELECT", func() { checked <- time.Now() })
			time.Sleep(time.Until(boundary) - 10*time.Millisecond)
			version, _ := w.version(t)
			assert.Equal(t, 1+tick, version, "before %v", boundary)
			time.Sleep(20 * time.Millisecond)
			version, _ = w.version(t)
			assert.Equal(t, 2+tick, version, "after %v", boundary)
			time.Sleep(time.Second)
			assert.Equal(t, versioncas.ArticleOffset, (<-checked).Sub(boundary), "the follower's check")
		}
		assert.True(t, leader.IsLeader())
		assert.False(t, follower.IsLeader())
		assert.Equal(t, 1, follower.Swaps(), "the first election only")
	})
}

// Article 003: doesLeaderCrashed: the last tick is older than five seconds.
func TestArticleLeaderCrashedAfterFiveSeconds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		leader, follower := w.service(t, nil), w.service(t, nil)
		_, err := leader.Elect(t.Context())
		require.NoError(t, err)
		time.Sleep(versioncas.ArticleTick)
		crashed, err := follower.LeaderCrashed(t.Context())
		require.NoError(t, err)
		assert.False(t, crashed, "five seconds are not more than five seconds")
		time.Sleep(time.Millisecond)
		crashed, err = follower.LeaderCrashed(t.Context())
		require.NoError(t, err)
		assert.True(t, crashed)
	})
}

// Article 003: a follower that finds the leader crashed re-elects, from the version of
// its last tick.
func TestArticleFollowerReelects(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		leader, follower := w.start(t, nil), w.start(t, nil)
		time.Sleep(7 * time.Second)
		assert.False(t, follower.IsLeader(), "the leader lives")
		leader.kill()
		time.Sleep(5 * time.Second)
		assert.True(t, follower.IsLeader())
		version, id := w.version(t)
		assert.Equal(t, int64(3), version, "elected, one tick, elected")
		assert.Equal(t, follower.ServiceID(), id)
	})
}

// Article 003: reelect reads the row again and swaps from the version that it reads
// then. A check a minute ago, of another version, decides nothing.
func TestArticleReelectReadsTheRowAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		follower := w.service(t, nil)
		crashed, err := follower.LeaderCrashed(t.Context())
		require.NoError(t, err)
		require.False(t, crashed)
		time.Sleep(time.Minute)
		_, err = w.DB.Exec(t.Context(), "UPDATE leader_election SET version = 17")
		require.NoError(t, err)
		won, err := follower.Reelect(t.Context())
		require.NoError(t, err)
		assert.True(t, won)
		version, id := w.version(t)
		assert.Equal(t, int64(18), version)
		assert.Equal(t, follower.ServiceID(), id)
	})
}

// Article 003: isLeader becomes the result of the swap, also of a lost one; without an
// answer it stays.
func TestArticleFlagIsTheResultOfTheSwap(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n, other := w.service(t, nil), w.service(t, nil)
		won, err := n.Elect(t.Context())
		require.NoError(t, err)
		require.True(t, won)
		won, err = n.Elect(t.Context())
		require.NoError(t, err)
		assert.False(t, won, "the row is not at version 0 any more")
		assert.False(t, n.IsLeader(), "although the row names it")
		_, id := w.version(t)
		assert.Equal(t, n.ServiceID(), id)

		won, err = n.Reelect(t.Context())
		require.NoError(t, err)
		require.True(t, won)
		n.cable.Before("UPDATE", func() { // between its read and its swap
			won, err := other.Reelect(context.Background())
			assert.NoError(t, err)
			assert.True(t, won)
		})
		won, err = n.Reelect(t.Context())
		require.NoError(t, err)
		assert.False(t, won)
		assert.False(t, n.IsLeader(), "a lost re-election clears it, too")

		other.cable.LoseReply("leader_id = ")
		_, err = other.Reelect(t.Context())
		require.Error(t, err)
		assert.True(t, other.IsLeader())
	})
}

// Article 003: tick raises the local version before it knows the outcome, and sets it
// to 0 when it is lost. A tick whose answer was lost is made good by the next one; a
// tick that was not executed deposes.
func TestArticleTickRaisesTheLocalVersionFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.service(t, nil)
		_, err := n.Elect(t.Context())
		require.NoError(t, err)
		n.cable.LoseReply("UPDATE")
		_, err = n.Tick(t.Context())
		require.Error(t, err)
		require.True(t, n.IsLeader(), "without an answer the flag stays")
		alive, err := n.Tick(t.Context())
		require.NoError(t, err)
		assert.True(t, alive)

		n.cable.Cut()
		_, err = n.Tick(t.Context())
		require.Error(t, err)
		require.True(t, n.IsLeader())
		n.cable.Mend()
		alive, err = n.Tick(t.Context())
		require.NoError(t, err)
		assert.False(t, alive)
		assert.False(t, n.IsLeader(), "although no other node was elected")
	})
}

// Article 003, ElectionException: there is no row; one that does not lead ticks; the
// leader checks the leader.
func TestArticleExceptions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.service(t, nil)
		_, err := n.Tick(t.Context())
		assert.ErrorIs(t, err, versioncas.ErrNotLeader)
		_, err = n.Elect(t.Context())
		require.NoError(t, err)
		_, err = n.LeaderCrashed(t.Context())
		assert.ErrorIs(t, err, versioncas.ErrLeader)

		_, err = w.DB.Exec(t.Context(), "DELETE FROM leader_election")
		require.NoError(t, err)
		_, err = n.Elect(t.Context())
		assert.ErrorIs(t, err, versioncas.ErrNoRow)
		_, err = n.Reelect(t.Context())
		assert.ErrorIs(t, err, versioncas.ErrNoRow)
		assert.True(t, n.IsLeader(), "an exception leaves the flag as it was")
		alive, err := n.Tick(t.Context())
		require.NoError(t, err)
		assert.False(t, alive, "tick does not read the row: it matches nothing")
		_, err = n.LeaderCrashed(t.Context())
		assert.ErrorIs(t, err, versioncas.ErrNoRow)
		assert.ErrorIs(t, n.Run(t.Context()), versioncas.ErrNoRow, "the process does not start")
	})
}

// Article 003: a leader that wakes from a stall and finds that it is none becomes a
// follower.
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
		assert.Equal(t, []int64{follower.ServiceID()}, leaders(old, follower))
	})
}
