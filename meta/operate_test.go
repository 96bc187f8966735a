package meta_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/termcas"
	"conclave/meta"
	"conclave/meta/metaclient"
	conclavesql "conclave/sql"
	"conclave/wire"
)

// The last session that takes clients can be drained neither by an operator nor
// by its own stop. Another session counts only while it takes clients itself.
func TestDrain_OfTheLastSessionIsRefused(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(2, 2)
		require.NoError(t, c.admin.Forbid(t.Context(), "session-1", "test", "me"))
		assert.Equal(t, wire.CodeNoSuccessor, wire.CodeOf(c.admin.Forbid(t.Context(), "session-2", "test", "me")))
		assert.Equal(t, wire.CodeNoSuccessor, wire.CodeOf(drained(c.nodes["session-2"].Drain(t.Context(), "stop"))))

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
		assert.Equal(t, wire.CodeNoSuccessor, wire.CodeOf(drained(c.nodes["session-2"].Drain(t.Context(), "stop"))), "the third one drains")

		require.NoError(t, c.admin.Allow(t.Context(), "session-1"))
		require.NoError(t, drained(c.nodes["session-2"].Drain(t.Context(), "stop")))
	})
}

// Two metas are asked to quit at the same moment; only one may. The leader
// decides both requests, so a candidate always remains.
func TestElectionQuit_LeavesACandidate(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, c *cluster) {
		c.eventually(time.Second, func() bool { n, ok := c.nodeInfo(c.someFollower().id.Name); return ok && !n.Observer })
		leader, follower := c.leader(), c.someFollower()
		for range 10 {
			var asking sync.WaitGroup
			errs := make([]error, 2)
			for i, m := range []*metaNode{leader, follower} {
				asking.Go(func() { errs[i] = c.adminOf(m).Quit(t.Context(), m.id.Name) })
			}
			asking.Wait()
			refused := 0
			for _, err := range errs {
				switch wire.CodeOf(err) {
				case wire.CodeNoSuccessor, wire.CodeNoLeader, wire.CodeConflict:
					refused++
				default:
					require.NoError(t, err)
				}
			}
			assert.Positive(t, refused, "%v", errs)
			c.leader()
			for _, m := range []*metaNode{leader, follower} {
				require.NoError(t, c.adminOf(m).Rejoin(t.Context(), m.id.Name))
			}
			c.eventually(2*time.Second, func() bool {
				for _, m := range []*metaNode{leader, follower} {
					if n, ok := c.nodeInfo(m.id.Name); !ok || n.Observer {
						return false
					}
				}
				return true
			})
		}
	})
}

func TestElectionQuit_OfTheLastCandidateIsRefusedUnlessForced(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		for name := range c.metas {
			if name != leader.id.Name {
				c.eventually(time.Second, func() bool { // both know each other
					_, ok := c.nodeInfo(name)
					return ok && c.metas[name].Elector().Remaining() > 0
				})
				require.NoError(t, c.admin.Quit(t.Context(), name))
			}
		}
		err := c.admin.Quit(t.Context(), leader.id.Name)
		assert.Equal(t, wire.CodeNoSuccessor, wire.CodeOf(err))
		assert.ErrorContains(t, err, "force=true")
		assert.Equal(t, wire.CodeNoSuccessor, wire.CodeOf(c.admin.Resign(t.Context())))
		assert.Equal(t, wire.CodeNoSuccessor, wire.CodeOf(c.admin.Forbid(t.Context(), leader.id.Name, "", "me")))
		var effect metaclient.Effect
		require.NoError(t, c.admin.Quit(t.Context(), leader.id.Name, metaclient.DryRun(&effect)))
		assert.True(t, effect.Refused)
		assert.Contains(t, effect.Effect, "no node would lead")
		assert.Equal(t, leader, c.leader())

		require.NoError(t, c.admin.Quit(t.Context(), leader.id.Name, metaclient.Force()))
		c.eventually(10*time.Second, func() bool { _, err := c.admin.Leader(t.Context()); return wire.CodeOf(err) == wire.CodeNoLeader })

		// No node leads, so it is not known whether another one competes, and
		// the request is refused.
		other := c.otherMeta(leader)
		require.NoError(t, c.admin.Rejoin(t.Context(), other.id.Name))
		assert.Equal(t, other, c.leader())
		require.NoError(t, c.admin.Rejoin(t.Context(), leader.id.Name))
		c.eventually(2*time.Second, func() bool { n, ok := c.nodeInfo(leader.id.Name); return ok && !n.Observer })
		require.NoError(t, c.admin.Resign(t.Context()))
	})
}

func TestElectionQuit_WithoutALeaderIsRefusedUnlessForced(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, c *cluster) {
		m := c.someFollower()
		c.net.Kill("db")
		c.eventually(10*time.Second, func() bool { _, err := c.admin.Leader(t.Context()); return wire.CodeOf(err) == wire.CodeNoLeader })
		assert.Equal(t, wire.CodeNoLeader, wire.CodeOf(c.admin.Quit(t.Context(), m.id.Name)))
		assert.False(t, m.Elector().Observing())
		var effect metaclient.Effect
		require.NoError(t, c.admin.Quit(t.Context(), m.id.Name, metaclient.DryRun(&effect)))
		assert.True(t, effect.Refused)
		require.NoError(t, c.admin.Quit(t.Context(), m.id.Name, metaclient.Force()))
		assert.True(t, m.Elector().Observing())
	})
}

// The original's tool for operators, in the profile sofa: the leader stops, the
// new owner does not lead, and no meta leads until the lock has expired. In any
// other profile it is refused, also if it is forced.
func TestForceRefresh_LeavesNoLeaderUntilTheLockExpires(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		name := c.someFollower().id.Name
		for _, option := range [][]metaclient.Option{nil, {metaclient.Force()}, {metaclient.DryRun(new(metaclient.Effect))}} {
			err := c.admin.ForceRefresh(t.Context(), name, option...)
			assert.Equal(t, wire.CodeBadRequest, wire.CodeOf(err))
			assert.ErrorContains(t, err, "profile sofa")
		}
		assert.Equal(t, uint64(1), c.term())
	})
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, func(cfg *meta.Config) {
			cfg.Lease, cfg.Beat, cfg.NodeLease = 20*time.Second, time.Second, 20*time.Second
			cfg.Strategy = func(meta.AskWitness) (elector.Strategy, error) {
				db, err := conclavesql.Open(dsn, conclavesql.Options{Dial: cfg.Network.DialContext, Deadline: 500 * time.Millisecond})
				require.NoError(t, err)
				t.Cleanup(func() { db.Close() })
				return termcas.NewSofa(termcas.Config{DB: db, Lock: lock, Takeover: termcas.Lease})
			}
		})
		for _, name := range c.metaNames() {
			c.startMeta(name)
		}
		leader, other := c.leader(), c.someFollower()
		require.NoError(t, c.admin.ForceRefresh(t.Context(), leader.id.Name), "it renews what it leads")
		time.Sleep(5 * time.Second)
		require.Equal(t, leader, c.leader())
		require.Equal(t, uint64(1), c.term())

		assert.Equal(t, wire.CodeUnsafe, wire.CodeOf(c.admin.ForceRefresh(t.Context(), other.id.Name)))
		var effect metaclient.Effect
		require.NoError(t, c.admin.ForceRefresh(t.Context(), other.id.Name, metaclient.DryRun(&effect)))
		assert.True(t, effect.Refused)
		time.Sleep(5 * time.Second)
		require.Equal(t, leader, c.leader(), "neither has changed anything")

		began := time.Now()
		require.NoError(t, c.admin.ForceRefresh(t.Context(), other.id.Name, metaclient.Force()))
		var owner string
		var term uint64
		require.NoError(t, c.db.QueryRow(t.Context(), "SELECT owner, term FROM distribute_lock WHERE lock_name = ?", []any{lock.Name}, &owner, &term))
		assert.Equal(t, other.id.String(), owner)
		assert.Equal(t, uint64(1), term, "one term has had two owners")
		c.eventually(2*time.Second, func() bool { _, leads := leader.Elector().Leading(); return !leads })
		for time.Since(began) < 20*time.Second {
			for _, m := range c.metas {
				_, leads := m.Elector().Leading()
				require.False(t, leads, "%s leads after %v", m.id.Name, time.Since(began))
			}
			time.Sleep(100 * time.Millisecond)
		}
		c.leaderAfter(1)
		assert.Less(t, time.Since(began), 25*time.Second)
		assert.Equal(t, uint64(2), c.term())
	})
}

// Settings after which the cluster would not serve are refused unless forced. A
// dry run shows the effect of a request and changes nothing.
func TestSwitches_ThatEndTheServiceAreRefusedUnlessForced(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(3, 1)
		for _, x := range []struct{ key, bad, good string }{
			{wire.SwitchProtectionFloor, "4", "3"},
			{wire.SwitchPushWindow, "10001", "10000"},
		} {
			before, err := c.admin.Switches(t.Context())
			require.NoError(t, err)
			_, err = c.admin.SetSwitch(t.Context(), x.key, x.bad)
			assert.Equal(t, wire.CodeUnsafe, wire.CodeOf(err), "%s %s", x.key, x.bad)
			for _, value := range []string{x.bad, x.good} {
				var effect metaclient.Effect
				_, err = c.admin.SetSwitch(t.Context(), x.key, value, metaclient.DryRun(&effect))
				require.NoError(t, err)
				assert.Equal(t, value == x.bad, effect.Refused, "%s %s", x.key, value)
				assert.NotEmpty(t, effect.Effect)
			}
			after, err := c.admin.Switches(t.Context())
			require.NoError(t, err)
			assert.Equal(t, before, after)
			_, err = c.admin.SetSwitch(t.Context(), x.key, x.good)
			require.NoError(t, err)
			sw, err := c.admin.SetSwitch(t.Context(), x.key, x.bad, metaclient.Force())
			require.NoError(t, err)
			assert.Equal(t, x.bad, sw.Value)
		}
		assert.Len(t, c.eventsOf("act.forced"), 2)
	})
}

func TestArrangeOff_IsRefusedWhileSlotsHaveNoLeader(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		_, err := c.admin.SetSwitch(t.Context(), wire.SwitchArrange, "off")
		assert.Equal(t, wire.CodeUnsafe, wire.CodeOf(err), "there is no table")
		c.startNodes(3, 1)
		c.kill("data-1")
		c.kill("data-2")
		c.eventually(5*time.Second, func() bool { s, err := c.admin.Slots(t.Context()); return err == nil && s.Protected })
		_, err = c.admin.SetSwitch(t.Context(), wire.SwitchArrange, "off")
		assert.Equal(t, wire.CodeUnsafe, wire.CodeOf(err))
		require.NoError(t, c.admin.EndProtection(t.Context()))
		c.eventually(10*time.Second, func() bool { return c.servedWithout("data-1") && c.servedWithout("data-2") })
		_, err = c.admin.SetSwitch(t.Context(), wire.SwitchArrange, "off")
		require.NoError(t, err)
	})
}

func TestForbid_OfEveryDataNodeIsRefusedUnlessForced(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.startNodes(2, 2)
		require.NoError(t, c.admin.Forbid(t.Context(), "data-1", "", "me"))
		c.eventually(5*time.Second, func() bool { return c.servedWithout("data-1") })
		assert.Equal(t, wire.CodeNoSuccessor, wire.CodeOf(c.admin.Forbid(t.Context(), "data-2", "", "me")))
		require.NoError(t, c.admin.Forbid(t.Context(), "data-2", "", "me", metaclient.Force()))
		require.NoError(t, c.admin.Allow(t.Context(), "data-2"))
		require.NoError(t, c.admin.Forbid(t.Context(), "session-1", "", "me"))
		var effect metaclient.Effect
		require.NoError(t, c.admin.Forbid(t.Context(), "session-2", "", "me", metaclient.DryRun(&effect)))
		assert.Equal(t, wire.CodeNoSuccessor, effect.Code)
		require.NoError(t, c.admin.Allow(t.Context(), "session-1", metaclient.DryRun(&effect)))
		list, err := c.admin.Blacklist(t.Context())
		require.NoError(t, err)
		assert.Len(t, list, 2, "dry runs change nothing")
	})
}

func TestForceAndDryRun_AreTrueOrFalse(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, c *cluster) {
		follower := c.someFollower().id.Name
		c.eventually(time.Second, func() bool { _, known := c.nodeInfo(follower); return known })
		for _, x := range []struct{ method, path string }{
			{http.MethodPut, "/v1/blacklist/" + follower}, {http.MethodDelete, "/v1/blacklist/data-1"},
			{http.MethodPut, "/v1/switches/arrange"}, {http.MethodPut, "/v1/config/x"}, {http.MethodDelete, "/v1/config/x"}, {http.MethodDelete, "/v1/protection"}, {http.MethodPost, "/v1/leader/resign"},
			{http.MethodPost, "/v1/election/quit"}, {http.MethodPost, "/v1/election/join"}, {http.MethodPost, "/v1/election/force-refresh"},
		} {
			for _, query := range []string{"force=yes", "force=", "dryRun=1", "force=true&dryRun=maybe"} {
				req, err := http.NewRequestWithContext(t.Context(), x.method, "http://"+c.leader().Address()+x.path+"?"+query, nil)
				require.NoError(t, err)
				res, err := c.peers.HTTP().Do(req)
				require.NoError(t, err)
				res.Body.Close()
				assert.Equal(t, http.StatusBadRequest, res.StatusCode, "%s %s?%s", x.method, x.path, query)
			}
		}
		assert.Equal(t, uint64(1), c.term())
	})
}

// otherMeta returns a meta other than the given one.
func (c *cluster) otherMeta(except *metaNode) *metaNode {
	for _, name := range c.metaNames() {
		if m := c.metas[name]; m != nil && m != except {
			return m
		}
	}
	return nil
}
