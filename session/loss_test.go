package session_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/blacklist"
)

// neverBelow asserts that after the first full list no push has fewer values.
func neverBelow(t *testing.T, h *history, full int) {
	t.Helper()
	reached := false
	for _, d := range h.all() {
		if len(d.Values) >= full {
			reached = true
		}
		if reached {
			assert.GreaterOrEqual(t, len(d.Values), full, "version %d shows only %v", d.Version, d.Values)
		}
	}
	assert.True(t, reached, "the full list was never pushed")
}

// fill publishes n values under one dataId from as many clients at a session.
func (c *cluster) fill(n int, dataID string, sessions ...string) (values []string) {
	for i := range n {
		v := fmt.Sprintf("v%d", i)
		c.published(c.client(fmt.Sprintf("writer-%d", i), append([]string(nil), sessions...)...), dataID, v)
		values = append(values, v)
	}
	return values
}

// A session is killed: its clients replay at another, and the subscribers there
// never miss one of them.
func TestSessionKilled(t *testing.T) {
	bubble(t, 2, 3, func(t *testing.T, c *cluster) {
		values := c.fill(5, "svc", "session-1", "session-2")
		sub := c.watch(c.client("reader", "session-3"), "svc")
		c.eventually("all are seen", sub.shows(values...))
		kill(c, c.sessions["session-1"])
		kill(c, c.sessions["session-2"])
		killed := time.Now()
		c.eventually("every writer is at session-3", func() bool { return len(c.list(c.sessions["session-3"].server.Address(), "/v1/clients")) == 6 })
		assert.Less(t, time.Since(killed), time.Second)
		time.Sleep(time.Minute) // the owners' grace passes
		neverBelow(t, sub, 5)
		assert.True(t, sub.shows(values...)())
		p := c.published(c.clients[0], "other", "x")
		require.NoError(t, p.Err())
	})
}

// A session and the leader of half the slots die together.
func TestSessionAndDataKilledTogether(t *testing.T) {
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		values := c.fill(4, "svc", "session-1", "session-2")
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("all are seen", sub.shows(values...))
		led := c.meta.view.Table().Of("svc#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP").Leader.Name
		kill(c, c.datas[led])
		kill(c, c.sessions["session-1"])
		time.Sleep(time.Minute)
		neverBelow(t, sub, 4)
		assert.True(t, sub.shows(values...)())
		c.published(c.client("late", "session-2"), "svc", "late")
		c.eventually("a new one is seen", sub.shows(append(values, "late")...))
	})
}

// A data node is drained under load: what is published meanwhile arrives, and
// no list shrinks.
func TestDataDrained(t *testing.T) {
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		values := c.fill(3, "svc")
		sub := c.watch(c.client("reader"), "svc")
		c.eventually("all are seen", sub.shows(values...))
		counter := c.published(c.client("counter"), "count", "0")
		counts := c.watch(c.client("counts"), "count")
		c.meta.forbid(blacklist.Entry{Name: "data-1", Role: conclave.RoleData, Reason: "test", By: "operator"})
		for i := range 50 {
			require.NoError(t, counter.Update([]string{fmt.Sprint(i)}))
			time.Sleep(10 * time.Millisecond)
		}
		c.eventually("data-1 leads nothing", func() bool { return len(c.meta.view.Table().LedBy(c.meta.view.State().Members.List[0].Node)) == 0 })
		c.eventually("the last count is seen", counts.shows("49"))
		neverBelow(t, sub, 3)
		last := int64(0)
		for _, d := range counts.all() {
			assert.Greater(t, d.Version, last)
			last = d.Version
		}
	})
}

// The connection breaks and the client comes back within its lease: no
// subscriber notices.
func TestClientFlapsWithinItsLease(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		values := c.fill(4, "svc", "session-1")
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("all are seen", sub.shows(values...))
		for range 3 {
			c.unplug("writer-0") // all its connections break; it dials again at once
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		neverBelow(t, sub, 4)
		assert.Len(t, sub.all(), 1, "there was no further push")
	})
}

// A client whose death is seen is removed soon, one that closes at once.
func TestClientDiesAndClientCloses(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		values := c.fill(8, "svc", "session-1")
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("all are seen", sub.shows(values...))

		ctx, cancel := context.WithTimeout(c.ctx, time.Second)
		defer cancel()
		start := time.Now()
		require.NoError(t, c.clients[7].Close(ctx))
		c.eventually("the closed client is removed", sub.shows(values[:7]...))
		assert.Less(t, time.Since(start), 100*time.Millisecond)

		start = time.Now()
		c.crash(c.clients[6])
		c.eventually("the dead client is removed", sub.shows(values[:6]...))
		assert.InDelta(t, 1250*time.Millisecond, time.Since(start), float64(100*time.Millisecond))
		_, metrics := c.get(c.sessions["session-1"].server.Address(), "/metrics")
		assert.Contains(t, metrics, "conclave_session_client_leases_expired_total 1\n", "the closed client is not counted")
	})
}

// No meta node can be reached for a while: sessions publish and push with the
// last table, and report that they are stale.
func TestMetaOutage_SessionsStillPublishAndPush(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.net.Kill("meta-1")
		time.Sleep(time.Minute)
		code, body := c.get(c.sessions["session-1"].server.Address(), "/readyz")
		assert.Equal(t, http.StatusOK, code)
		assert.Contains(t, body, "stale")
		start := time.Now()
		c.published(c.client("writer", "session-1"), "svc", "a")
		c.eventually("the value is seen", sub.shows("a"))
		assert.Less(t, time.Since(start), 100*time.Millisecond)
		kill(c, c.sessions["session-1"])
		time.Sleep(time.Second)
		assert.True(t, sub.shows("a")(), "even if a session dies meanwhile: its client is at the other one")
		c.eventually("the writer moved", func() bool { return len(c.list(c.sessions["session-2"].server.Address(), "/v1/publishers")) == 1 })
	})
}
