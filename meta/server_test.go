package meta_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/wire"
)

func TestStart_ServesAllSlotsWithinASecond(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		start := time.Now()
		c.startNodes(3, 2)
		assert.Less(t, time.Since(start), time.Second, "from the first node's start to all slots served")
		slots, _ := c.stable(time.Second)
		assert.Len(t, slots.Slots, 16)
		leads := map[string]int{}
		for _, s := range slots.Slots {
			leads[s.Leader]++
			assert.Len(t, s.Followers, 1)
		}
		assert.Len(t, leads, 3)
	})
}

func TestKilledLeader_AllNodesFollowTheNext(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 2)
		before, _ := c.stable(time.Second)
		for range 3 {
			old := c.leader()
			term := c.term()
			start := time.Now()
			c.kill(old.id.Name)
			took := c.eventually(5*time.Second, func() bool {
				for _, n := range c.nodes {
					if l, ok := n.Leader(); !ok || l.Term <= term {
						return false
					}
				}
				return true
			})
			t.Log("all follow after", took)
			assert.Less(t, time.Since(start), 100*time.Millisecond)
			next := c.leaderAfter(term)
			assert.NotEqual(t, old.id.Name, next.id.Name)

			c.startMeta(old.id.Name)
			after, _ := c.stable(10 * time.Second)
			assert.Less(t, before.Epoch.Term, after.Epoch.Term, "the new term has sealed the table")
			for i := range after.Slots {
				assert.Equal(t, before.Slots[i].LeaderEpoch, after.Slots[i].LeaderEpoch, "no slot has moved")
			}
			for _, n := range c.nodes {
				assert.True(t, n.Registered())
			}
			time.Sleep(2 * time.Second)
		}
		list, err := c.admin.Elections(t.Context())
		require.NoError(t, err)
		assert.Len(t, list, 4)
		assert.Equal(t, "killed", list[0].Cause)
		assert.Equal(t, "first", list[3].Cause)
		assert.Less(t, list[0].LeaderlessMs, int64(100))
		assert.Equal(t, list[1].Owner, list[0].Previous)
	})
}

func TestKilledDataNode_IsReplacedWithinASecond(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 2)
		start := time.Now()
		c.kill("data-2")
		c.eventually(2*time.Second, func() bool { return c.servedWithout("data-2") })
		t.Log("served again after", time.Since(start))
		assert.Less(t, time.Since(start), 300*time.Millisecond)
		assert.True(t, c.has("node.suspect"))
		assert.True(t, c.has("node.evicted"))
		slots, _ := c.admin.Slots(t.Context())
		assert.False(t, slots.Protected)

		require.NoError(t, c.startNode("data-2", conclave.RoleData).WaitRegistered(t.Context()))
		slots, _ = c.stable(10 * time.Second)
		led := 0
		for _, s := range slots.Slots {
			if s.Leader == "data-2" {
				led++
			}
		}
		assert.NotZero(t, led, "it has slots again")
	})
}

func TestBlacklist_DrainsADataNode(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 1)
		require.NoError(t, drained(c.nodes["data-1"].Drain(t.Context(), "stop")))
		c.eventually(5*time.Second, func() bool { return c.servedWithout("data-1") })
		n, _ := c.nodeInfo("data-1")
		assert.Equal(t, metaclient.NodeDraining, n.State)

		// No other node is left for the last one.
		require.NoError(t, c.admin.Forbid(t.Context(), "data-2", "test", "me"))
		err := c.admin.Forbid(t.Context(), "data-3", "test", "me")
		assert.Equal(t, wire.CodeNoSuccessor, wire.CodeOf(err))
		err = drained(c.nodes["data-3"].Drain(t.Context(), "stop"))
		assert.Equal(t, wire.CodeNoSuccessor, wire.CodeOf(err))

		list, err := c.admin.Blacklist(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 2)
		assert.Equal(t, "data-1", list[0].By)
		assert.Equal(t, "me", list[1].By)
		n, _ = c.nodeInfo("data-2")
		assert.Equal(t, metaclient.NodeBlacklisted, n.State)

		// A restart removes the node's own entry, not the operator's.
		c.kill("data-1")
		again := c.startNode("data-1", conclave.RoleData)
		require.NoError(t, again.WaitRegistered(t.Context()))
		require.NoError(t, again.Restore(t.Context()))
		require.NoError(t, c.nodes["data-2"].Restore(t.Context()))
		list, err = c.admin.Blacklist(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.NoError(t, c.admin.Allow(t.Context(), "data-2"))
		c.stable(10 * time.Second)
		assert.Equal(t, wire.CodeNotFound, wire.CodeOf(c.admin.Allow(t.Context(), "data-2")))
		assert.Equal(t, wire.CodeNotFound, wire.CodeOf(c.admin.Forbid(t.Context(), "data-9", "", "")))
	})
}

// A calm cluster writes almost nothing, neither to the log nor to the database.
func TestCalmCluster_LogsAndWritesAlmostNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 2)
		time.Sleep(5 * time.Second)
		statements := func() (n uint64) {
			for _, m := range c.metas {
				n += m.sent()
			}
			return n
		}
		lines, sent, tables := c.lines.Load(), statements(), c.leader().View().TableEpoch()
		time.Sleep(5 * time.Minute)
		assert.Equal(t, lines, c.lines.Load(), "log lines")
		perSecond := float64(statements()-sent) / (5 * 60)
		t.Logf("%.2f statements a second", perSecond)
		assert.Less(t, perSecond, 5.0)
		assert.Equal(t, tables, c.leader().View().TableEpoch())
	})
}
