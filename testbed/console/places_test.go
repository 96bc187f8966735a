package console

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
	"conclave/testbed/simulated/simnet"
)

// served runs body with a console on a network in memory, on which dial connects the
// hosts.
func served(t *testing.T, body func(t *testing.T, dial func(host string) net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(1)
		ln, err := network.Host("console").Listen(t.Context(), "tcp", ":1")
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- NewServer(Config{Source: &actor{acts: Holder}}).Serve(ctx, ln) }()
		body(t, func(host string) net.Conn {
			c, err := network.Host(host).DialContext(t.Context(), "tcp", ln.Addr().String())
			require.NoError(t, err)
			t.Cleanup(func() { c.Close() })
			return c
		})
		stop()
		assert.NoError(t, <-done)
	})
}

// answer sends a request and returns the status of its answer; 0: there is none.
func answer(c net.Conn, request string) int {
	if _, err := io.WriteString(c, request); err != nil {
		return 0
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	return res.StatusCode
}

const (
	streamRequest = "GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
	pageRequest   = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
)

func TestServer_OneAddressDoesNotTakeAllViewers(t *testing.T) {
	served(t, func(t *testing.T, dial func(host string) net.Conn) {
		for range addressViewers {
			require.Equal(t, http.StatusOK, answer(dial("hostile"), streamRequest))
		}
		assert.Equal(t, http.StatusServiceUnavailable, answer(dial("hostile"), streamRequest))
		assert.Equal(t, http.StatusOK, answer(dial("honest"), streamRequest))
	})
}

func TestServer_OneAddressDoesNotTakeAllConnections(t *testing.T) {
	served(t, func(t *testing.T, dial func(host string) net.Conn) {
		for range addressConnections {
			dial("hostile")
		}
		synctest.Wait()
		assert.Zero(t, answer(dial("hostile"), pageRequest))
		assert.Equal(t, http.StatusOK, answer(dial("honest"), pageRequest))
	})
}

func TestServer_BodyArrivesInTime(t *testing.T) {
	served(t, func(t *testing.T, dial func(host string) net.Conn) {
		began := time.Now()
		status := answer(dial("hostile"), "POST /v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
		assert.Equal(t, http.StatusBadRequest, status)
		assert.Equal(t, bodyTime, time.Since(began).Round(100*time.Millisecond))
	})
}
