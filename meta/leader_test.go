package meta_test

import (
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/meta"
	"conclave/meta/metaclient"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// someFollower returns a meta that does not lead.
func (c *cluster) someFollower() *metaNode {
	leader := c.leader()
	for _, name := range c.metaNames() {
		if m := c.metas[name]; m != nil && m != leader {
			return m
		}
	}
	c.t.Fatal("there is no follower")
	return nil
}

func TestAdmin_EveryMetaAnswers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(2, 1)
		follower := c.someFollower()
		ask := metaclient.NewAdmin(metaclient.AdminConfig{Metas: []string{follower.Address()}, HTTP: c.peers.HTTP()})
		nodes, err := ask.Nodes(t.Context(), conclave.RoleData)
		require.NoError(t, err)
		assert.Len(t, nodes, 2, "the query came through")
		sw, err := ask.SetSwitch(t.Context(), wire.SwitchPushWindow, "25")
		require.NoError(t, err)
		assert.Equal(t, wire.Switch{Key: wire.SwitchPushWindow, Value: "25", Version: 1}, sw)
		_, err = ask.SetSwitch(t.Context(), wire.SwitchPushWindow, "soon")
		assert.Equal(t, wire.CodeBadRequest, wire.CodeOf(err))
		_, err = ask.SetSwitch(t.Context(), "nope", "1")
		assert.Equal(t, wire.CodeNotFound, wire.CodeOf(err))
		c.eventually(time.Second, func() bool {
			for _, n := range c.nodes {
				if n.view.State().Switches.Get(wire.SwitchPushWindow, "") != "25" {
					return false
				}
			}
			return true
		})

		status := func(m *metaNode, path string, proxied bool) int {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+m.Address()+path, nil)
			require.NoError(t, err)
			if proxied {
				req.Header.Set("Conclave-Proxied", "meta-9")
			}
			res, err := c.peers.HTTP().Do(req)
			require.NoError(t, err)
			res.Body.Close()
			return res.StatusCode
		}
		assert.Equal(t, http.StatusOK, status(c.leader(), "/leaderz", false))
		assert.Equal(t, http.StatusServiceUnavailable, status(follower, "/leaderz", false))
		assert.Equal(t, http.StatusOK, status(follower, "/readyz", false))
		assert.Equal(t, http.StatusOK, status(follower, "/v1/slots", false))
		assert.Equal(t, http.StatusServiceUnavailable, status(follower, "/v1/slots", true), "a forwarded request is not forwarded again")
	})
}

// With the profile sofa a leader decides nothing for 30 s.
func TestProxy_WaitsAsLongAsACommand(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		leader, follower := c.leader(), c.someFollower()
		c.eventually(time.Second, func() bool { return follower.Elector().Current().Leader == leader.id }) // to which it forwards
		ask := metaclient.NewAdmin(metaclient.AdminConfig{Metas: []string{follower.Address()}, HTTP: c.peers.HTTP()})
		start := time.Now()
		_, err := ask.SetSwitch(t.Context(), wire.SwitchPushWindow, "25")
		require.NoError(t, err)
		assert.Greater(t, time.Since(start), 20*time.Second, "it waited for the end of the warm-up")
	}, func(cfg *meta.Config) { cfg.NodeLease, cfg.WarmUp = 20*time.Second, 30*time.Second })
}

func TestReadyz_ReportsThatNoLeaderIsKnown(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.net.Kill("db")
		c.eventually(10*time.Second, func() bool {
			_, err := c.admin.Leader(t.Context())
			return wire.CodeOf(err) == wire.CodeNoLeader
		})
		for _, m := range c.metas {
			c.eventually(time.Second, func() bool {
				res, err := c.peers.HTTP().Get("http://" + m.Address() + "/readyz")
				require.NoError(t, err)
				res.Body.Close()
				return res.StatusCode == http.StatusServiceUnavailable
			})
		}
	})
}

func TestDatabaseOutage_MovesNoSlot(t *testing.T) {
	file := t.TempDir() + "/db.sql"
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		// The database of this test is a file: the server is started twice.
		c.net.Kill("db")
		c.serveDB(file)
		require.NoError(t, c.db.Migrate(t.Context(), lock))
		c.leaderAfter(0)
		c.startNodes(3, 1)
		before, _ := c.stable(10 * time.Second)
		c.net.Kill("db")
		time.Sleep(25 * time.Second)
		for _, n := range c.nodes {
			assert.Equal(t, before.Epoch, n.view.TableEpoch())
		}
		c.serveDB(file)
		took := c.eventually(10*time.Second, func() bool { _, err := c.admin.Leader(t.Context()); return err == nil })
		assert.LessOrEqual(t, took, 3100*time.Millisecond)
		after, _ := c.stable(10 * time.Second)
		for i := range after.Slots {
			assert.Equal(t, before.Slots[i].LeaderEpoch, after.Slots[i].LeaderEpoch)
		}
		assert.False(t, c.has("node.lost"))
	})
}

func TestResign_Quit_Rejoin(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(2, 1)
		old := c.leader()
		term := c.term()
		start := time.Now()
		require.NoError(t, c.admin.Resign(t.Context()))
		next := c.leaderAfter(term)
		assert.NotEqual(t, old.id, next.id)
		assert.Less(t, time.Since(start), 50*time.Millisecond)
		assert.True(t, c.has("leader.resigned"))
		c.eventually(time.Second, func() bool { // the record is written beside the leadership
			list, err := c.admin.Elections(t.Context())
			return err == nil && list[0].Cause == "resigned"
		})

		// A meta on the blacklist resigns and observes; the last candidate cannot
		// be put there.
		term = c.term()
		require.NoError(t, c.admin.Forbid(t.Context(), next.id.Name, "maintenance", "me"))
		third := c.leaderAfter(term)
		assert.NotEqual(t, next.id, third.id)
		c.eventually(time.Second, func() bool { n, ok := c.nodeInfo(next.id.Name); return ok && n.Observer })
		n, _ := c.nodeInfo(next.id.Name)
		assert.Equal(t, metaclient.NodeBlacklisted, n.State)
		var other string
		for name := range c.metas {
			if name != next.id.Name && name != third.id.Name {
				other = name
			}
		}
		require.NoError(t, c.admin.Quit(t.Context(), other))
		c.eventually(time.Second, func() bool { n, ok := c.nodeInfo(other); return ok && n.Observer })
		err := c.admin.Forbid(t.Context(), third.id.Name, "", "me")
		assert.Equal(t, wire.CodeNoSuccessor, wire.CodeOf(err))
		require.NoError(t, c.admin.Rejoin(t.Context(), other))
		require.NoError(t, c.admin.Allow(t.Context(), next.id.Name))
		c.eventually(time.Second, func() bool { n, ok := c.nodeInfo(next.id.Name); return ok && !n.Observer })
		assert.Equal(t, wire.CodeNotFound, wire.CodeOf(c.admin.Quit(t.Context(), "meta-9")))
	})
}

func TestShutdown_HandsTheLeadershipOver(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(2, 1)
		old := c.leader()
		term := c.term()
		start := time.Now()
		require.NoError(t, old.Shutdown(t.Context()))
		<-old.ended
		require.NoError(t, old.err)
		delete(c.metas, old.id.Name)
		c.leaderAfter(term)
		for _, n := range c.nodes {
			require.NoError(t, n.WaitRegistered(t.Context()))
		}
		assert.Less(t, time.Since(start), 500*time.Millisecond)
		list, err := c.admin.Elections(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "resigned", list[0].Cause)
		assert.Less(t, list[0].LeaderlessMs, int64(50))
	})
}

func TestAnnounce_OfAnOlderTermIsRefusedAndCounted(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(1, 0)
		n := c.nodes["data-1"]
		c.kill(c.leader().id.Name)
		c.leaderAfter(1)
		c.eventually(time.Second, func() bool { return n.fence.Highest() > 1 })
		_, err := c.peers.Node("data-1:9000").Announce(wire.WithTerm(t.Context(), 1),
			connect.NewRequest(&wirev1.AnnounceRequest{Term: 1, Address: "meta-9:1"}))
		err = wire.FromConnect(err)
		assert.Equal(t, wire.CodeStaleEpoch, wire.CodeOf(err))
		assert.Equal(t, uint64(1), n.fence.Refused())
		l, _ := n.Leader()
		assert.NotEqual(t, "meta-9:1", l.Address)
	})
}

func TestElection_JumpsAboveATermThatWasSeen(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(2, 1)
		c.nodes["data-1"].fence.Saw(40) // of a leader whose database was replaced
		c.nodes["data-1"].Poke()
		c.leaderAfter(40)
		c.stable(10 * time.Second)
		for _, n := range c.nodes {
			c.eventually(time.Second, func() bool { return n.fence.Highest() > 40 })
		}
	})
}

func TestUnreachableLeader_ResignsAndAbstains(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(2, 2)
		term := c.term()
		for _, n := range c.nodes {
			n.mute() // alive, with ports that answer, but no beat reaches the leader
		}
		start := time.Now()
		c.leaderAfter(term)
		assert.InDelta(t, 3*time.Second, time.Since(start), float64(time.Second))
		assert.True(t, c.has("leader.resigned"))
		assert.False(t, c.has("node.lost"), "it removed no node before it resigned")
	})
}

func TestWarmUp_FixedAsInTheOriginal(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		start := time.Now()
		c.startNode("data-1", conclave.RoleData)
		c.startNode("data-2", conclave.RoleData)
		c.stable(time.Minute)
		assert.GreaterOrEqual(t, time.Since(start), 30*time.Second)
	}, func(cfg *meta.Config) { cfg.WarmUp = 30 * time.Second })
}
