package meta_test

import (
	"context"
	"testing"
	"time"

	"github.com/gorilla/mux"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/wire"
	"conclave/wire/serve"
	"conclave/wire/v1/wirev1connect"
)

func TestMetaOutage_MembersAndTableStay(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 2)
		before, _ := c.stable(time.Second)
		for _, name := range c.metaNames() {
			c.kill(name)
		}
		time.Sleep(3 * time.Minute)
		for _, n := range c.nodes {
			assert.Equal(t, before.Epoch, n.view.TableEpoch(), "a meta outage changes nothing")
			assert.Greater(t, n.LostFor(), 2*time.Minute)
		}
		for _, name := range c.metaNames() {
			c.startMeta(name)
		}
		c.leader()
		after, _ := c.stable(10 * time.Second)
		for i := range after.Slots {
			assert.Equal(t, before.Slots[i].LeaderEpoch, after.Slots[i].LeaderEpoch)
		}
		nodes, err := c.admin.Nodes(t.Context(), "")
		require.NoError(t, err)
		assert.Len(t, nodes, 8)
		assert.False(t, c.has("node.joined"), "no node had to join again")
		assert.False(t, c.has("node.lost"))
	})
}

func TestJoin_NameBelongsToTheLivingProcess(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(2, 1)
		second := c.startNodeOn("elsewhere", "data-1", conclave.RoleData)
		err := <-second.err
		second.err <- err
		assert.Equal(t, wire.CodeConflict, wire.CodeOf(err))
		assert.ErrorContains(t, err, "data-1:9000")
		assert.True(t, c.nodes["data-1"].Registered())

		// The leader's own name, and that of a meta that follows it, are taken, too.
		leader := c.leader().id.Name
		third := c.startNodeOn("elsewhere-2", leader, conclave.RoleData)
		err = <-third.err
		third.err <- err
		assert.Equal(t, wire.CodeConflict, wire.CodeOf(err))

		// Once the first process is dead the name is free for a new incarnation
		// elsewhere.
		c.kill("data-1")
		again := c.startNodeOn("elsewhere-3", "data-1", conclave.RoleData)
		require.NoError(t, again.WaitRegistered(t.Context()))
		slots, _ := c.stable(10 * time.Second)
		assert.False(t, slots.Protected)
		m, _ := c.leader().View().State().Members.Find("data-1")
		assert.Equal(t, again.id, m.Node)
		assert.Equal(t, "elsewhere-3:9000", m.Address)
	})
}

func TestSilentNode_StaysUntilItsLeaseExpires(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(2, 0)
		c.nodes["data-1"].mute() // its port answers: it is suspect, not evicted
		start := time.Now()
		c.eventually(10*time.Second, func() bool { _, found := c.nodeInfo("data-1"); return !found })
		assert.InDelta(t, 3*time.Second, time.Since(start), float64(1100*time.Millisecond))
		assert.True(t, c.has("node.lost"))
		assert.False(t, c.has("node.evicted"))
	})
}

// A node that the leader cannot dial at its advertised address is not admitted:
// it receives the address and the reason, tries again, and joins once it can be
// dialed.
func TestNodeThatCannotBeDialledIsRefused(t *testing.T) {
	for _, role := range []conclave.Role{conclave.RoleSession, conclave.RoleData} {
		t.Run(string(role), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				c.startNodes(2, 1)
				n := c.startNode("wrong-1", role, func(cfg *metaclient.Config) { cfg.Self.Address = "elsewhere:9000" })
				c.eventually(5*time.Second, func() bool { return n.Refusal() != nil })
				assert.ErrorContains(t, n.Refusal(), "wrong-1 advertises elsewhere:9000")
				time.Sleep(10 * time.Second)
				_, found := c.leader().View().State().Members.Find("wrong-1")
				assert.False(t, found)
				assert.False(t, n.Registered())
				assert.Len(t, c.eventsOf("node.refused"), 1, "it is logged once, however often the node tries")

				// Now it can be reached there.
				ln, err := c.net.Host("elsewhere").Listen(t.Context(), "tcp", ":9000")
				require.NoError(t, err)
				r := mux.NewRouter()
				path, h := wirev1connect.NewNodeServiceHandler(metaclient.NewNodeService(n.id, role, n.view, n.fence, n.Announced), serve.HandlerOptions(&wire.Interceptor{}))
				serve.Mount(r, path, h)
				server, served := serve.NewHTTPServer(ln, r, wire.PingTimeout), make(chan struct{})
				go func() { defer close(served); _ = server.Serve() }()
				t.Cleanup(func() { server.Close(); <-served })
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				require.NoError(t, n.WaitRegistered(ctx))
				assert.NoError(t, n.Refusal())

				// A member stays one, also under the next leader, when what is sent
				// to it is lost. (A port that refuses is evidence of its end.)
				for _, name := range c.metaNames() {
					c.net.Cut(name, "elsewhere")
				}
				c.kill(c.leader().id.Name)
				time.Sleep(10 * time.Second)
				_, found = c.leader().View().State().Members.Find("wrong-1")
				assert.True(t, found)
				assert.NoError(t, n.Refusal())
			})
		})
	}
}

func TestLeave_IsNotCountedAsALoss(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(4, 1)
		for _, name := range []string{"data-3", "data-4"} {
			n := c.nodes[name]
			n.mute()
			require.NoError(t, n.Leave(t.Context()))
			_, found := c.leader().View().State().Members.Find(name)
			assert.False(t, found, "the list without it was written before the answer")
			n.stop()
		}
		slots, _ := c.stable(10 * time.Second)
		assert.False(t, slots.Protected)
		assert.Len(t, c.eventsOf("node.left"), 2)
	})
}

func TestProtection_BeginsWhenManyNodesAreLost(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 1)
		before, _ := c.stable(10 * time.Second)
		c.kill("data-1")
		time.Sleep(3 * time.Millisecond) // one after the other: the first loss must not move slots to the second node
		c.kill("data-2")
		c.eventually(5*time.Second, func() bool {
			s, err := c.admin.Slots(t.Context())
			return err == nil && s.Protected
		})
		frozen, _ := c.admin.Slots(t.Context())
		assert.Contains(t, frozen.Reason, "data-1")
		assert.Equal(t, before.Slots, frozen.Slots, "no slot was granted to a node that was about to be found dead")
		time.Sleep(time.Minute)
		still, _ := c.admin.Slots(t.Context())
		assert.Equal(t, frozen.Slots, still.Slots, "no slot moves, however long")

		// Protection outlives the leader.
		term := c.term()
		c.kill(c.leader().id.Name)
		c.leaderAfter(term)
		still, _ = c.admin.Slots(t.Context())
		assert.True(t, still.Protected)

		// One of them comes back and gets its slots, and after one lease with
		// enough nodes slots move again.
		c.startNode("data-1", conclave.RoleData)
		start := time.Now()
		c.eventually(10*time.Second, func() bool {
			s, err := c.admin.Slots(t.Context())
			return err == nil && !s.Protected
		})
		assert.GreaterOrEqual(t, time.Since(start), 2900*time.Millisecond)
		after, _ := c.stable(10 * time.Second)
		for _, s := range after.Slots {
			assert.NotEqual(t, "data-2", s.Leader)
		}
	})
}

func TestProtection_HasAFloorAndEndsByHand(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 0)
		_, err := c.admin.SetSwitch(t.Context(), wire.SwitchProtectionFloor, "3")
		require.NoError(t, err)
		c.kill("data-3")
		c.eventually(5*time.Second, func() bool {
			s, err := c.admin.Slots(t.Context())
			return err == nil && s.Protected
		})
		_, err = c.admin.SetSwitch(t.Context(), wire.SwitchProtectionFloor, "0")
		require.NoError(t, err)
		require.NoError(t, c.admin.EndProtection(t.Context()))
		c.stable(5 * time.Second)
	})
}

func TestRestartedNode_IsANewOwner(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(2, 0)
		before, _ := c.stable(time.Second)
		c.kill("data-1")
		again := c.startNode("data-1", conclave.RoleData)
		require.NoError(t, again.WaitRegistered(t.Context()))
		c.eventually(5*time.Second, func() bool { return len(again.view.Table().LedBy(again.id)) > 0 })
		after, _ := c.stable(10 * time.Second)
		for i, s := range before.Slots {
			if s.Leader == "data-1" {
				assert.True(t, s.LeaderEpoch.Less(after.Slots[i].LeaderEpoch), "slot %d has a new leader epoch", i)
			}
		}
	})
}

func TestJoin_RefusesAnotherDataCenter(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		n := c.startNode("data-1", conclave.RoleData, func(cfg *metaclient.Config) { cfg.DataCenter = "elsewhere" })
		err := <-n.err
		n.err <- err
		assert.Equal(t, wire.CodeBadRequest, wire.CodeOf(err))
		assert.ErrorContains(t, err, `data center "elsewhere"`)
	})
}
