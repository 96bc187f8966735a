package meta_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/wire"
)

// lost returns the sessions that the leader has published as lost.
func (c *cluster) lost() []conclave.NodeID {
	out := []conclave.NodeID{}
	for _, m := range c.leader().View().State().Members.Lost {
		out = append(out, m.Node)
	}
	return out
}

// A session whose lease runs out may be alive: the list names it until it joins
// again, leaves, or is replaced, under later leaders as well.
func TestLostSession_IsPublishedUntilItIsAccountedFor(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(1, 5)
		gone := func(name string) {
			c.eventually(10*time.Second, func() bool { _, found := c.nodeInfo(name); return !found })
		}
		s1, s2, s4 := c.nodes["session-1"], c.nodes["session-2"], c.nodes["session-4"]
		s1.mute()
		gone("session-1")
		s2.mute()
		gone("session-2")
		assert.Equal(t, []conclave.NodeID{s1.id, s2.id}, c.lost())
		c.kill("session-3")
		gone("session-3")
		assert.Equal(t, []conclave.NodeID{s1.id, s2.id}, c.lost(), "a session whose address refuses dials is dead")
		c.nodes["data-1"].mute()
		gone("data-1")
		assert.Equal(t, []conclave.NodeID{s1.id, s2.id}, c.lost(), "what a data node had is with the sessions")

		for _, name := range c.metaNames() {
			c.net.Cut(name, "session-4")
			c.net.Cut("session-4", name)
		}
		gone("session-4")
		assert.Equal(t, []conclave.NodeID{s1.id, s2.id, s4.id}, c.lost())
		term := c.term()
		c.kill(c.leader().id.Name)
		c.leaderAfter(term)
		_, err := c.admin.SetSwitch(t.Context(), wire.SwitchStopPush, "off") // answered after the warm-up
		require.NoError(t, err)
		assert.Equal(t, []conclave.NodeID{s1.id, s2.id, s4.id}, c.lost(), "the next leader reads them")

		for _, name := range c.metaNames() {
			c.net.Heal(name, "session-4")
			c.net.Heal("session-4", name)
		}
		c.eventually(10*time.Second, func() bool { _, found := c.nodeInfo("session-4"); return found })
		assert.Equal(t, []conclave.NodeID{s1.id, s2.id}, c.lost(), "it has joined again")
		require.NoError(t, s2.Leave(t.Context()))
		assert.Equal(t, []conclave.NodeID{s1.id}, c.lost(), "it has left")
		c.kill("session-1")
		require.NoError(t, c.startNode("session-1", conclave.RoleSession).WaitRegistered(t.Context()))
		assert.Empty(t, c.lost(), "another incarnation has its name")
	})
}

// A session that was lost while there was no leader is lost, too.
func TestLostSession_FoundByTheWarmUp(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(1, 2)
		for _, name := range c.metaNames() {
			c.net.Cut(name, "session-1")
			c.net.Cut("session-1", name)
		}
		term := c.term()
		c.kill(c.leader().id.Name)
		c.leaderAfter(term)
		_, err := c.admin.SetSwitch(t.Context(), wire.SwitchStopPush, "off") // answered after the warm-up
		require.NoError(t, err)
		assert.Equal(t, []conclave.NodeID{c.nodes["session-1"].id}, c.lost())
	})
}
