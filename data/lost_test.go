package data_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/slot"
)

// A session that was cut off from the meta leader alone is off the member list.
// A data node that joined after that, and has no copy, asks it all the same:
// nothing else has what its clients registered.
func TestLostSession_SlotWithoutCopyAsksIt(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1, s2 := c.session("session-1", true), c.session("session-2", true)
		p := pub(dataIDIn(0, 1), "r1", 1, "v1")
		s2.put(p)
		c.stable(1, lostLeader)
		c.lose("session-2")
		a := c.data("data-1")
		assert.Less(t, served(t, c, a, 10*time.Second), 100*time.Millisecond)
		values, ok := s1.read(p.DataInfoId)
		require.True(t, ok)
		assert.Equal(t, p.Values, values)
		f, _, err := s1.fetch(s1.learn(0), p.DataInfoId)
		require.NoError(t, err)
		assert.Positive(t, f.GetUnconfirmedMs(), "lost sessions that are not on any list may be missing")
	})
}

// A lost session delays a slot for a node lease at most, and not at all if its
// process is known to have ended.
func TestLostSession_IsWaitedForNoLongerThanALease(t *testing.T) {
	for _, x := range []struct {
		name string
		lost func(*cluster, *session)
		from time.Duration
		to   time.Duration
	}{
		{"its port refuses", func(_ *cluster, s *session) { s.kill() }, 0, 500 * time.Millisecond},
		{"another incarnation answers", func(c *cluster, s *session) { s.kill(); c.session("session-2", false) }, 0, 500 * time.Millisecond},
		{"it is silent", func(_ *cluster, s *session) { s.silence() }, 2900 * time.Millisecond, 3100 * time.Millisecond},
		{"no answer to the dial", func(c *cluster, s *session) { c.net.Cut("data-1", "session-2"); c.net.Cut("session-2", "data-1") }, 2900 * time.Millisecond, 3100 * time.Millisecond},
	} {
		t.Run(x.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				c.session("session-1", true)
				s2 := c.session("session-2", true)
				c.stable(1, lostLeader)
				c.lose("session-2")
				x.lost(c, s2)
				a := c.data("data-1")
				took := served(t, c, a, 10*time.Second)
				assert.GreaterOrEqual(t, took, x.from)
				assert.LessOrEqual(t, took, x.to)
				assert.Empty(t, partial(a))
			})
		})
	}
}

// The lease counts from the grant: a member that was silent and is then lost
// has used it up.
func TestLostSession_WaitBeginsWithTheGrant(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.session("session-1", true)
		s2, a := c.session("session-2", true), c.data("data-1")
		c.stable(1, lostLeader)
		s2.silence()
		c.crash(0, a.id)
		never(t, 5*time.Second, "served without session-2", func() bool { return a.state(0) == slot.Serving })
		c.lose("session-2")
		eventually(t, 2*time.Second, "served", func() bool { return a.state(0) == slot.Serving })
	})
}

// A node with a complete copy waits for members only.
func TestLostSession_SlotWithCopyDoesNotWaitForIt(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		source := c.source("data-1")
		c.session("session-1", true)
		s2 := c.session("session-2", true)
		s2.silence()
		c.lose("session-2")
		b := c.data("data-2")
		e := c.stable(1, source.id, b.id)
		source.events <- whole(e, 5)
		eventually(t, time.Second, "caught up", func() bool { return b.state(0) == slot.CaughtUp })
		assert.Less(t, served(t, c, b, 10*time.Second), 100*time.Millisecond)
		assert.Equal(t, []conclave.NodeID(nil), partial(b))
		assert.Zero(t, s2.asked())
	})
}

// What a session reports as pushed may be what one of its clients claims: a
// new leader's versions begin one base above its own at most.
func TestServe_ClaimsOfSessionsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s := c.session("session-1", true)
		p := pub(dataIDIn(0, 1), "r1", 1, "v1")
		s.put(p)
		s.pushed = 1 << 52
		c.stable(1, lostLeader)
		a := c.data("data-1")
		served(t, c, a, 10*time.Second)
		f, _, err := s.fetch(s.learn(0), p.DataInfoId)
		require.NoError(t, err)
		base := c.table().Slots[0].VersionBase
		assert.Greater(t, f.GetDatum().GetVersion(), base)
		assert.LessOrEqual(t, f.GetDatum().GetVersion(), base+conclave.VersionBase+2)
	})
}
