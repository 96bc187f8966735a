package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/internal/logging"
)

// lingering starts a client with a linger, which ends without a good-bye.
func (c *cluster) lingering(name string, linger time.Duration, sessions ...string) (x *client.Client, leave func()) {
	for i, n := range sessions {
		sessions[i] = c.sessions[n].server.Address()
	}
	x, err := client.New(client.Config{
		Sessions: sessions, Name: name, Linger: linger, Network: c.host(name), Logger: logging.Slog(c.logger(name)), Rand: c.seed(),
	})
	require.NoError(c.t, err)
	ctx, leave := context.WithCancel(c.ctx)
	c.all.Go(func() { _ = x.Run(ctx) }) // its error is that of ctx
	c.clients = append(c.clients, x)
	return x, leave
}

// A client with a linger gives up a silent session and connects to another: it
// has not sent its last message to the first one, which must not publish its
// old copies.
func TestLinger_ClientThatMovedIsHeldBack(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		c.gated("session-2")
		c.settle()
		sub := c.watch(c.client("reader", "session-1"), "svc")
		writer, _ := c.lingering("writer", time.Hour, "session-2")
		pub := c.published(writer, "svc", "old")
		c.eventually("it is seen", sub.shows("old"))

		c.net.Cut("session-2", "writer") // from the session to the client only
		c.eventually("the writer is at session-1", func() bool {
			on := writer.Connected()
			return len(on) == 1 && on[0].Name == "session-1"
		})
		require.NoError(t, pub.Update([]string{"new"}))
		c.eventually("the update is seen", sub.shows("new"))
		require.NoError(t, pub.Withdraw())
		c.eventually("the withdrawal is seen", sub.shows())
		seen := len(sub.all())

		thaw, wake := c.suspend("session-2")
		time.Sleep(time.Minute)
		thaw()
		time.Sleep(10 * time.Second)
		wake()
		time.Sleep(10 * time.Second)
		assert.Empty(t, c.stored("svc"))
		assert.Len(t, sub.all(), seen, "no withdrawn value is visible again")
	})
}

// The registrations of a client with a linger that left in order are published
// for as long as it announced: its session restores them on a data node that
// lost everything, long after the client's last message.
func TestLinger_ClientThatLeftIsStillPublished(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		writer, leave := c.lingering("writer", time.Hour, "session-1")
		c.published(writer, "svc", "a")
		leave()
		time.Sleep(30 * time.Second)
		kill(c, c.datas["data-1"])
		c.startData("data-1")
		c.eventually("data has it again", func() bool { return len(c.stored("svc")) == 1 })
	})
}
