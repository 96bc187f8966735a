package simnet_test

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/simulated/simnet"
)

// dial connects host a to a listener on host b and returns both ends.
func dial(t *testing.T, n *simnet.Net) (near, far net.Conn, ln net.Listener) {
	ln, err := n.Host("b").Listen(t.Context(), "tcp", ":0")
	require.NoError(t, err)
	near, err = n.Host("a").DialContext(t.Context(), "tcp", ln.Addr().String())
	require.NoError(t, err)
	far, err = ln.Accept()
	require.NoError(t, err)
	return near, far, ln
}

func TestConn_DeliversBytesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far, ln := dial(t, simnet.New(1))
		defer ln.Close()
		want := strings.Repeat("conclave ", 10_000)
		_, err := io.WriteString(near, want)
		require.NoError(t, err, "a write never blocks")
		require.NoError(t, near.Close())
		got, err := io.ReadAll(far)
		require.NoError(t, err, "what was written before Close is still read")
		assert.Equal(t, want, string(got))
		far.Close()
	})
}

func TestDial_RefusedWithoutListener(t *testing.T) {
	n := simnet.New(1)
	_, err := n.Host("a").DialContext(t.Context(), "tcp", "b:1")
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	ln, err := n.Host("b").Listen(t.Context(), "tcp", ":1")
	require.NoError(t, err)
	_, err = n.Host("b").Listen(t.Context(), "tcp", ":1")
	assert.ErrorIs(t, err, syscall.EADDRINUSE)
	ln.Close()
	_, err = n.Host("a").DialContext(t.Context(), "tcp", "b:1")
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = n.Host("a").DialContext(ctx, "tcp", "b:1")
	assert.ErrorIs(t, err, context.Canceled)
}

func TestKill_EndsConnectionsAndListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		near, far, ln := dial(t, n)
		ended := make(chan error, 2)
		go func() { _, err := near.Read(make([]byte, 1)); ended <- err }()
		go func() { _, err := ln.Accept(); ended <- err }()
		synctest.Wait()
		dead := n.Host("b")
		n.Kill("b")
		assert.Error(t, <-ended)
		assert.Error(t, <-ended)
		_, err := near.Write([]byte("unread"))
		assert.NoError(t, err, "after a FIN the other direction may still be open")
		_, err = near.Write([]byte("unread"))
		assert.ErrorIs(t, err, syscall.ECONNRESET, "the first write was answered with a reset")
		_, err = n.Host("a").DialContext(t.Context(), "tcp", ln.Addr().String())
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		near.Close()
		far.Close()

		_, err = dead.Listen(t.Context(), "tcp", ":0")
		assert.ErrorIs(t, err, syscall.ENETDOWN, "a killed process cannot use the network")
		_, err = dead.DialContext(t.Context(), "tcp", "a:1")
		assert.Error(t, err)
		again, err := n.Host("b").Listen(t.Context(), "tcp", ln.Addr().String())
		require.NoError(t, err, "a restarted process can take the same port")
		again.Close()
	})
}

func TestConn_DeadlineIsInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far, ln := dial(t, simnet.New(1))
		defer ln.Close()
		defer far.Close()
		defer near.Close()
		start := time.Now()
		require.NoError(t, near.SetReadDeadline(start.Add(time.Hour)))
		_, err := near.Read(make([]byte, 1))
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, time.Hour, time.Since(start))
		require.NoError(t, near.SetReadDeadline(time.Time{}))
		_, err = far.Write([]byte("x"))
		require.NoError(t, err)
		_, err = near.Read(make([]byte, 1))
		assert.NoError(t, err)
	})
}
