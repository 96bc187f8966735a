package inprocess

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"conclave"
	"conclave/testbed/outside"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts all nodes of a cluster and waits until they are ready.
func start(t *testing.T, c *Cluster) {
	t.Helper()
	for _, name := range c.Names() {
		_, err := c.Start(name, nil)
		require.NoError(t, err)
	}
	awaitReady(t, c, "meta", "data", "session")
}

func awaitReady(t *testing.T, c *Cluster, roles ...conclave.Role) {
	t.Helper()
	via := outside.HTTP(nil, nil)
	for _, role := range roles {
		for _, address := range c.Addresses(role) {
			require.NoError(t, outside.Until(t.Context(), 2*time.Millisecond, func() (bool, error) {
				n, err := outside.Probe(t.Context(), via, address)
				return err == nil && n.Ready, nil
			}))
		}
	}
}

func TestCluster_KilledAndStoppedNodesStartAgainAtTheirAddress(t *testing.T) {
	c, err := New(Config{Metas: 2, Datas: 1, Sessions: 1, Slots: 4, Settle: 10 * time.Millisecond})
	require.NoError(t, err)
	defer c.Close()
	start(t, c)
	_, err = c.Start("data-1", nil)
	require.ErrorIs(t, err, ErrRunning)
	_, err = c.Start("data-2", nil)
	require.ErrorContains(t, err, `unknown node "data-2"`)

	for _, name := range c.Names() {
		p := c.Process(name)
		require.True(t, p.Running())
		p.Kill()
		assert.False(t, p.Running())
		assert.Error(t, p.Err(), name)
		_, err := net.DialTimeout("tcp", c.hosts[name].address, time.Second)
		assert.Error(t, err, "nothing listens at the address of a killed node")
		_, err = c.Start(name, nil)
		require.NoError(t, err)
		awaitReady(t, c, "meta", "data", "session")
	}
	p := c.Process("meta-1")
	p.Stop(func(err error) { t.Errorf("stop: %v", err) })
	<-p.Done()
	assert.True(t, p.Asked())
	assert.NoError(t, p.Err())
}

func TestNew_RefusesWhatIsInvalid(t *testing.T) {
	_, err := New(Config{Metas: 1, Datas: 0, Sessions: 1})
	require.ErrorContains(t, err, "0 data nodes: want 1 to 99")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, err = New(Config{Metas: 1, Datas: 1, Sessions: 1, Addresses: map[string]string{"session-1": taken.Addr().String()}})
	require.ErrorContains(t, err, "session-1: listen on "+taken.Addr().String())
	_, err = Node{}.New("client")
	require.ErrorContains(t, err, "client")
}
