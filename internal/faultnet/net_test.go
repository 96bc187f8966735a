package faultnet

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a host b that echoes, and a caller a.
type world struct {
	t       *testing.T
	net     *Net
	echo    net.Listener
	behind  string
	address string
	from    net.IP
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, net: New()}
	w.start("127.0.0.1:0")
	w.behind = w.echo.Addr().String()
	var err error
	w.address, err = w.net.Listen("b", w.behind, true)
	require.NoError(t, err)
	w.from, err = w.net.Join("a")
	require.NoError(t, err)
	t.Cleanup(func() { w.net.Close(); w.echo.Close() })
	return w
}

// start makes b listen, and echo until it is stopped, when its connections close.
func (w *world) start(address string) {
	w.t.Helper()
	l, err := net.Listen("tcp", address)
	require.NoError(w.t, err)
	w.echo = l
	go func() {
		var conns []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				for _, c := range conns {
					c.Close()
				}
				return
			}
			conns = append(conns, c)
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
}

func (w *world) dial() (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: w.from}, Timeout: time.Second}
	return d.DialContext(context.Background(), "tcp", w.address)
}

func (w *world) connect() net.Conn {
	w.t.Helper()
	c, err := w.dial()
	require.NoError(w.t, err)
	w.t.Cleanup(func() { c.Close() })
	w.echoes(c)
	return c
}

func (w *world) echoes(c net.Conn) {
	w.t.Helper()
	_, err := c.Write([]byte("ping"))
	require.NoError(w.t, err)
	got, err := read(c, 20*time.Second)
	require.NoError(w.t, err)
	require.Equal(w.t, "ping", got)
}

func read(c net.Conn, limit time.Duration) (string, error) {
	b := make([]byte, 4)
	_ = c.SetReadDeadline(time.Now().Add(limit))
	_, err := io.ReadFull(c, b)
	return string(b), err
}

func silent(t *testing.T, err error) {
	t.Helper()
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout(), "nothing arrives, and nothing breaks: %v", err)
}

func TestACutHoldsBackUntilItIsMended(t *testing.T) {
	for name, way := range map[string][2]string{"there": {"a", "b"}, "back": {"b", "a"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.connect()
			w.net.Cut(way[0], way[1])
			_, err := c.Write([]byte("late"))
			require.NoError(t, err)
			_, err = read(c, 50*time.Millisecond)
			silent(t, err)
			w.net.Mend(way[0], way[1])
			got, err := read(c, 20*time.Second)
			require.NoError(t, err)
			assert.Equal(t, "late", got)
		})
	}
}

func TestADialAcrossACutHearsNothing(t *testing.T) {
	w := newWorld(t)
	w.net.Cut("b", "a")
	c, err := w.dial()
	require.NoError(t, err, "the kernel's handshake is not ours")
	defer c.Close()
	_, err = c.Write([]byte("ping"))
	require.NoError(t, err)
	_, err = read(c, 50*time.Millisecond)
	silent(t, err)
	w.net.Mend("b", "a")
	got, err := read(c, 20*time.Second)
	require.NoError(t, err)
	assert.Equal(t, "ping", got)
}

func TestSlowDelays(t *testing.T) {
	w := newWorld(t)
	c := w.connect()
	w.net.Slow("a", "b", 60*time.Millisecond, 10*time.Millisecond, 0)
	began := time.Now()
	w.echoes(c)
	assert.GreaterOrEqual(t, time.Since(began), 60*time.Millisecond)
}

func TestResetBreaksBothSides(t *testing.T) {
	w := newWorld(t)
	c := w.connect()
	w.net.Reset("b", "a")
	_, err := read(c, 20*time.Second)
	assert.True(t, errors.Is(err, syscall.ECONNRESET), "%v", err)
	w.connect()
}

func TestHalfOpenTellsOneSideOnly(t *testing.T) {
	w := newWorld(t)
	c := w.connect()
	w.net.HalfOpen("a", "b")
	_, err := c.Write([]byte("void"))
	require.NoError(t, err)
	_, err = read(c, 50*time.Millisecond)
	silent(t, err)
	w.connect()
}

func TestLoseNextLosesTheAnswerAndBreaks(t *testing.T) {
	w := newWorld(t)
	c := w.connect()
	w.net.LoseNext("b", "a")
	_, err := c.Write([]byte("deed"))
	require.NoError(t, err)
	got, err := read(c, 20*time.Second)
	require.Error(t, err, "got %q", got)
	w.connect()
}

func TestADeadHostRefuses(t *testing.T) {
	w := newWorld(t)
	c := w.connect()
	w.echo.Close()
	_, err := read(c, 20*time.Second)
	require.Error(t, err, "its connections end")
	require.Eventually(t, func() bool {
		c, err := w.dial()
		if err == nil {
			c.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	}, 20*time.Second, time.Millisecond)
	w.start(w.behind)
	require.Eventually(t, func() bool {
		c, err := w.dial()
		if err == nil {
			c.Close()
		}
		return err == nil
	}, 20*time.Second, time.Millisecond)
	w.connect()
}

func TestSomebodyFromOutsideIsLetThrough(t *testing.T) {
	w := newWorld(t)
	w.net.Cut("a", "b")
	c, err := net.Dial("tcp", w.address)
	require.NoError(t, err)
	defer c.Close()
	w.echoes(c)
}
