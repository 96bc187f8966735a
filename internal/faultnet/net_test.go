package faultnet

import (
	"context"
	"errors"
	"fmt"
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

// fixture is a host b that echoes, and a caller a.
type fixture struct {
	t       *testing.T
	net     *Net
	echo    net.Listener
	behind  string
	address string
	from    net.IP
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{t: t, net: New()}
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

// start makes b listen and echo. When its listener is closed it closes its
// connections.
func (w *fixture) start(address string) {
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

func (w *fixture) dial() (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: w.from}, Timeout: time.Second}
	return d.DialContext(context.Background(), "tcp", w.address)
}

func (w *fixture) connect() net.Conn {
	w.t.Helper()
	c, err := w.dial()
	require.NoError(w.t, err)
	w.t.Cleanup(func() { c.Close() })
	w.expectEcho(c)
	return c
}

func (w *fixture) expectEcho(c net.Conn) {
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

func requireSilence(t *testing.T, err error) {
	t.Helper()
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout(), "a timeout, not a broken connection: %v", err)
}

func TestCut_HoldsBackUntilMend(t *testing.T) {
	for name, way := range map[string][2]string{"there": {"a", "b"}, "back": {"b", "a"}} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			c := w.connect()
			w.net.Cut(way[0], way[1])
			_, err := c.Write([]byte("late"))
			require.NoError(t, err)
			_, err = read(c, 50*time.Millisecond)
			requireSilence(t, err)
			w.net.Mend(way[0], way[1])
			got, err := read(c, 20*time.Second)
			require.NoError(t, err)
			assert.Equal(t, "late", got)
		})
	}
}

func TestCut_DialReceivesNothing(t *testing.T) {
	w := newFixture(t)
	w.net.Cut("b", "a")
	c, err := w.dial()
	require.NoError(t, err, "a cut does not affect the kernel's handshake")
	defer c.Close()
	_, err = c.Write([]byte("ping"))
	require.NoError(t, err)
	_, err = read(c, 50*time.Millisecond)
	requireSilence(t, err)
	w.net.Mend("b", "a")
	got, err := read(c, 20*time.Second)
	require.NoError(t, err)
	assert.Equal(t, "ping", got)
}

func TestSlow_Delays(t *testing.T) {
	w := newFixture(t)
	c := w.connect()
	w.net.Slow("a", "b", 60*time.Millisecond, 10*time.Millisecond, 0)
	began := time.Now()
	w.expectEcho(c)
	assert.GreaterOrEqual(t, time.Since(began), 60*time.Millisecond)
}

func TestReset_BreaksBothSides(t *testing.T) {
	w := newFixture(t)
	c := w.connect()
	w.net.Reset("b", "a")
	_, err := read(c, 20*time.Second)
	assert.True(t, errors.Is(err, syscall.ECONNRESET), "%v", err)
	w.connect()
}

func TestHalfOpen_BreaksOneSideOnly(t *testing.T) {
	w := newFixture(t)
	c := w.connect()
	w.net.HalfOpen("a", "b")
	_, err := c.Write([]byte("void"))
	require.NoError(t, err)
	_, err = read(c, 50*time.Millisecond)
	requireSilence(t, err)
	w.connect()
}

func TestLoseNext_LosesTheAnswerAndBreaks(t *testing.T) {
	w := newFixture(t)
	c := w.connect()
	w.net.LoseNext("b", "a")
	_, err := c.Write([]byte("task"))
	require.NoError(t, err)
	got, err := read(c, 20*time.Second)
	require.Error(t, err, "got %q", got)
	w.connect()
}

func TestStoppedHost_RefusesDials(t *testing.T) {
	w := newFixture(t)
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

func TestOtherCaller_IsNotAffected(t *testing.T) {
	w := newFixture(t)
	w.net.Cut("a", "b")
	c, err := net.Dial("tcp", w.address)
	require.NoError(t, err)
	defer c.Close()
	w.expectEcho(c)
}

// A host that refuses dials keeps its connections, also while it restarts.
func TestRefuse_UntilAccept(t *testing.T) {
	w := newFixture(t)
	c := w.connect()
	require.NoError(t, w.net.ClosePort("b"))
	_, err := w.dial()
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	w.expectEcho(c)

	w.echo.Close() // the proxy notices the end and the new beginning
	_, err = read(c, 20*time.Second)
	require.Error(t, err)
	w.start(w.behind)
	require.Never(t, func() bool {
		c, err := w.dial()
		if err == nil {
			c.Close()
		}
		return err == nil
	}, 50*time.Millisecond, 5*time.Millisecond)

	require.NoError(t, w.net.OpenPort("b"))
	w.connect()
	require.ErrorContains(t, w.net.ClosePort("c"), "no such host listens: c")
	require.ErrorContains(t, w.net.OpenPort("c"), "no such host listens: c")
}

func TestLeave_FreesTheAddress(t *testing.T) {
	n := New()
	defer n.Close()
	stays, err := n.Join("stays")
	require.NoError(t, err)
	for i := range 600 {
		name := fmt.Sprint("guest-", i)
		from, err := n.Join(name)
		require.NoError(t, err)
		assert.NotEqual(t, stays.String(), from.String())
		assert.Equal(t, name, n.caller(&net.TCPAddr{IP: from}))
		n.Leave(name)
		assert.Empty(t, n.caller(&net.TCPAddr{IP: from}))
	}
	again, err := n.Join("stays")
	require.NoError(t, err)
	assert.Equal(t, stays.String(), again.String())
	for i := range 253 {
		_, err := n.Join(fmt.Sprint("host-", i))
		require.NoError(t, err)
	}
	_, err = n.Join("one too many")
	assert.ErrorContains(t, err, "at most 254 hosts")
}
