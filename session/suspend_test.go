package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/trace"
	"conclave/session"
)

// suspend suspends a process: it reads and writes nothing, and its timers are
// late. Virtual time fires them all the same, so the one that ends the clients'
// leases is held until wake.
func (c *cluster) suspend(name string) (thaw, wake func()) {
	c.gate.Hold(name, trace.Expiring)
	c.net.Pause(name)
	return func() { c.net.Resume(name) }, func() { c.gate.Release(name, trace.Expiring) }
}

// gated starts a session that suspend can stop.
func (c *cluster) gated(name string) {
	c.gate = trace.NewGate(nil)
	c.startSession(name, func(config *session.Config) { config.Trace = c.gate.Sink })
}

// stored returns the values of a dataId that the only data node serves.
func (c *cluster) stored(dataID string) (values []any) {
	for _, d := range c.list(c.datas["data-1"].server.Address(), "/v1/datums?prefix="+dataID) {
		values = append(values, d["values"].([]any)...)
	}
	return values
}

// A session is suspended until data has forgotten its copies, and the
// tombstones of what its client has withdrawn at another session. It restores
// nothing.
func TestSuspendedSession_RestoresNothingWithdrawn(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		c.gated("session-2")
		c.settle()
		sub := c.watch(c.client("reader", "session-1"), "svc")
		writer := c.client("writer", "session-2")
		pub := c.published(writer, "svc", "old")
		stays := c.published(writer, "other", "same")
		c.eventually("it is seen", sub.shows("old"))

		thaw, wake := c.suspend("session-2")
		time.Sleep(8 * time.Second)
		require.NoError(t, pub.Update([]string{"new"}))
		c.eventually("the writer is at the other session", sub.shows("new"))
		require.NoError(t, pub.Withdraw())
		c.eventually("the withdrawal is seen", sub.shows())
		time.Sleep(25 * time.Second) // the grace of the session, and of the tombstone
		seen := len(sub.all())

		thaw()
		time.Sleep(10 * time.Second)
		wake()
		time.Sleep(10 * time.Second)
		assert.Len(t, sub.all(), seen, "no withdrawn value is visible again")
		assert.Empty(t, c.stored("svc"))
		assert.Equal(t, []any{"same"}, c.stored("other"))
		assert.NoError(t, stays.Err())
	})
}

// The clients of a session that was suspended have no other one to connect to:
// the data nodes keep its copies, and the session starts its clients' leases
// again, since they could not be renewed meanwhile.
func TestSuspendedSession_KeepsClientsThatHaveNoOther(t *testing.T) {
	bubble(t, 1, 0, func(t *testing.T, c *cluster) {
		c.gated("session-1")
		c.settle()
		sub := c.watch(c.client("reader"), "svc")
		pub := c.published(c.client("writer"), "svc", "a")
		c.eventually("it is seen", sub.shows("a"))

		thaw, wake := c.suspend("session-1")
		time.Sleep(30 * time.Second)
		assert.Equal(t, []any{"a"}, c.stored("svc"), "no session could have replaced it")
		thaw()
		wake() // before the client is back
		for range 60 {
			assert.Equal(t, []any{"a"}, c.stored("svc"))
			time.Sleep(time.Second)
		}
		neverBelow(t, sub, 1)
		assert.NoError(t, pub.Err())
	})
}

// A client that announced a linger has not left: its connection broke because the
// session was suspended, for longer than the linger. It is treated as any other.
func TestSuspendedSession_KeepsAClientThatAnnouncedALinger(t *testing.T) {
	bubble(t, 1, 0, func(t *testing.T, c *cluster) {
		c.gated("session-1")
		c.settle()
		sub := c.watch(c.client("reader"), "svc")
		writer, _ := c.lingering("writer", 6*time.Second, "session-1")
		pub := c.published(writer, "svc", "a")
		c.eventually("it is seen", sub.shows("a"))

		thaw, _ := c.suspend("session-1")
		c.gate.Hold("session-1", trace.Leasing)
		time.Sleep(20 * time.Second)
		thaw()
		c.gate.Free("session-1") // before the client is back
		for range 60 {
			assert.Equal(t, []any{"a"}, c.stored("svc"))
			time.Sleep(time.Second)
		}
		neverBelow(t, sub, 1)
		assert.NoError(t, pub.Err())
	})
}

// All copies of a slot are lost when a session resumes whose clients are not
// back yet. The slot waits for them instead of being read without them.
func TestSlotWithoutCopies_WaitsForHeldBackRegistrations(t *testing.T) {
	bubble(t, 1, 0, func(t *testing.T, c *cluster) {
		c.gated("session-1")
		c.settle()
		sub := c.watch(c.client("reader"), "svc")
		c.published(c.client("writer"), "svc", "a")
		c.eventually("it is seen", sub.shows("a"))

		thaw, wake := c.suspend("session-1")
		c.net.Cut("writer", "session-1")
		c.net.Cut("session-1", "writer")
		time.Sleep(12 * time.Second)
		thaw()
		c.eventually("the session is a member again", func() bool { _, ok := c.meta.view.State().Members.Find("session-1"); return ok })
		kill(c, c.datas["data-1"])
		c.startData("data-1")
		time.Sleep(3 * time.Second)
		assert.Empty(t, c.stored("svc"))
		neverBelow(t, sub, 1)

		c.net.Heal("writer", "session-1")
		c.net.Heal("session-1", "writer")
		c.eventually("the client is back", func() bool { return len(c.stored("svc")) == 1 })
		wake()
		time.Sleep(time.Minute)
		neverBelow(t, sub, 1)
		assert.Equal(t, []any{"a"}, c.stored("svc"))
	})
}
