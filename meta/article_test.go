package meta_test

import (
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Article 000: Meta is the registry of session and data: it knows them all.
func TestArticleMetaKnowsSessionsAndData(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 2)
		for role, want := range map[conclave.Role]int{conclave.RoleMeta: 3, conclave.RoleData: 3, conclave.RoleSession: 2} {
			list, err := c.admin.Nodes(t.Context(), role)
			require.NoError(t, err)
			assert.Len(t, list, want)
			for _, n := range list {
				assert.Equal(t, metaclient.NodeUp, n.State)
			}
		}
	})
}

// Article 000: Three nodes; kill the leader: one follower wins with term + 1,
// the other does not; kill that one, too: the last node leads, with term + 1.
func TestArticleKillTheLeaderTwice(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		led := map[string]bool{}
		for want := uint64(1); want <= 3; want++ {
			leader := c.leaderAfter(want - 1)
			require.Equal(t, want, c.term())
			assert.False(t, led[leader.id.Name], "%s leads for the first time", leader.id.Name)
			led[leader.id.Name] = true
			if want < 3 {
				time.Sleep(2 * time.Second)
				c.kill(leader.id.Name)
			}
		}
		assert.Len(t, led, 3)
	})
}

// Article 000: An observer only reads.
func TestArticleAnObserverNeverLeads(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		for _, name := range c.metaNames() {
			if name != leader.id.Name {
				c.eventually(time.Second, func() bool {
					_, known := c.nodeInfo(name)
					return known && c.metas[name].Elector().Current().Leader == leader.id
				})
				require.NoError(t, c.admin.Quit(t.Context(), name))
			}
		}
		c.kill(leader.id.Name)
		time.Sleep(time.Minute)
		_, err := c.admin.Leader(t.Context())
		assert.Equal(t, wire.CodeNoLeader, wire.CodeOf(err))
		for _, m := range c.metas {
			require.NoError(t, m.Elector().JoinElection(t.Context()))
		}
		c.leaderAfter(1)
	})
}

// Article 002: Heartbeats renew leases, and the answer carries the versioned
// lists of sessions and data nodes.
func TestArticleBeatsRenewAndCarryVersionedLists(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(2, 1)
		time.Sleep(time.Minute) // twenty leases
		n := c.nodes["session-1"]
		epoch := n.view.State().Members.Epoch
		assert.Len(t, n.view.State().Members.List, 3)
		info, _ := c.nodeInfo("data-1")
		assert.Greater(t, info.LeaseRemainingMs, int64(1500))

		c.startNode("session-2", conclave.RoleSession)
		c.eventually(time.Second, func() bool { return len(n.view.State().Members.List) == 4 })
		assert.True(t, epoch.Less(n.view.State().Members.Epoch))
	})
}

// Article 002: A handler, for sessions and data alike, adds an address to the
// blacklist or removes it.
func TestArticleBlacklistHandlerForBothRoles(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 2)
		for _, name := range []string{"data-1", "session-1"} {
			n := c.nodes[name]
			require.NoError(t, drained(n.Drain(t.Context(), "stop")))
			c.eventually(time.Second, func() bool {
				m, _ := n.view.State().Members.Find(name)
				return m.Draining && n.view.State().Blacklist.Entries.Has(name)
			})
			// A second request changes nothing.
			epoch := n.view.State().Blacklist.Epoch
			require.NoError(t, drained(n.Drain(t.Context(), "stop")))
			time.Sleep(2 * time.Second)
			assert.Equal(t, epoch, n.view.State().Blacklist.Epoch)

			// It is removed again, and the node is used again.
			require.NoError(t, c.admin.Allow(t.Context(), name))
			c.eventually(time.Second, func() bool {
				m, _ := n.view.State().Members.Find(name)
				return !m.Draining && len(n.view.State().Blacklist.Entries) == 0
			})
			if name == "data-1" {
				c.eventually(10*time.Second, func() bool { return len(n.view.Table().LedBy(n.id)) > 0 })
			}
		}
	})
}

// Article 002: Slots leave one by one while the leaving node still serves: a
// follower is promoted, then the next; at last the node is off the list. Here:
// at no moment of a drain is a slot without a node that answers for it, and the
// drained node is never a slot's only copy.
func TestArticleSlotsLeaveWhileTheNodeServes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 1)
		before := len(c.eventsOf("slot.table"))
		require.NoError(t, drained(c.nodes["data-1"].Drain(t.Context(), "stop")))
		c.eventually(5*time.Second, func() bool { return c.servedWithout("data-1") })
		var steps string
		for _, e := range c.eventsOf("slot.table")[before:] {
			steps += e.Text + "; "
		}
		for _, step := range []string{"prepared", "switched", "settled"} {
			assert.Contains(t, steps, step)
		}
		assert.NotContains(t, steps, "granted", "no slot was torn away")
	})
}

// Article 002: When meta changes the table it sends it to the nodes; two tables
// coexist for at most about a second. Here every change goes down the streams
// at once.
func TestArticleTwoTablesCoexistBriefly(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 2)
		c.kill("data-3")
		c.eventually(5*time.Second, func() bool { return c.servedWithout("data-3") })
		took := c.eventually(time.Second, func() bool {
			newest := c.leader().View().TableEpoch()
			for _, n := range c.nodes {
				if n.view.TableEpoch() != newest {
					return false
				}
			}
			return true
		})
		assert.Less(t, took, 10*time.Millisecond)
		synctest.Wait() // the last of them has reported it
		slots, err := c.admin.Slots(t.Context())
		require.NoError(t, err)
		assert.Empty(t, slots.Behind)
		assert.Less(t, slots.SpreadMs, int64(10), "and it is shown")
	})
}

// Article 002 (with the invariant that a blacklisted node is given no slot): a
// data node that comes back while an operator forbids it stays empty.
func TestArticleAForbiddenNodeIsGivenNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 0)
		require.NoError(t, c.admin.Forbid(t.Context(), "data-2", "broken disk", "me"))
		c.eventually(5*time.Second, func() bool { return c.servedWithout("data-2") })
		c.kill("data-2")
		again := c.startNode("data-2", conclave.RoleData)
		require.NoError(t, again.WaitRegistered(t.Context()))
		require.NoError(t, again.Restore(t.Context()))
		time.Sleep(10 * time.Second)
		assert.Empty(t, again.view.Table().HeldBy(again.id))
	})
}

// What a follower is asked it does not answer itself: it names the leader
// (article 000: followers only know the leader).
func TestArticleAFollowerNamesTheLeader(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		leader, follower := c.leader(), c.someFollower()
		c.eventually(time.Second, func() bool { return follower.Elector().Current().Leader == leader.id })
		_, err := c.peers.Meta(follower.Address()).Leave(t.Context(), connect.NewRequest(&wirev1.LeaveRequest{}))
		var refusal *wire.Error
		require.ErrorAs(t, wire.FromConnect(err), &refusal)
		assert.Equal(t, wire.CodeNotLeader, refusal.Code)
		assert.Equal(t, leader.id.Name, refusal.Leader)
		assert.Equal(t, leader.Address(), refusal.Address)
		res, err := c.peers.Meta(follower.Address()).GetLeader(t.Context(), connect.NewRequest(&wirev1.GetLeaderRequest{}))
		require.NoError(t, err)
		assert.False(t, res.Msg.GetSelf())
		assert.Equal(t, leader.Address(), res.Msg.GetAddress())
	})
}

// drained returns the error of a drain.
func drained(_ conclave.Epoch, err error) error { return err }
