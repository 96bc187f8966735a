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

	"conclave/sim/simnet"
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

func TestBytesArriveInOrderAndWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far, ln := dial(t, simnet.New(1))
		defer ln.Close()
		want := strings.Repeat("conclave ", 10_000)
		_, err := io.WriteString(near, want)
		require.NoError(t, err, "a write never waits for its reader")
		require.NoError(t, near.Close())
		got, err := io.ReadAll(far)
		require.NoError(t, err, "what was written before the end is still read")
		assert.Equal(t, want, string(got))
		far.Close()
	})
}

func TestNobodyThereIsARefusal(t *testing.T) {
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

func TestAKilledProcess(t *testing.T) {
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
		_, err := near.Write([]byte("anyone?"))
		assert.NoError(t, err, "an end may be half of a connection's")
		_, err = near.Write([]byte("anyone?"))
		assert.ErrorIs(t, err, syscall.ECONNRESET, "but there was nobody")
		_, err = n.Host("a").DialContext(t.Context(), "tcp", ln.Addr().String())
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		near.Close()
		far.Close()

		_, err = dead.Listen(t.Context(), "tcp", ":0")
		assert.ErrorIs(t, err, syscall.ENETDOWN, "what is left of the process reaches nobody")
		_, err = dead.DialContext(t.Context(), "tcp", "a:1")
		assert.Error(t, err)
		again, err := n.Host("b").Listen(t.Context(), "tcp", ln.Addr().String())
		require.NoError(t, err, "a restarted process takes its port again")
		again.Close()
	})
}

func TestDeadlinesPassInVirtualTime(t *testing.T) {
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
