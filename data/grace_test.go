package data_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/data"
	"conclave/slot"
	wirev1 "conclave/wire/v1"
)

// serving makes a cluster of two data nodes and one slot, which a serves.
func serving(t *testing.T, c *cluster, adjust ...func(*data.Config)) (a, b *node) {
	a, b = c.data("data-1", adjust...), c.data("data-2", adjust...)
	c.stable(1, lostLeader)
	c.crash(0, a.id, b.id)
	eventually(t, time.Second, "a serves", func() bool { return a.state(0) == slot.Serving })
	c.settle(0)
	return a, b
}

// A lost session's publishers stay for the grace, and any sign of life restarts
// it.
func TestOwners_PublishersOfLostSessionStayForGrace(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		lost, reader := c.session("session-1", true), c.session("session-2", true)
		a, _ := serving(t, c)
		d := dataIDIn(0, 1)
		lost.store(pub(d, "r1", 1, "v1"))
		c.evict("session-1")
		time.Sleep(14 * time.Second)
		access, err := lost.write(lost.at(a, c.table().Slots[0].LeaderEpoch), 0, nil) // a sign of life
		assert.NoError(t, err)
		assert.Equal(t, wirev1.Access_ACCESS_ACCEPT, access)
		start := time.Now()
		lost.kill()
		eventually(t, 30*time.Second, "removed", func() bool { v, ok := reader.read(d); return ok && len(v) == 0 })
		assert.GreaterOrEqual(t, time.Since(start), 15*time.Second)
		assert.LessOrEqual(t, time.Since(start), 18*time.Second)
		f, _, err := reader.fetch(reader.learn(0), d)
		assert.NoError(t, err)
		assert.Positive(t, f.GetUnconfirmedMs(), "no confirmation that the clients are gone")
		assert.Equal(t, f.GetDatum().GetVersion(), f.GetUnexplainedVersion())
		assert.Contains(t, events(a), "session.gone")
	})
}

// An open feed is a sign of life, whatever the member list says.
func TestOwners_ConnectedSessionIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1, reader := c.session("session-1", true), c.session("session-2", true)
		a, b := serving(t, c, func(cfg *data.Config) { cfg.RepairEvery, cfg.RepairAll = 2*time.Hour, 2*time.Hour }) // without repair, whose answers are signs of life
		d := dataIDIn(0, 1)
		s1.store(pub(d, "r1", 1, "v1"))
		s1.watch(t.Context(), a)
		c.evict("session-1")
		time.Sleep(time.Hour)
		v, ok := reader.read(d)
		assert.True(t, ok)
		assert.Equal(t, []string{"v1"}, v)
		eventually(t, time.Second, "the follower has it too", func() bool { return owners(b, 0) == 1 })
	})
}

// The meta leader is away for ten minutes, and a session dies in that time.
func TestOwners_NothingIsRemovedWithoutLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		lost, reader := c.session("session-1", true), c.session("session-2", true)
		_, _ = serving(t, c)
		d := dataIDIn(0, 1)
		lost.store(pub(d, "r1", 1, "v1"))
		reader.store(pub(d, "r2", 1, "v2"))
		lost.kill()
		c.evict("session-1")
		time.Sleep(10 * time.Second) // two thirds of the grace
		c.fakeMeta.stop()
		time.Sleep(10 * time.Minute)
		v, ok := reader.read(d)
		assert.True(t, ok, "a meta outage breaks nothing")
		assert.Equal(t, []string{"v1", "v2"}, v)
		// Writes of living sessions still take effect.
		reader.store(pub(d, "r2", 2))
		v, _ = reader.read(d)
		assert.Equal(t, []string{"v1"}, v)

		c.replaceMeta()
		time.Sleep(10 * time.Second)
		v, _ = reader.read(d)
		assert.Equal(t, []string{"v1"}, v, "the count began again when a leader was back")
		eventually(t, 10*time.Second, "removed", func() bool { v, ok := reader.read(d); return ok && len(v) == 0 })
	})
}

// While no session is alive, the absence of an owner is no evidence against its
// clients. The grace counts from the first session that is back; what no client
// has registered again by then is removed.
func TestOwners_OutageOfAllSessionsRemovesNothing(t *testing.T) {
	for _, away := range []time.Duration{12 * time.Second, 16 * time.Second, 25 * time.Second, time.Hour} {
		t.Run(away.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				s1, s2 := c.session("session-1", true), c.session("session-2", true)
				_, _ = serving(t, c)
				d := dataIDIn(0, 1)
				s1.store(pub(d, "r1", 1, "v1"))
				s2.store(pub(d, "r2", 1, "v2"))
				for _, s := range []*session{s1, s2} {
					s.kill()
					c.evict(s.id.Name)
				}
				time.Sleep(away)
				first := c.session("session-1", true)
				start := time.Now()
				first.store(pub(d, "r1", 1, "v1")) // this client is back, the other is not
				for time.Since(start) < 14*time.Second {
					v, ok := first.read(d)
					require.True(t, ok)
					require.Equal(t, []string{"v1", "v2"}, v, "what a new subscriber receives")
					time.Sleep(time.Second)
				}
				eventually(t, 5*time.Second, "the orphan is removed", func() bool { v, ok := first.read(d); return ok && len(v) == 1 })
			})
		})
	}
}

// The time of a mark, too, counts only while a session is alive: without one,
// nothing confirms or refutes the removal.
func TestOwners_OutageOfAllSessionsKeepsMarks(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		lost, reader := c.session("session-1", true), c.session("session-2", true)
		_, _ = serving(t, c)
		d := dataIDIn(0, 1)
		lost.store(pub(d, "r1", 1, "v1"))
		lost.kill()
		c.evict("session-1")
		eventually(t, 30*time.Second, "removed", func() bool { v, ok := reader.read(d); return ok && len(v) == 0 })
		reader.kill()
		c.evict("session-2")
		time.Sleep(time.Minute)
		back := c.session("session-3", true)
		f, _, err := back.fetch(back.learn(0), d)
		require.NoError(t, err)
		assert.Greater(t, f.GetUnconfirmedMs(), int64(13_000))
	})
}

// A client withdraws at S1 while S2 still has an older copy. S1 dies, and the
// slot moves to a node that did not receive the withdrawal from S1.
func TestTombstone_SurvivesSessionAndLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1, s2 := c.session("session-1", true), c.session("session-2", true)
		a, b := serving(t, c)
		d := dataIDIn(0, 1)
		s2.store(pub(d, "r1", 1, "old"))
		s1.store(pub(d, "r1", 2)) // the client moved, and withdrew there
		eventually(t, time.Second, "b has both", func() bool { return owners(b, 0) == 2 })
		s1.kill()
		c.evict("session-1")
		a.kill()
		c.crash(0, b.id)
		eventually(t, time.Second, "b serves", func() bool { return b.state(0) == slot.Serving })
		never(t, 40*time.Second, "the old copy is visible again", func() bool { v, ok := s2.read(d); return ok && len(v) > 0 })
		s2.drop("r1") // its client is long gone
		s2.write(s2.learn(0), 0, nil, &wirev1.Removal{Id: "r1", DataInfoId: d, Version: 1, Cause: wirev1.Cause_CAUSE_CLIENT_GONE})
		eventually(t, 10*time.Second, "nothing is left of it", func() bool { return owners(b, 0) == 0 })
	})
}

// Repair finds what no write has sent: missing registrations at once, surplus
// ones after a second comparison.
func TestRepair_AddsWhatWritesMissed(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1 := c.session("session-1", true)
		a, _ := serving(t, c)
		d := dataIDIn(0, 1)
		s1.store(pub(d, "r1", 1, "v1"))
		s1.put(pub(d, "r2", 1, "forgotten"))
		eventually(t, 10*time.Second, "found", func() bool { v, _ := s1.read(d); return len(v) == 2 })
		s1.drop("r1")
		s1.watch(t.Context(), a) // an opened feed is a reason to compare
		time.Sleep(5 * time.Second)
		v, _ := s1.read(d)
		assert.Len(t, v, 2)
		eventually(t, 20*time.Second, "dropped", func() bool { v, _ := s1.read(d); return len(v) == 1 })
		f, _, err := s1.fetch(s1.learn(0), d)
		assert.NoError(t, err)
		assert.Positive(t, f.GetUnconfirmedMs(), "missing in a diff is no confirmation")
	})
}

// Additions come before removals, even if an answer comes in parts.
func TestDiff_RemovesOnlyWithLastPart(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1 := c.session("session-1", true)
		serving(t, c)
		d := dataIDIn(0, 1)
		s1.store(pub(d, "old", 1, "old"))
		s1.drop("old")
		for i := range 7 { // three parts
			s1.put(pub(d, fmt.Sprint("new", i), 1, "new"))
		}
		eventually(t, 10*time.Second, "the new ones", func() bool { v, _ := s1.read(d); return len(v) >= 7 })
		v, _ := s1.read(d)
		assert.Len(t, v, 8, "the old one stays until a second comparison")
		eventually(t, 10*time.Second, "the old one is gone", func() bool { v, _ := s1.read(d); return len(v) == 7 })
	})
}

func TestRepair_IdleClusterComparesRarely(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.auto = true
		s1, s2 := c.session("session-1", true), c.session("session-2", true)
		c.data("data-1")
		c.make(256)
		eventually(t, 5*time.Second, "stable", func() bool { return c.table().StableAll() })
		before := s1.asked() + s2.asked()
		time.Sleep(10 * time.Minute)
		n := s1.asked() + s2.asked() - before
		assert.InDelta(t, 2*256*2, n, 2*256, "each slot with each session about once in five minutes")
	})
}

func events(n *node) (types []string) {
	all, _ := n.Events().Since(0)
	for _, e := range all {
		types = append(types, e.Type)
	}
	return types
}

// A session that comes back after its grace need not wait for a repair round.
func TestWatch_ReturningSessionIsComparedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1, reader := c.session("session-1", true), c.session("session-2", true)
		a, _ := serving(t, c)
		d := dataIDIn(0, 1)
		s1.store(pub(d, "r1", 1, "v1"))
		c.evict("session-1")
		eventually(t, 40*time.Second, "removed", func() bool { v, ok := reader.read(d); return ok && len(v) == 0 })
		s1.watch(t.Context(), a)
		eventually(t, 100*time.Millisecond, "back", func() bool { v, _ := reader.read(d); return len(v) == 1 })
	})
}
