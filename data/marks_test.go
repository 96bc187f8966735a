package data_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// The push guard's marks go with the slot: what the source's sessions would
// hold back, the successor's sessions hold back, too.
func TestMarks_GoWithHandOver(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1, s2 := c.session("session-1", true), c.session("session-2", true)
		a, b := c.data("data-1"), c.data("data-2")
		d := dataIDIn(0, 1)
		s2.silence()
		c.stable(1, lostLeader)
		c.crash(0, a.id)
		eventually(t, time.Second, "s2 is asked", func() bool { return s2.asked() > 0 })
		c.evict("session-2")
		eventually(t, time.Second, "a serves without s2", func() bool { return a.state(0) == slot.Serving })
		c.prepare(0, b.id)
		eventually(t, time.Second, "b follows", func() bool { return b.state(0) == slot.CaughtUp })
		c.switchTo(0, b.id)
		eventually(t, time.Second, "b serves", func() bool { return b.state(0) == slot.Serving })
		res, err := s1.peers.Data(a.Address()).Finish(t.Context(), connect.NewRequest(&wirev1.FinishRequest{
			Slots: []*wirev1.FinishSlot{{LeaderEpoch: wire.EpochOut(c.table().Slots[0].LeaderEpoch)}}, Successor: wire.NodeOut(b.id),
		}))
		require.NoError(t, err)
		assert.InDelta(t, 14_000, res.Msg.GetSlots()[0].GetUnconfirmedMs(), 1500, "asked once more")
		f, _, err := s1.fetch(s1.learn(0), d)
		require.NoError(t, err)
		assert.InDelta(t, 14_000, f.GetUnconfirmedMs(), 1500)
		assert.Equal(t, f.GetDatum().GetVersion(), f.GetUnexplainedVersion())
	})
}

// Marks that came after the successor's snapshot are in the source's answer to
// Finish.
func TestMarks_FinishMarksSlot(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, s1 := c.source("data-1"), c.session("session-1", true)
		b := c.data("data-2")
		e1 := c.stable(1, a.id, b.id)
		a.events <- whole(e1, 5)
		eventually(t, time.Second, "caught up", func() bool { return b.state(0) == slot.CaughtUp })
		a.finish = func() (*wirev1.FinishedSlot, error) {
			return &wirev1.FinishedSlot{Access: wirev1.Access_ACCESS_ACCEPT, SourceEpoch: wire.EpochOut(e1), Position: 5, UnconfirmedMs: 9000}, nil
		}
		c.switchTo(0, b.id)
		eventually(t, time.Second, "serving", func() bool { return b.state(0) == slot.Serving })
		f, _, err := s1.fetch(s1.learn(0), dataIDIn(0, 1))
		require.NoError(t, err)
		assert.InDelta(t, 9000, f.GetUnconfirmedMs(), 1000)
	})
}

// A leader without a copy cannot know what it lacks: after a restart of all
// data nodes it does not know the lost sessions either. Only a slot in which
// nothing was published before is served unmarked, and only if no session that
// was seen since is away.
func TestMarks_GrantWithoutCopyIsMarked(t *testing.T) {
	for _, c := range []struct {
		name                string
		first, away, marked bool
	}{
		{"first leadership", true, false, false},
		{"first leadership, a session is away", true, true, true},
		{"later leadership", false, false, true},
		{"later leadership, a session is away", false, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, away, marked := c.first, c.away, c.marked
			inBubble(t, func(t *testing.T, c *cluster) {
				s1 := c.session("session-1", true)
				b := c.data("data-2")
				if !first {
					c.stable(1, lostLeader)
				}
				s1.watch(t.Context(), b)
				if away {
					s2 := c.session("session-2", true)
					s2.watch(t.Context(), b)
					s2.kill()
					c.evict("session-2")
				}
				time.Sleep(5 * time.Second)
				if first {
					c.make(1)
				} else {
					c.crash(0, b.id)
				}
				eventually(t, time.Second, "b serves", func() bool { return b.state(0) == slot.Serving })
				f, _, err := s1.fetch(s1.learn(0), dataIDIn(0, 1))
				require.NoError(t, err)
				assert.Equal(t, marked, f.GetUnconfirmedMs() > 0)
			})
		})
	}
}

// A follower that is promoted after a crash has its leader's marks, too.
func TestMarks_AreInSnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, s1 := c.source("data-1"), c.session("session-1", true)
		b := c.data("data-2")
		e1 := c.stable(1, a.id, b.id)
		marked := whole(e1, 5)
		marked.UnconfirmedMs = 9000
		a.events <- marked
		eventually(t, time.Second, "caught up", func() bool { return b.state(0) == slot.CaughtUp })
		c.crash(0, b.id)
		eventually(t, time.Second, "serving", func() bool { return b.state(0) == slot.Serving })
		f, _, err := s1.fetch(s1.learn(0), dataIDIn(0, 1))
		require.NoError(t, err)
		assert.InDelta(t, 8000, f.GetUnconfirmedMs(), 1000)
		assert.Equal(t, f.GetDatum().GetVersion(), f.GetUnexplainedVersion())
	})
}

// A follower has no news of its leader's marks after its snapshot. While no
// session lives it keeps them as its leader does: both know the member list.
func TestMarks_OfAFollowerOutlastAnOutageOfAllSessions(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a := c.source("data-1")
		b := c.data("data-2")
		e1 := c.stable(1, a.id, b.id)
		marked := whole(e1, 5)
		marked.UnconfirmedMs, marked.IncompleteMs = 9000, 9000
		a.events <- marked
		eventually(t, time.Second, "caught up", func() bool { return b.state(0) == slot.CaughtUp })
		for range 60 {
			time.Sleep(time.Second)
			a.events <- &wirev1.ReplicateEvent{LeaderEpoch: wire.EpochOut(e1), From: 5, Position: 5, Beat: true}
		}
		s1 := c.session("session-1", true)
		time.Sleep(time.Second)
		c.crash(0, b.id)
		eventually(t, 5*time.Second, "serving", func() bool { return b.state(0) == slot.Serving })
		f, _, err := s1.fetch(s1.learn(0), dataIDIn(0, 1))
		require.NoError(t, err)
		assert.Greater(t, f.GetIncompleteMs(), int64(12_000))
	})
}
