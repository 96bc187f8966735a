package simnet_test

import (
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
	"conclave/testbed/simulated/simnet"
)

// readAt reads n bytes and returns how long after start that was.
func readAt(t *testing.T, c net.Conn, n int, start time.Time) time.Duration {
	t.Helper()
	_, err := io.ReadFull(c, make([]byte, n))
	require.NoError(t, err)
	return time.Since(start)
}

func TestBudget_ServesOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		n.Budget("b", simnet.Budget{Message: 10 * time.Millisecond, Byte: time.Millisecond})
		near, far, ln := dial(t, n)
		defer ln.Close()
		other, err := n.Host("c").DialContext(t.Context(), "tcp", ln.Addr().String())
		require.NoError(t, err)
		farther, err := ln.Accept()
		require.NoError(t, err)
		start := time.Now()
		for _, w := range []struct {
			to   net.Conn
			text string
		}{{near, "abcde"}, {near, "fghij"}, {other, "klmno"}} {
			_, err := io.WriteString(w.to, w.text)
			require.NoError(t, err)
		}
		synctest.Wait()
		assert.Equal(t, 15*time.Millisecond, readAt(t, far, 5, start), "one turn")
		assert.Equal(t, 30*time.Millisecond, readAt(t, farther, 5, start), "then the other connection")
		assert.Equal(t, 45*time.Millisecond, readAt(t, far, 5, start), "and the first one again")
		assert.Equal(t, simnet.Usage{Offered: 45 * time.Millisecond, Waited: 45 * time.Millisecond, Queued: 15}, n.Usage("b"))
		assert.Equal(t, simnet.Usage{}, n.Usage("b"), "since the last call")
		assert.Equal(t, simnet.Usage{}, n.Usage("a"), "it has no budget")

		// What b sends leaves at once, and what arrives waits for it.
		start = time.Now()
		_, err = io.WriteString(far, "answer")
		require.NoError(t, err)
		_, err = io.WriteString(near, "x")
		require.NoError(t, err)
		assert.Zero(t, readAt(t, near, 6, start))
		assert.Equal(t, 27*time.Millisecond, readAt(t, far, 1, start))
		time.Sleep(time.Second)
		start = time.Now()
		_, err = io.WriteString(near, "x")
		require.NoError(t, err)
		assert.Equal(t, 11*time.Millisecond, readAt(t, far, 1, start), "an idle processor begins at once")
		for _, c := range []net.Conn{near, far, other, farther} {
			c.Close()
		}
	})
}

func TestBudget_ConnectionsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		n.Budget("b", simnet.Budget{Message: time.Millisecond, Byte: time.Microsecond})
		bulk, far, ln := dial(t, n)
		defer ln.Close()
		lane, err := n.Host("a").DialContext(t.Context(), "tcp", ln.Addr().String())
		require.NoError(t, err)
		farther, err := ln.Accept()
		require.NoError(t, err)
		start := time.Now()
		_, err = bulk.Write(make([]byte, 10*4096))
		require.NoError(t, err)
		for range 20 {
			_, err = lane.Write(make([]byte, 1000))
			require.NoError(t, err)
			synctest.Wait()
		}
		const piece, small = 4096 * time.Microsecond, 2 * time.Millisecond
		turn := time.Millisecond + 3*piece
		assert.Equal(t, time.Millisecond+piece, readAt(t, far, 4096, start), "the first piece of the bulk")
		assert.Equal(t, turn+small, readAt(t, farther, 1000, start), "after one turn of the bulk, not after all of it")
		assert.Equal(t, turn+5*small, readAt(t, farther, 4000, start), "its turn is as long")
		assert.Equal(t, 2*turn+6*small-time.Millisecond, readAt(t, farther, 1000, start), "a write of many pieces is one message")
		assert.Equal(t, time.Millisecond+10*piece+15*small, readAt(t, far, 9*4096, start))
		assert.Equal(t, time.Millisecond+10*piece+20*small, readAt(t, farther, 14000, start))
		require.NoError(t, bulk.Close())
		_, err = far.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF)
		for _, c := range []net.Conn{far, lane, farther} {
			c.Close()
		}
	})
}

func TestBudget_WhatDoesNotFitWaitsAtItsSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		n.Budget("b", simnet.Budget{Byte: time.Millisecond, Queue: 10})
		near, far, ln := dial(t, n)
		defer ln.Close()
		other, err := n.Host("c").DialContext(t.Context(), "tcp", ln.Addr().String())
		require.NoError(t, err)
		farther, err := ln.Accept()
		require.NoError(t, err)
		start := time.Now()
		write := func(c net.Conn, n int) {
			_, err := c.Write(make([]byte, n))
			require.NoError(t, err)
			synctest.Wait()
		}
		write(near, 15)
		write(other, 1)
		assert.Equal(t, 16, n.Usage("b").Queued, "of each connection something may wait")
		write(near, 4)
		write(near, 6)
		write(near, 1)
		assert.Equal(t, simnet.Usage{Queued: 16, Blocked: 1}, n.Usage("b"), "what follows on the connection waits behind it")
		assert.Equal(t, 15*time.Millisecond, readAt(t, far, 15, start))
		assert.Equal(t, 16*time.Millisecond, readAt(t, farther, 1, start))
		assert.Equal(t, 27*time.Millisecond, readAt(t, far, 11, start), "it arrives as soon as there is room")

		write(near, 15)
		write(near, 10)
		require.NoError(t, far.Close())
		_, err = near.Read(make([]byte, 1))
		assert.ErrorIs(t, err, syscall.ECONNRESET, "what waited arrived at a closed connection")

		write(other, 100)
		write(other, 100)
		n.Kill("b")
		_, err = other.Read(make([]byte, 1))
		assert.ErrorIs(t, err, syscall.ECONNRESET, "nothing waits for a killed process")
		for _, c := range []net.Conn{near, other, farther} {
			c.Close()
		}
	})
}

func TestBudget_FrozenAndKilledProcessesServeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		n.Budget("b", simnet.Budget{Byte: time.Millisecond})
		near, far, ln := dial(t, n)
		defer ln.Close()
		start := time.Now()
		n.Pause("b")
		_, err := near.Write(make([]byte, 10))
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() { n.Resume("b") })
		assert.Equal(t, 1010*time.Millisecond, readAt(t, far, 10, start), "it is served after the thaw")

		_, err = near.Write(make([]byte, 1000))
		require.NoError(t, err)
		time.Sleep(time.Millisecond)
		n.Kill("b")
		_, err = near.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF)
		near.Close()
		far.Close()
		assert.Zero(t, n.Usage("b").Waited-10*time.Millisecond-time.Second, "what waited for the killed process is gone")

		again, far2, ln2 := dial(t, n)
		defer ln2.Close()
		start = time.Now()
		_, err = again.Write(make([]byte, 1))
		require.NoError(t, err)
		assert.Equal(t, time.Millisecond, readAt(t, far2, 1, start), "the next process begins with nothing to do")
		require.NoError(t, again.Close())
		_, err = far2.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF, "the end is served like bytes")
		far2.Close()
	})
}

func TestBudget_CloseForgetsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		n.Budget("b", simnet.Budget{Byte: time.Millisecond})
		near, far, ln := dial(t, n)
		defer ln.Close()
		_, err := near.Write(make([]byte, 10))
		require.NoError(t, err)
		synctest.Wait()
		time.Sleep(time.Millisecond)
		_, err = near.Write(make([]byte, 1000))
		require.NoError(t, err)
		time.Sleep(time.Millisecond)
		far.Close()
		other, err := n.Host("c").DialContext(t.Context(), "tcp", ln.Addr().String())
		require.NoError(t, err)
		farther, err := ln.Accept()
		require.NoError(t, err)
		start := time.Now()
		_, err = other.Write(make([]byte, 1))
		require.NoError(t, err)
		assert.Equal(t, 9*time.Millisecond, readAt(t, farther, 1, start), "only what was being served is served to its end")
		near.Close()
		other.Close()
		farther.Close()
	})
}
