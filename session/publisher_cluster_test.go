package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// What one client publishes is pushed to a client of another session, with each
// change, and the withdrawal at once.
func TestPublishSeenElsewhere(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("the first push is empty", sub.shows())
		pub := c.published(c.client("writer", "session-1"), "svc", "a")
		c.eventually("the value is seen", sub.shows("a"))
		require.NoError(t, pub.Update([]string{"b", "c"}))
		c.eventually("the update is seen", sub.shows("b", "c"))
		require.NoError(t, pub.Withdraw())
		ctx, cancel := context.WithTimeout(c.ctx, time.Second)
		defer cancel()
		require.NoError(t, pub.Stored(ctx))
		c.eventually("the withdrawal is seen", sub.shows())
		last := int64(0)
		for _, d := range sub.all() {
			assert.Greater(t, d.Version, last, "versions rise per subscriber")
			last = d.Version
		}
		assert.Len(t, sub.all(), 4)
	})
}

// A stream that is not read, because too much of it waits for room, ends at once when
// the session ends it.
func TestWaiting_EndsWithTheStream(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		kill(c, c.datas["data-1"])
		r := c.raw("late", "session-1")
		defer r.end()
		r.send(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{Client: "late", Name: "late"}})
		m, err := r.stream.Receive()
		require.NoError(t, err)
		value := []string{strings.Repeat("x", 60<<10)}
		for i := range 141 { // a little more than the session takes while data stores nothing
			r.send(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{{Id: fmt.Sprint(i), DataInfoId: svc, Version: 1, Values: value}}})
		}
		time.Sleep(6 * time.Second) // the session knows that it does not read, and keeps the stream
		address := c.sessions["session-1"].server.Address()
		require.Len(t, c.list(address, "/v1/clients"), 1)
		_, err = r.peers.Client(address).Ping(c.ctx, connect.NewRequest(&wirev1.PingRequest{Client: "late", Connection: m.GetWelcome().GetConnection()}))
		assert.Equal(t, wire.CodeUnavailable, wire.CodeOf(wire.FromConnect(err)))
		start := time.Now()
		c.eventually("its connection has ended", func() bool { return len(c.list(address, "/v1/clients")) == 0 })
		assert.Less(t, time.Since(start), time.Second)
	})
}
