package session_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/blacklist"
)

// A session stops gracefully: its clients are at the other one before its port
// closes, nobody sees a shorter list, and it is on no list afterwards.
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
		assert.False(t, c.meta.view.State().Members.Has(one.server.Node))
		assert.Len(t, c.list(two.server.Address(), "/v1/clients"), 6)
		assert.Len(t, c.list(two.server.Address(), "/v1/publishers?dataId=svc"), 5)
		time.Sleep(time.Minute)
		neverBelow(t, sub, 5)
		assert.Len(t, sub.all(), 1, "the reader saw nothing of it")

		require.NoError(t, one.server.Shutdown(ctx), "stopping again is harmless")
		c.startSession("session-1")
		c.settle()
		assert.Empty(t, c.meta.view.State().Blacklist.Entries, "the next start takes its own entry back")
	})
}

// A session that is refused when it takes its own entry back asks again, and is
// not on the blacklist for ever.
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
		c.eventually("the entry is gone", func() bool { return len(c.meta.view.State().Blacklist.Entries) == 0 })
	})
}

// An operator's blacklist entry drains a session that goes on running; without
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

// The only session stops: nobody could take its clients, so it does not wait.
func TestLastSessionStops(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		c.fill(1, "svc")
		ctx, cancel := context.WithTimeout(c.ctx, 30*time.Second)
		defer cancel()
		start := time.Now()
		err := c.sessions["session-1"].server.Shutdown(ctx)
		require.ErrorContains(t, err, "no other session takes clients")
		assert.Less(t, time.Since(start), time.Second)
		<-c.sessions["session-1"].done
		require.NoError(t, c.sessions["session-1"].err)
	})
}

// The cluster is stopping: the drain is skipped.
func TestClusterStops(t *testing.T) {
	bubble(t, 1, 2, func(t *testing.T, c *cluster) {
		c.fill(1, "svc", "session-1")
		s := c.sessions["session-1"]
		require.Equal(t, http.StatusOK, c.post(s.server.Address(), "/v1/stopping"))
		start := time.Now()
		require.NoError(t, s.server.Shutdown(c.ctx))
		assert.Less(t, time.Since(start), 10*time.Millisecond)
		assert.Empty(t, c.meta.view.State().Blacklist.Entries)
		events, _ := s.server.Events().Since(0)
		assert.True(t, strings.Contains(events[len(events)-1].Type, "stopping"))
	})
}

// A session that is not on the written member list, or has no table, takes no
// clients; one whose name is taken ends.
func TestTakesClientsOnlyAsAMember(t *testing.T) {
	bubble(t, 1, 0, func(t *testing.T, c *cluster) {
		c.meta.mute(true)
		s := c.startSession("session-1")
		x := c.client("early")
		p := c.publish(x, "svc", "a")
		time.Sleep(10 * time.Second)
		assert.Empty(t, x.Connected())
		code, body := c.get(s.Address(), "/readyz")
		assert.Equal(t, http.StatusServiceUnavailable, code, body)
		c.meta.mute(false)
		ctx, cancel := context.WithTimeout(c.ctx, 10*time.Second)
		defer cancel()
		require.NoError(t, p.Stored(ctx))
	})
}
