package zklatch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
	"conclave/lab/article004/zklatch"
	"conclave/testbed/simulated/simnet"
)

// ConfirmedAt is from before the request was sent, however late its answer is; and
// pings alone advance it, three times in a timeout.
func TestConn_ConfirmedAtIsFromBeforeTheRequest(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		const way = 250 * time.Millisecond
		b.network.Shape("nodes", "zk", simnet.Shape{Latency: way})
		b.network.Shape("zk", "nodes", simnet.Shape{Latency: way})
		u := b.user()
		for range 10 {
			began := time.Now()
			_, err := u.Children(t.Context(), "/")
			require.NoError(t, err)
			s, _ := u.Session()
			assert.GreaterOrEqual(t, time.Since(s.ConfirmedAt), 2*way, "a round trip")
			assert.False(t, s.ConfirmedAt.Before(began))
			assert.Equal(t, s.ConfirmedAt.Add(timeout), s.Until())

			time.Sleep(timeout)
			s, _ = u.Session()
			assert.Less(t, time.Since(s.ConfirmedAt), timeout/2+2*way, "pings are answered")
		}
	})
}

// The timeout is the one that the servers grant, not the one that was requested.
func TestConn_TimeoutIsTheGrantedOne(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		c, err := zklatch.Dial(zklatch.Config{Servers: []string{b.addr}, Timeout: time.Hour, Dial: b.dial})
		require.NoError(t, err)
		defer c.Close()
		b.until("a session", func() bool { s, _ := c.Session(); return s.Connected() })
		s, _ := c.Session()
		assert.Equal(t, time.Minute, s.Timeout)
	})
}
