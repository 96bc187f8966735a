package session_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/blacklist"
	"conclave/wire"
)

// A session stops gracefully: its clients are at the other one before its port
// closes, no subscriber gets a shorter list, and it is on no list afterwards.
func TestGracefulStop(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		values := c.fill(5, "svc", "session-1")
		sub := c.watch(c.client("reader", "session-1"), "svc")
		c.eventually("all are seen", sub.shows(values...))
		one, two := c.sessions["session-1"], c.sessions["session-2"]
		ctx, cancel := context.WithTimeout(c.ctx, 30*time.Second)
		defer cancel()
		start := time.Now()
		require.NoError(t, one.server.Shutdown(ctx))
		assert.Less(t, time.Since(start), time.Second)
		<-one.done
		require.NoError(t, one.err)
		assert.False(t, c.meta.view.State().Members.Has(c.ids[one.server]))
		assert.Len(t, c.list(two.server.Address(), "/v1/clients"), 6)
		assert.Len(t, c.list(two.server.Address(), "/v1/publishers?dataId=svc"), 5)
		time.Sleep(time.Minute)
		neverBelow(t, sub, 5)
		assert.Len(t, sub.all(), 1, "there was no further push")

		require.NoError(t, one.server.Shutdown(ctx), "stopping again is harmless")
		c.startSession("session-1")
		c.settle()
		assert.Empty(t, c.meta.view.State().Blacklist.Entries, "the next start removes its own entry")
	})
}

// A session whose request to remove its own blacklist entry is refused asks
// again.
func TestStart_RetriesRefusedRestore(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		ctx, cancel := context.WithTimeout(c.ctx, 30*time.Second)
		defer cancel()
		require.NoError(t, c.sessions["session-1"].server.Shutdown(ctx))
		require.Len(t, c.meta.view.State().Blacklist.Entries, 1)
		c.meta.mu.Lock()
		c.meta.refuses = 2
		c.meta.mu.Unlock()
		c.startSession("session-1")
		c.eventually("the entry is removed", func() bool { return len(c.meta.view.State().Blacklist.Entries) == 0 })
	})
}

// An operator's blacklist entry drains a session that continues to run; without
// the entry it takes clients again.
func TestBlacklistDrains(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		values := c.fill(3, "svc", "session-1")
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("all are seen", sub.shows(values...))
		one := c.sessions["session-1"].server
		c.meta.forbid(blacklist.Entry{Name: "session-1", Role: conclave.RoleSession, Reason: "repair", By: "operator"})
		c.eventually("session-1 has no clients", func() bool { return len(c.list(one.Address(), "/v1/clients")) == 0 })
		code, body := c.get(one.Address(), "/readyz")
		assert.Equal(t, http.StatusServiceUnavailable, code)
		assert.Contains(t, body, "draining")
		time.Sleep(time.Minute)
		neverBelow(t, sub, 3)
		c.meta.allow("session-1")
		c.eventually("it is ready again", func() bool { code, _ := c.get(one.Address(), "/readyz"); return code == http.StatusOK })
		c.published(c.client("back", "session-1"), "svc", "back")
		assert.Len(t, c.list(one.Address(), "/v1/clients"), 1)
	})
}

// The only session is stopped: its clients are served until its deadline, in
// case another session starts; then it ends with an error.
func TestStop_OfTheLastSessionServesUntilItsDeadline(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		c.fill(1, "svc")
		one := c.sessions["session-1"]
		start := time.Now()
		ended := make(chan error, 1)
		ctx, cancel := context.WithTimeout(c.ctx, 30*time.Second)
		defer cancel()
		go func() { ended <- one.server.Shutdown(ctx) }()
		c.eventually("the stop waits", func() bool {
			code, body := c.get(one.server.Address(), "/readyz")
			return code == http.StatusOK && strings.Contains(body, "the last session")
		})
		c.published(c.client("new"), "other", "x")
		require.ErrorContains(t, <-ended, "no other session takes clients")
		assert.InDelta(t, 10, time.Since(start).Seconds(), 1)
		<-one.done
		require.NoError(t, one.err)
	})
}

// Another session starts while the last one waits to stop: the drain goes on.
func TestStop_OfTheLastSessionGoesOnWhenAnotherComes(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		values := c.fill(3, "svc", "session-1")
		sub := c.watch(c.client("reader"), "svc")
		c.eventually("all are seen", sub.shows(values...))
		ended := make(chan error, 1)
		go func() { ended <- c.sessions["session-1"].server.Shutdown(c.ctx) }()
		time.Sleep(3 * time.Second)
		two := c.startSession("session-2")
		require.NoError(t, <-ended)
		assert.Len(t, c.list(two.Address(), "/v1/clients"), 4)
		neverBelow(t, sub, 3)
	})
}

// A session that never took a client waits for no other session.
func TestStop_OfASessionThatNeverOpenedWaitsForNone(t *testing.T) {
	bubble(t, 0, 1, func(t *testing.T, c *cluster) {
		time.Sleep(time.Second)
		start := time.Now()
		require.NoError(t, c.sessions["session-1"].server.Shutdown(c.ctx))
		assert.Less(t, time.Since(start), time.Second)
	})
}

// One session is drained and the other one killed: the drained one takes
// clients as the last session, is in the list given to clients, and reports it.
// When the other is back, the drain goes on.
func TestDrain_OfTheSessionThatIsLeftWaits(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		one, two := c.sessions["session-1"], c.sessions["session-2"]
		old := c.client("old")
		c.published(old, "svc", "old")
		c.meta.forbid(blacklist.Entry{Name: "session-1", Role: conclave.RoleSession, Reason: "repair", By: "operator"})
		c.eventually("session-1 has no clients", func() bool {
			return len(c.list(one.server.Address(), "/v1/clients")) == 0 && len(c.list(two.server.Address(), "/v1/clients")) == 1
		})
		kill(c, two)
		values := append(c.fill(8, "svc", "session-1"), "old") // they know session-2 only by what session-1 reports
		sub := c.watch(c.client("reader", "session-1"), "svc")
		c.eventually("all are seen", sub.shows(values...))
		code, body := c.get(one.server.Address(), "/readyz")
		assert.Equal(t, http.StatusOK, code)
		assert.Contains(t, body, "the last session")
		events, _ := one.server.Events().Since(0)
		assert.True(t, slices.ContainsFunc(events, func(e wire.Event) bool { return e.Type == "session.last" }))

		back := c.startSession("session-2")
		c.eventually("all clients are at session-2", func() bool {
			code, _ := c.get(one.server.Address(), "/readyz")
			return code == http.StatusServiceUnavailable && len(c.list(back.Address(), "/v1/clients")) == 10
		})
		time.Sleep(time.Minute)
		assert.Len(t, sub.last(), 9)
	})
}

// Both sessions are on the blacklist, which an operator can force: both serve.
func TestDrain_OfAllSessionsLeavesThemServing(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		for _, name := range []string{"session-1", "session-2"} {
			c.meta.forbid(blacklist.Entry{Name: name, Role: conclave.RoleSession, Reason: "repair", By: "operator"})
		}
		time.Sleep(time.Second)
		for i, name := range []string{"session-1", "session-2"} {
			c.published(c.client("only-"+name, name), "svc", name)
			values := []string{"session-1", "session-2"}[:i+1]
			sub := c.watch(c.client("reader-"+name, name), "svc")
			c.eventually("all are seen", sub.shows(values...))
		}
	})
}

// A session that cannot send to any data node, while the meta leader hears it, asks one
// client to move, and all of them once that one has moved.
func TestEvacuate_AllMoveOnceOneHasMoved(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		c.fill(16, "svc", "session-1", "session-2")
		one, two := c.sessions["session-1"].server, c.sessions["session-2"].server
		here, there := len(c.list(one.Address(), "/v1/clients")), len(c.list(two.Address(), "/v1/clients"))
		require.Greater(t, here, 2, "clients begin at either")
		c.net.Cut("session-1", "data-1")
		c.net.Cut("session-1", "data-2")
		cut := time.Now()
		c.eventually("one has moved", func() bool { return len(c.list(two.Address(), "/v1/clients")) > there })
		assert.Less(t, time.Since(cut), 6*time.Second, "a beat after its feeds ended")
		time.Sleep(time.Second + time.Millisecond)
		assert.Len(t, c.list(two.Address(), "/v1/clients"), 16)
		status, reasons := c.get(one.Address(), "/readyz")
		assert.Equal(t, 503, status)
		assert.Contains(t, reasons, "it is cut off")
		c.net.Heal("session-1", "data-1")
		c.eventually("clients are taken again", func() bool { status, _ := c.get(one.Address(), "/readyz"); return status == 200 })
	})
}

// The meta leader has removed a session, and is silent since: data nodes remove what its
// clients have registered, though they answer it.
func TestEvacuate_RemovedSessionThatHearsNoLeader(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		c.fill(16, "svc", "session-1", "session-2")
		one, two := c.sessions["session-1"].server, c.sessions["session-2"].server
		require.NotEmpty(t, c.list(one.Address(), "/v1/clients"), "clients begin at either")
		c.meta.remove("session-1")
		time.Sleep(2 * time.Second)
		require.NotEmpty(t, c.list(one.Address(), "/v1/clients"), "it still hears the leader, which may take it back")
		c.net.Cut("meta-1", "session-1")
		c.net.Cut("session-1", "meta-1")
		c.eventually("all clients are at session-2", func() bool { return len(c.list(two.Address(), "/v1/clients")) == 16 })
	})
}

// The only data node, or most of them, die: no session is cut off by that. Sessions keep their
// clients and take new ones, also while no meta leader can take the dead off the member list.
func TestEvacuate_DeadDataNodesAreNoCut(t *testing.T) {
	isolate := func(c *cluster, from string, others ...string) {
		for _, to := range others {
			c.net.Cut(from, to)
			c.net.Cut(to, from)
		}
	}
	for name, test := range map[string]struct {
		datas int
		fail  func(c *cluster)
	}{
		"the only process": {1, func(c *cluster) { kill(c, c.datas["data-1"]) }},
		"two of three":     {3, func(c *cluster) { kill(c, c.datas["data-1"]); kill(c, c.datas["data-2"]) }},
		"the only host":    {1, func(c *cluster) { isolate(c, "data-1", "meta-1", "session-1", "session-2") }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, test.datas, 2, func(t *testing.T, c *cluster) {
				c.fill(4, "svc", "session-1", "session-2")
				at := func(session string) int { return len(c.list(c.sessions[session].server.Address(), "/v1/clients")) }
				one, two := at("session-1"), at("session-2")
				test.fail(c)
				for i := range 300 {
					switch i {
					case 100:
						c.client("late", "session-2")
					case 200: // a node that is silent no more is listed before its feed is open
						for _, host := range []string{"session-1", "session-2", "meta-1"} {
							c.net.Heal("data-1", host)
							c.net.Heal(host, "data-1")
						}
					}
					time.Sleep(100 * time.Millisecond)
					for _, s := range c.sessions {
						status, why := c.get(s.server.Address(), "/readyz")
						require.Equal(t, 200, status, "%s: %s", s.name, why)
					}
				}
				assert.Equal(t, one, at("session-1"), "none was asked to move")
				assert.Equal(t, two+1, at("session-2"), "new ones are taken")
			})
		})
	}
}

// The cluster is stopping: the drain is skipped.
func TestClusterStops(t *testing.T) {
	bubble(t, 1, 2, func(t *testing.T, c *cluster) {
		c.fill(1, "svc", "session-1")
		s := c.sessions["session-1"]
		require.Equal(t, http.StatusConflict, c.post(s.server.Address(), "/v1/stopping", `{"incarnation": "i99"}`))
		for _, bad := range []string{"", "{}", `{"incarnation": "x", "for": 1}`, fmt.Sprintf(`{"incarnation": %q, "forMs": 60001}`, c.ids[s.server].Incarnation)} {
			require.Equal(t, http.StatusBadRequest, c.post(s.server.Address(), "/v1/stopping", bad), bad)
		}
		require.Equal(t, http.StatusOK, c.post(s.server.Address(), "/v1/stopping", fmt.Sprintf(`{"incarnation": %q}`, c.ids[s.server].Incarnation)))
		_, body := c.get(s.server.Address(), "/readyz")
		assert.Contains(t, body, "the cluster stops")
		start := time.Now()
		require.NoError(t, s.server.Shutdown(c.ctx))
		assert.Less(t, time.Since(start), 10*time.Millisecond)
		assert.Empty(t, c.meta.view.State().Blacklist.Entries)
		events, _ := s.server.Events().Since(0)
		assert.True(t, strings.Contains(events[len(events)-1].Type, "stopping"))
	})
}

// An announcement that the cluster stops expires by itself: a session that is
// stopped an hour later hands over, whether the leader had recorded the
// announcement or only the node had received it.
func TestClusterStops_OnlyWhileTheAnnouncementIsInForce(t *testing.T) {
	for _, recorded := range []bool{true, false} {
		bubble(t, 1, 2, func(t *testing.T, c *cluster) {
			c.fill(3, "svc", "session-1")
			one, two := c.sessions["session-1"].server, c.sessions["session-2"].server
			if recorded {
				c.meta.setSwitch(wire.SwitchStopping, "60000")
			} else {
				require.Equal(t, http.StatusOK, c.post(one.Address(), "/v1/stopping", fmt.Sprintf(`{"incarnation": %q}`, c.ids[one].Incarnation)))
			}
			c.eventually("it is shown", func() bool {
				_, body := c.get(one.Address(), "/readyz")
				return strings.Contains(body, "the cluster stops")
			})
			time.Sleep(2 * time.Minute) // the leader has not cleared its record: the node expires it by itself
			require.NoError(t, one.Shutdown(c.ctx))
			assert.Len(t, c.list(two.Address(), "/v1/clients"), 3, "the clients were handed over")
		})
	}
}

// The announcement arrives while a stop already waits for its clients.
func TestClusterStops_CutsADrainShort(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		c.fill(3, "svc", "session-1")
		ended := make(chan error, 1)
		start := time.Now()
		go func() { ended <- c.sessions["session-1"].server.Shutdown(c.ctx) }()
		time.Sleep(3 * time.Second)
		c.meta.setSwitch(wire.SwitchStopping, "60000")
		require.NoError(t, <-ended)
		assert.Less(t, time.Since(start), 5*time.Second)
	})
}

// A session that is not on the written member list, or has no table, takes no
// clients; one whose name is taken ends.
func TestTakesClientsOnlyAsAMember(t *testing.T) {
	bubble(t, 1, 0, func(t *testing.T, c *cluster) {
		c.meta.hideSessions(true)
		s := c.startSession("session-1")
		x := c.client("early")
		p := c.publish(x, "svc", "a")
		time.Sleep(10 * time.Second)
		assert.Empty(t, x.Connected())
		code, body := c.get(s.Address(), "/readyz")
		assert.Equal(t, http.StatusServiceUnavailable, code, body)
		c.meta.hideSessions(false)
		ctx, cancel := context.WithTimeout(c.ctx, 10*time.Second)
		defer cancel()
		require.NoError(t, p.Stored(ctx))
	})
}

// A session that takes clients again is reported at once: the next one of a roll may be
// stopped then, and its clients have where to go.
func TestStart_OpenSessionIsReportedAtOnce(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		late := c.startSession("session-2")
		c.eventually("it takes clients", func() bool {
			code, _ := c.get(late.Address(), "/readyz")
			return code == http.StatusOK
		})
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		c.meta.mu.Lock()
		defer c.meta.mu.Unlock()
		assert.True(t, c.meta.ready[c.ids[late].String()], "the leader knows")
	})
}
