package inprocess

import (
	"net"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"conclave/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts all nodes of a cluster and waits until they are ready.
func start(t *testing.T, c *Cluster) {
	t.Helper()
	for _, name := range c.Names() {
		_, err := c.Start(name, nil)
		require.NoError(t, err)
	}
	require.NoError(t, c.AwaitReady(t.Context()))
}

func TestCluster_KilledAndStoppedNodesStartAgainAtTheirAddress(t *testing.T) {
	c, err := New(Config{Metas: 2, Datas: 1, Sessions: 1})
	require.NoError(t, err)
	defer c.Close()
	start(t, c)
	_, err = c.Start("data-1", nil)
	require.ErrorIs(t, err, ErrRunning)
	_, err = c.Start("data-2", nil)
	require.ErrorContains(t, err, `unknown node "data-2"`)

	for _, name := range slices.Backward(c.Names()) { // the database last: without it a leader loses its witness
		p := c.Process(name)
		require.True(t, p.Running())
		p.Kill()
		assert.False(t, p.Running())
		assert.Error(t, p.Err(), name)
		_, err := net.DialTimeout("tcp", c.hosts[name].address, time.Second)
		assert.Error(t, err, "nothing listens at the address of a killed node")
		_, err = c.Start(name, nil)
		require.NoError(t, err)
		require.NoError(t, c.AwaitReady(t.Context()))
	}
	p := c.Process("meta-1")
	p.Stop(func(err error) { t.Errorf("stop: %v", err) })
	<-p.Done()
	assert.True(t, p.Asked())
	assert.NoError(t, p.Err())

	c.Close()
	_, err = c.Start("meta-1", nil)
	require.ErrorIs(t, err, ErrClosed, "its port may be another program's")
}

// A node whose port was taken while it was down fails, and is not taken for ready.
func TestCluster_AwaitReadyReturnsTheErrorOfAFailedNode(t *testing.T) {
	c, err := New(Config{Metas: 1, Datas: 1, Sessions: 1})
	require.NoError(t, err)
	defer c.Close()
	start(t, c)
	for _, name := range []string{"session-1", "meta-1"} { // the last, then the first of the nodes
		c.Process(name).Kill()
		if name == "session-1" {
			require.NoError(t, c.AwaitReady(t.Context()), "a killed node is not waited for")
		}
		taken, err := net.Listen("tcp", c.hosts[name].address)
		require.NoError(t, err)
		defer taken.Close()
		p, err := c.Start(name, nil)
		require.NoError(t, err)
		<-p.Done()
		require.ErrorContains(t, c.AwaitReady(t.Context()), name+" has ended: ")
		if err := c.AwaitLeader(t.Context()); name == "meta-1" {
			require.ErrorContains(t, err, name+" has ended: ")
		} else {
			require.NoError(t, err, "a session has no part in it, and may be started again afterwards")
		}
		require.NoError(t, taken.Close())
		_, err = c.Start(name, nil)
		require.NoError(t, err)
		require.NoError(t, c.AwaitReady(t.Context()))
	}
}

func TestNew_RefusesWhatIsInvalid(t *testing.T) {
	_, err := New(Config{Metas: 1, Datas: 0, Sessions: 1})
	require.ErrorContains(t, err, "0 data nodes and 1 sessions: want 1 to 99 each")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, err = New(Config{Metas: 1, Datas: 1, Sessions: 1, Addresses: map[string]string{"session-1": taken.Addr().String()}})
	require.ErrorContains(t, err, "session-1: listen on "+taken.Addr().String())
	_, err = Node{}.New("client")
	require.ErrorContains(t, err, "client")
}

// The port of a node that is down is not given to a socket that asks for any port, and
// can be listened on again and again.
func TestReserve_KeepsThePortWhileNothingListens(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("ports are kept on Linux only")
	}
	h, err := reserve("")
	require.NoError(t, err)
	for range 3 {
		ln, err := h.Listen(t.Context(), "tcp", h.address)
		require.NoError(t, err)
		require.NoError(t, ln.Close())
		_, err = net.Dial("tcp", h.address)
		require.True(t, wire.Refused(err), "%v", err)
	}
	// Without SO_REUSEADDR, as for a free port, the port is in use.
	strict := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0) })
	}}
	_, err = strict.Listen(t.Context(), "tcp", h.address)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	h.release()
	ln, err := strict.Listen(t.Context(), "tcp", h.address)
	require.NoError(t, err)
	require.NoError(t, ln.Close())
}
