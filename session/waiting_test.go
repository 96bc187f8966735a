package session_test

import (
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
