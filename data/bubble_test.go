package data_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/data"
	"conclave/slot"
	"conclave/testbed/simulated/simnet"
	"conclave/wire"
)

// cluster is the network of a bubble with one scripted meta node, real data
// nodes, and sessions that only follow the protocol.
type cluster struct {
	t   testing.TB
	net *simnet.Net // nil for TCP
	*fakeMeta
	incarnations int
	seed         uint64
	latency      time.Duration // upper bound for each message; 0 for none
	slow         map[string]*slow
}

// host returns the network as seen by a host.
func (c *cluster) host(name string) wire.Network {
	switch {
	case c.net == nil:
		return wire.NewTCP()
	case c.latency == 0:
		return c.net.Host(name)
	}
	c.seed++
	s := &slow{Network: c.net.Host(name), max: c.latency, rand: rand.New(rand.NewPCG(c.seed, 2))}
	c.slow[name] = s
	return s
}

// listen opens a fake node's port, on the network without latency.
func (c *cluster) listen(name, port string) net.Listener {
	var n wire.Network = wire.NewTCP()
	address := "127.0.0.1:0"
	if c.net != nil {
		n, address = c.net.Host(name), port
	}
	ln, err := n.Listen(c.t.Context(), "tcp", address)
	require.NoError(c.t, err)
	return ln
}

func (c *cluster) cut(name string) {
	if c.net != nil {
		c.net.Kill(name)
	}
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, f func(*testing.T, *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		// Runs last: waits until slow connections have delivered everything.
		t.Cleanup(func() { time.Sleep(time.Second); synctest.Wait() })
		c := &cluster{t: t, net: simnet.New(1), slow: map[string]*slow{}}
		c.fakeMeta = c.newMeta("meta-1", 1, wire.State{Replicas: 2})
		f(t, c)
	})
}

// lostLeader is a leader that is no member any more: its slots must be granted
// to another node.
var lostLeader = conclave.NodeID{Name: "lost", Incarnation: "x"}

// node is a real data node.
type node struct {
	*data.Server
	c    *cluster
	id   conclave.NodeID
	kill func() // like kill -9
	err  chan error
}

func (c *cluster) data(name string, adjust ...func(*data.Config)) *node {
	c.incarnations++
	id := conclave.NodeID{Name: name, Incarnation: fmt.Sprint("i", c.incarnations)}
	cfg := data.DefaultConfig()
	cfg.Node, cfg.Listen, cfg.Metas, cfg.Insecure = id, name+":9622", []string{c.address}, true
	if c.net == nil {
		cfg.Listen = "127.0.0.1:0"
	}
	cfg.Network, cfg.Logger = c.host(name), testLogger(c.t)
	cfg.Rand = rand.New(rand.NewPCG(uint64(c.incarnations), c.seed))
	for _, f := range adjust {
		f(&cfg)
	}
	s, err := data.New(cfg)
	require.NoError(c.t, err)
	ctx, cancel := context.WithCancel(c.t.Context())
	n := &node{Server: s, c: c, id: id, err: make(chan error, 1)}
	go func() { n.err <- s.Run(ctx) }()
	n.kill = func() {
		cancel()
		c.cut(name)
		n.err <- <-n.err
	}
	c.t.Cleanup(n.kill)
	<-s.Started()
	require.NoError(c.t, wait(c.t, 5*time.Second, func() bool { return c.members().Has(id) }), "%s is no member", name)
	return n
}

// state returns what the node reports about a slot.
func (n *node) state(id int) slot.ReportState {
	r, _ := n.c.report(n.id, id)
	return r.State
}

// eventually waits in virtual time until claim is true.
func eventually(t testing.TB, limit time.Duration, what string, claim func() bool) {
	t.Helper()
	if err := wait(t, limit, claim); err != nil {
		require.FailNow(t, what+": "+err.Error())
	}
}

func wait(t testing.TB, limit time.Duration, claim func() bool) error {
	_, bubble := t.(*testing.T) // benchmarks run in real time
	for end := time.Now().Add(limit); ; time.Sleep(max(time.Millisecond, limit/500)) {
		if bubble {
			synctest.Wait()
		}
		if claim() {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within %s", limit)
		}
	}
}

// never checks, in virtual time, that claim stays false.
func never(t *testing.T, during time.Duration, what string, claim func() bool) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(max(time.Millisecond, during/100)) {
		synctest.Wait()
		require.False(t, claim(), what)
	}
}

func testLogger(t testing.TB) hclog.Logger {
	if !testing.Verbose() {
		return hclog.NewNullLogger()
	}
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: logWriter{t}, DisableTime: true})
}

type logWriter struct{ t testing.TB }

func (w logWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s %s", time.Now().Format("05.000"), p)
	return len(p), nil
}
