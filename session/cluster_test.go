package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/client"
	"conclave/data"
	"conclave/internal/logging"
	"conclave/internal/trace"
	"conclave/session"
	"conclave/testbed/simulated/simnet"
	"conclave/wire"
)

// seeds is the seed of the last cluster made in this run.
var seeds atomic.Uint64

// cluster is a lone meta, data nodes and sessions on one network in memory.
type cluster struct {
	t      testing.TB
	net    *simnet.Net // nil: the real network, for benchmarks
	meta   *fakeMeta
	random *rand.Rand
	all    sync.WaitGroup
	stop   context.CancelFunc
	ctx    context.Context

	sessions map[string]*running[*session.Server]
	ids      map[*session.Server]conclave.NodeID
	datas    map[string]*running[*data.Server]
	clients  []*client.Client
	crashes  []context.CancelFunc
	starts   int
	gate     *trace.Gate // of sessions that can be held at a point; see gated
}

// running is a server together with its run.
type running[S any] struct {
	server S
	name   string
	crash  context.CancelFunc
	done   chan struct{} // closed when Run returned
	err    error         // of Run; read after done
}

// bubble runs a test on a fresh cluster, in virtual time.
func bubble(t *testing.T, datas, sessions int, run func(t *testing.T, c *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, simnet.New(1), 16, max(datas, 1))
		defer c.end()
		for i := range datas {
			c.startData(fmt.Sprintf("data-%d", i+1))
		}
		for i := range sessions {
			c.startSession(fmt.Sprintf("session-%d", i+1))
		}
		if datas > 0 {
			c.settle()
		}
		run(t, c)
	})
}

func newCluster(t testing.TB, network *simnet.Net, slots, datas int) *cluster {
	ctx, stop := context.WithCancel(context.Background())
	c := &cluster{
		t: t, net: network, random: rand.New(rand.NewPCG(1, seeds.Add(1))), ctx: ctx, stop: stop,
		sessions: map[string]*running[*session.Server]{}, ids: map[*session.Server]conclave.NodeID{}, datas: map[string]*running[*data.Server]{},
	}
	c.meta = newFakeMeta(c.host("meta-1"), c.port(9615), slots, datas)
	c.all.Go(func() { c.meta.run(ctx) })
	return c
}

// end stops everything that still runs.
func (c *cluster) end() {
	for name := range c.sessions {
		if c.gate != nil {
			c.gate.Free(name)
		}
	}
	for _, x := range c.clients {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		_ = x.Close(ctx)
		cancel()
	}
	c.stop()
	c.all.Wait()
}

// host returns the network of the process with the given name.
func (c *cluster) host(name string) wire.Network {
	if c.net == nil {
		return wire.NewTCP()
	}
	return c.net.Host(name)
}

// port returns the address to listen on: a fixed port on a host of its own, or
// any port of the real network.
func (c *cluster) port(own int) string {
	if c.net == nil {
		return "127.0.0.1:0"
	}
	return fmt.Sprintf("127.0.0.1:%d", own)
}

func (c *cluster) node(name string) conclave.NodeID {
	c.starts++
	return conclave.NodeID{Name: name, Incarnation: fmt.Sprintf("i%d", c.starts)}
}

func (c *cluster) seed() *rand.Rand {
	return rand.New(rand.NewPCG(c.random.Uint64(), c.random.Uint64()))
}

func (c *cluster) logger(name string) hclog.Logger {
	if c.net == nil {
		return hclog.NewNullLogger()
	}
	return hclog.New(&hclog.LoggerOptions{Name: name, Level: hclog.Debug, Output: testWriter{c.t}, TimeFn: time.Now})
}

// testWriter logs through the test, so that only failing tests print.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

func (c *cluster) startSession(name string, change ...func(*session.Config)) *session.Server {
	config := session.DefaultConfig()
	config.Node, config.Listen, config.Metas, config.Network = c.node(name), c.port(9603), []string{c.meta.address}, c.host(name)
	config.Logger, config.Rand = c.logger(name), c.seed()
	for _, f := range change {
		f(&config)
	}
	s, err := session.New(config)
	require.NoError(c.t, err)
	c.sessions[name], c.ids[s] = launch(c, name, s, s.Run), config.Node
	<-s.Started()
	return s
}

func (c *cluster) startData(name string, change ...func(*data.Config)) *data.Server {
	config := data.DefaultConfig()
	config.Node, config.Listen, config.Metas, config.Network = c.node(name), c.port(9622), []string{c.meta.address}, c.host(name)
	config.Logger, config.Rand = c.logger(name), c.seed()
	for _, f := range change {
		f(&config)
	}
	s, err := data.New(config)
	require.NoError(c.t, err)
	c.datas[name] = launch(c, name, s, s.Run)
	<-s.Started()
	return s
}

func launch[S any](c *cluster, name string, server S, run func(context.Context) error) *running[S] {
	ctx, crash := context.WithCancel(c.ctx)
	r := &running[S]{server: server, name: name, crash: crash, done: make(chan struct{})}
	c.all.Go(func() {
		defer close(r.done)
		r.err = run(ctx)
	})
	return r
}

// kill ends a process like kill -9.
func kill[S any](c *cluster, r *running[S]) {
	c.net.Kill(r.name)
	r.crash()
	<-r.done
}

// settle waits until the table is stable and every session takes clients.
func (c *cluster) settle() {
	c.eventually("the cluster settles", func() bool {
		table := c.meta.view.Table()
		if len(table.Slots) == 0 || !table.StableAll() {
			return false
		}
		for _, s := range c.sessions {
			select {
			case <-s.done:
				continue
			default:
			}
			if code, _ := c.get(s.server.Address(), "/readyz"); code != http.StatusOK {
				return false
			}
		}
		return true
	})
}

// eventually waits until a condition holds, in small steps of virtual time. It
// checks when every goroutine is blocked, so that the order of goroutines at
// one moment does not matter.
func (c *cluster) eventually(what string, condition func() bool) {
	c.t.Helper()
	for range 6000 {
		if c.net != nil {
			synctest.Wait()
		}
		if condition() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	c.t.Fatalf("within 30 s this did not happen: %s", what)
}

// get sends a GET request to a node.
func (c *cluster) get(address, path string) (int, string) {
	transport := &http.Transport{DialContext: c.host("curl").DialContext, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport, Timeout: time.Second}).Get("http://" + address + path)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(body)
}

// post sends a POST request to a node.
func (c *cluster) post(address, path, body string) int {
	transport := &http.Transport{DialContext: c.host("curl").DialContext, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport, Timeout: time.Second}).Post("http://"+address+path, "application/json", strings.NewReader(body))
	require.NoError(c.t, err)
	defer res.Body.Close()
	return res.StatusCode
}

// list gets a JSON list from a node.
func (c *cluster) list(address, path string) (out []map[string]any) {
	code, body := c.get(address, path)
	require.Equal(c.t, http.StatusOK, code, body)
	require.NoError(c.t, json.Unmarshal([]byte(body), &out))
	return out
}

// client starts a client on a host of its own, connected to the named sessions,
// or to all.
func (c *cluster) client(name string, sessions ...string) *client.Client {
	if len(sessions) == 0 {
		for n := range c.sessions {
			sessions = append(sessions, n)
		}
		slices.Sort(sessions)
	}
	for i, n := range sessions {
		sessions[i] = c.sessions[n].server.Address()
	}
	x, err := client.New(client.Config{Sessions: sessions, Name: name, Network: c.host(name), Logger: logging.Slog(c.logger(name)), Rand: c.seed()})
	require.NoError(c.t, err)
	ctx, crash := context.WithCancel(c.ctx)
	c.all.Go(func() { _ = x.Run(ctx) }) // returns the error of ctx
	c.clients, c.crashes = append(c.clients, x), append(c.crashes, crash)
	return x
}

// crash ends a client like kill -9.
func (c *cluster) crash(x *client.Client) {
	for i, other := range c.clients {
		if other == x {
			c.crashes[i]()
			c.net.Kill(x.Name())
		}
	}
}

// unplug breaks all connections of a client, which goes on running.
func (c *cluster) unplug(name string) {
	for session := range c.sessions {
		c.net.Reset(name, session)
	}
}

// watch subscribes and records every push.
func (c *cluster) watch(x *client.Client, dataID string) *history {
	h := &history{}
	sub, err := x.Subscribe(dataID, client.OnPush(h.add))
	require.NoError(c.t, err)
	h.sub = sub
	return h
}

// history records the pushes of one subscription.
type history struct {
	sub *client.Subscription

	mu   sync.Mutex // guards seen
	seen []conclave.Datum
	at   []time.Time
}

func (h *history) add(d conclave.Datum) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, d)
	h.at = append(h.at, time.Now())
}

func (h *history) last() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.seen) == 0 {
		return nil
	}
	return h.seen[len(h.seen)-1].Values
}

func (h *history) all() []conclave.Datum {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

// shows returns a function that reports whether the newest push has exactly
// these values, in any order.
func (h *history) shows(values ...string) func() bool {
	want := slices.Sorted(slices.Values(values))
	return func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.seen) > 0 && slices.Equal(slices.Sorted(slices.Values(h.seen[len(h.seen)-1].Values)), want)
	}
}

func (c *cluster) publish(x *client.Client, dataID string, values ...string) *client.Publication {
	p, err := x.Publish(c.ctx, dataID, values)
	require.NoError(c.t, err)
	return p
}

// published publishes and waits until data has it.
func (c *cluster) published(x *client.Client, dataID string, values ...string) *client.Publication {
	p := c.publish(x, dataID, values...)
	ctx, cancel := context.WithTimeout(c.ctx, 10*time.Second)
	defer cancel()
	require.NoError(c.t, p.Stored(ctx))
	return p
}
