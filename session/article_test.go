package session_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/blacklist"
	"conclave/client"
	"conclave/wire"
)

// A session keeps what its clients publish and subscribe. When it dies, its
// clients send everything to another one, and their lists do not change.
//
// Article 002: Sessions keep what clients publish and subscribe; a client
// whose session goes reconnects to another and replays.
func TestArticleClientReplaysAtAnotherSession(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		both := c.client("both", "session-1", "session-2")
		c.published(both, "mine", "a")
		sub := c.watch(both, "mine")
		c.eventually("it gets its own push", sub.shows("a"))
		at := both.Connected()[0].Name
		other := map[string]string{"session-1": "session-2", "session-2": "session-1"}[at]
		kill(c, c.sessions[at])
		address := c.sessions[other].server.Address()
		c.eventually("the other has both", func() bool {
			return len(c.list(address, "/v1/publishers?dataId=mine")) == 1 && len(c.list(address, "/v1/subscribers?dataId=mine")) == 1
		})
		time.Sleep(time.Minute)
		assert.Len(t, sub.all(), 1, "its own list never changed")
	})
}

// A stopping session is first taken off the lists given to clients; then its
// clients move, then it leaves the member list, and last its port closes.
//
// Article 002: The client port goes before the next step, so that clients are
// on other sessions by then; then meta is asked to blacklist me; then the ports
// for data. Here the session is marked first, so that clients do not come
// back.
func TestArticleSessionStopsInOrder(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		c.fill(3, "svc", "session-1")
		one := c.sessions["session-1"].server
		var mu sync.Mutex
		var calls []string
		c.meta.setOnCall(func(call string) {
			clients := len(c.list(one.Address(), "/v1/clients"))
			code, _ := c.get(one.Address(), "/healthz")
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, fmt.Sprintf("%s: %d clients, port %d, member %t", call, clients, code, c.meta.view.State().Members.Has(c.ids[one])))
		})
		ctx, cancel := context.WithTimeout(c.ctx, time.Minute)
		defer cancel()
		require.NoError(t, one.Shutdown(ctx))
		c.meta.setOnCall(nil)
		assert.Equal(t, []string{
			"drain session-1: 3 clients, port 200, member true",
			"leave session-1: 0 clients, port 200, member true",
		}, calls)
		code, _ := c.get("session-1:9603", "/healthz")
		assert.Zero(t, code, "the port is closed")
	})
}

// Clients that leave a stopping session do not count as dead: data keeps their
// registrations until the copies from the other session are there, and
// afterwards.
//
// Article 002: Stop handling disconnect events, so that leaving clients are
// not taken for gone; no loss, no flapping.
func TestArticleLeavingClientsAreNotTakenForGone(t *testing.T) {
	bubble(t, 2, 3, func(t *testing.T, c *cluster) {
		values := c.fill(6, "svc", "session-1", "session-2")
		sub := c.watch(c.client("reader", "session-3"), "svc")
		c.eventually("all are seen", sub.shows(values...))
		for _, n := range []string{"session-1", "session-2"} {
			ctx, cancel := context.WithTimeout(c.ctx, time.Minute)
			require.NoError(t, c.sessions[n].server.Shutdown(ctx))
			cancel()
		}
		time.Sleep(2 * time.Minute)
		assert.Len(t, sub.all(), 1, "there was no further push")
		assert.Len(t, c.list(c.sessions["session-3"].server.Address(), "/v1/publishers?dataId=svc"), 6)
	})
}

// The client's worker: while there is no session it retries and keeps what is
// published; then it sends what has queued up.
//
// Article 002: A worker checks the connection in a loop; while it is not
// connected, try, and wait between tries; then send what is queued.
func TestArticleClientWorkerSendsWhatIsQueued(t *testing.T) {
	bubble(t, 1, 0, func(t *testing.T, c *cluster) {
		x, err := client.New(client.Config{Sessions: []string{"session-1:9603"}, Network: c.host("early"), Rand: c.seed()})
		require.NoError(t, err)
		x.Start()
		var pubs []*client.Publication
		for i := range 100 {
			pubs = append(pubs, c.publish(x, fmt.Sprint("svc-", i), "a"))
		}
		require.NoError(t, pubs[7].Update([]string{"b"}))
		time.Sleep(30 * time.Second)
		c.startSession("session-1")
		ctx, cancel := context.WithTimeout(c.ctx, 5*time.Second)
		defer cancel()
		for _, p := range pubs {
			require.NoError(t, p.Stored(ctx))
		}
		list := c.list("session-1:9603", "/v1/publishers?dataId=svc-7")
		require.Len(t, list, 1)
		assert.EqualValues(t, 2, list[0]["version"])
		require.NoError(t, x.Close(ctx))
	})
}

// All replicas are lost, and only the sessions still have the registrations. No
// subscriber gets an empty or a shorter list meanwhile.
//
// Article 002: If all replicas of a slot are lost, only the sessions can
// replay it, and until they have, the slot is not read: no empty and no wrong
// push.
func TestArticleSessionsReplayWhatDataLost(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		values := c.fill(4, "svc", "session-1", "session-2")
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("all are seen", sub.shows(values...))
		for _, n := range []string{"data-1", "data-2"} {
			kill(c, c.datas[n])
		}
		time.Sleep(time.Second)
		fresh := c.watch(c.client("fresh", "session-1"), "svc")
		for _, n := range []string{"data-1", "data-2"} {
			c.startData(n)
		}
		late := c.publish(c.client("late", "session-1"), "svc", "late")
		ctx, cancel := context.WithTimeout(c.ctx, 30*time.Second)
		defer cancel()
		require.NoError(t, late.Stored(ctx))
		c.eventually("a new one is seen", sub.shows(append(values, "late")...))
		neverBelow(t, sub, 4)
		c.eventually("also by the subscriber that came in between", fresh.shows(append(values, "late")...))
		neverBelow(t, fresh, 4)
		assert.GreaterOrEqual(t, len(fresh.all()[0].Values), 4, "not even its first push was short")
	})
}

// A session that starts takes clients only when it is a member and has a table.
// Last, it takes its own entry off the blacklist. An operator's entry stays.
//
// Article 002: Renew with meta, the answer carries the table; ...; last, leave
// the blacklist.
func TestArticleLeavesTheBlacklistLast(t *testing.T) {
	bubble(t, 1, 2, func(t *testing.T, c *cluster) {
		ctx, cancel := context.WithTimeout(c.ctx, time.Minute)
		defer cancel()
		require.NoError(t, c.sessions["session-1"].server.Shutdown(ctx))
		require.Len(t, c.meta.view.State().Blacklist.Entries, 1)
		var mu sync.Mutex
		var ready []int // at each request to be taken off
		c.meta.setOnCall(func(call string) {
			if call == "restore session-1" {
				code, _ := c.get("session-1:9603", "/readyz")
				mu.Lock()
				defer mu.Unlock()
				ready = append(ready, code)
			}
		})
		c.startSession("session-1")
		c.eventually("the entry is removed", func() bool { return len(c.meta.view.State().Blacklist.Entries) == 0 })
		time.Sleep(time.Second)
		c.meta.setOnCall(nil)
		assert.Equal(t, []int{http.StatusOK}, ready, "it served before it left the list")

		c.meta.forbid(blacklist.Entry{Name: "session-1", Role: conclave.RoleSession, Reason: "broken disk", By: "operator"})
		kill(c, c.sessions["session-1"])
		c.startSession("session-1")
		time.Sleep(10 * time.Second)
		assert.Len(t, c.meta.view.State().Blacklist.Entries, 1)
		x := c.client("client", "session-1")
		time.Sleep(5 * time.Second)
		assert.Empty(t, x.Connected())
	})
}

// Article 002: a starting node fetches the provide data and the system properties
// before it serves. Here they come with the slot table: the first client of a session
// sees the value that was set before the session started, and is pushed nothing while
// stop-push is on.
func TestArticleAStartingSessionHasItsSettingsBeforeItServes(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		c.published(c.client("writer", "session-1"), "svc", "0")
		c.meta.setConfig(wire.ConfigValue{ID: "limits", Value: "10"})
		c.meta.setSwitch(wire.SwitchStopPush, "on")
		time.Sleep(time.Second)
		c.startSession("session-2")
		first := c.client("first", "session-2")
		limits, sub := c.watcher(first, "limits"), c.watch(first, "svc")
		c.eventually("the value is seen", limits.saw("10 true"))
		time.Sleep(5 * time.Second)
		assert.True(t, limits.saw("10 true")(), "and nothing before it: %v", limits.seen)
		assert.Empty(t, sub.all())
		c.meta.setSwitch(wire.SwitchStopPush, "off")
		c.eventually("the list is seen", sub.shows("0"))
	})
}

// Two tables are in use for a moment: a session that has the old one writes to
// the old leader, which refuses or is fenced, and nothing is lost.
//
// Article 002: Meta sends a new table to the nodes by broadcast and heartbeat; two
// tables may coexist for a moment.
func TestArticleTwoTablesCoexist(t *testing.T) {
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		values := c.fill(3, "svc", "session-1", "session-2")
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("all are seen", sub.shows(values...))
		writer := c.client("busy", "session-1")
		var pubs []*client.Publication
		for i := range 32 {
			pubs = append(pubs, c.published(writer, fmt.Sprint("busy-", i), "0"))
		}
		kill(c, c.datas["data-1"])
		for round := range 20 {
			for _, p := range pubs {
				require.NoError(t, p.Update([]string{fmt.Sprint(round)}))
			}
			time.Sleep(50 * time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(c.ctx, 10*time.Second)
		defer cancel()
		for _, p := range pubs {
			require.NoError(t, p.Stored(ctx))
		}
		neverBelow(t, sub, 3)
		for i := range pubs {
			h := c.watch(c.clients[0], fmt.Sprint("busy-", i))
			c.eventually("the last value is there", h.shows("19"))
		}
		for _, s := range c.sessions {
			assert.Equal(t, c.meta.view.TableEpoch(), s.server.View().TableEpoch())
		}
	})
}
