package meta_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/wire"
)

// The last session that takes clients can be drained neither by an operator nor by
// its own stop, and another one counts only while it takes clients itself.
func TestDrain_OfTheLastSessionIsRefused(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(2, 2)
		require.NoError(t, c.admin.Forbid(t.Context(), "session-1", "test", "me"))
		assert.Equal(t, wire.CodeNoSuccessor, wire.CodeOf(c.admin.Forbid(t.Context(), "session-2", "test", "me")))
		assert.Equal(t, wire.CodeNoSuccessor, wire.CodeOf(c.nodes["session-2"].Drain(t.Context(), "stop")))

		n, _ := c.nodeInfo("session-1")
		assert.True(t, n.Last, "this node reports that it serves")
		third := c.startNode("session-3", conclave.RoleSession)
		require.NoError(t, third.WaitRegistered(t.Context()))
		third.mu.Lock()
		third.draining = true
		third.mu.Unlock()
		third.Poke()
		c.eventually(time.Second, func() bool {
			m, ok := c.nodes["data-1"].view.State().Members.Find("session-3")
			return ok && m.Draining
		})
		assert.Equal(t, wire.CodeNoSuccessor, wire.CodeOf(c.nodes["session-2"].Drain(t.Context(), "stop")), "the third one drains")

		require.NoError(t, c.admin.Allow(t.Context(), "session-1"))
		require.NoError(t, c.nodes["session-2"].Drain(t.Context(), "stop"))
	})
}
