package meta_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/termcas"
	"conclave/internal/devdb"
	"conclave/internal/logging"
	"conclave/meta"
	"conclave/meta/metaclient"
	"conclave/slot"
	conclavesql "conclave/sql"
	"conclave/testbed/simulated/simnet"
	"conclave/wire"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// cluster is a set of metas, an embedded database, and fake session and data
// nodes, on a network in memory, in a bubble.
type cluster struct {
	t     *testing.T
	net   *simnet.Net
	log   hclog.Logger
	lines atomic.Int64 // logged so far
	warns sync.Map     // how often each WARN was logged, by its text
	rand  *rand.Rand
	metas map[string]*metaNode
	nodes map[string]*fakeNode
	setup func(*meta.Config)
	addrs []string
	db    *conclavesql.DB // the test's own connection
	admin *metaclient.Admin
	peers *wire.Peers
}

const dsn = "root@tcp(db:3306)/conclave"

var lock = conclavesql.DefaultLock()

// inBubble runs a test with the given number of metas, started and with a
// leader.
func inBubble(t *testing.T, metas int, play func(*testing.T, *cluster), setup ...func(*meta.Config)) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, metas, setup...)
		for _, name := range c.metaNames() {
			c.startMeta(name)
		}
		c.leader()
		play(t, c)
	})
}

func newCluster(t *testing.T, metas int, setup ...func(*meta.Config)) *cluster {
	c := &cluster{
		t: t, net: simnet.New(1), rand: rand.New(rand.NewPCG(1, 2)),
		metas: map[string]*metaNode{}, nodes: map[string]*fakeNode{},
		setup: func(cfg *meta.Config) {
			for _, f := range setup {
				f(cfg)
			}
		},
	}
	c.log = hclog.New(&hclog.LoggerOptions{Output: logWriter{t, &c.lines, &c.warns}, Level: hclog.Info, IndependentLevels: true})
	for i := range metas {
		c.addrs = append(c.addrs, fmt.Sprintf("meta-%d:9615", i+1))
	}
	c.serveDB("")
	var err error
	c.db, err = conclavesql.Open(dsn, conclavesql.Options{Dial: c.net.Host("test").DialContext, Deadline: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { c.db.Close() })
	require.NoError(t, c.db.Migrate(t.Context(), lock))
	c.peers = wire.NewPeers(c.net.Host("test"), &wire.Interceptor{}, wire.PingTimeout)
	t.Cleanup(c.peers.Close)
	c.admin = metaclient.NewAdmin(metaclient.AdminConfig{Metas: c.addrs, HTTP: c.peers.HTTP()})
	return c
}

type logWriter struct {
	t     *testing.T
	lines *atomic.Int64
	warns *sync.Map
}

func (w logWriter) Write(p []byte) (int, error) {
	w.lines.Add(1)
	if _, text, warns := strings.Cut(string(p), "[WARN]"); warns {
		n, _ := w.warns.LoadOrStore(text, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
	}
	w.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// warned returns how many WARNs with a text were logged.
func (c *cluster) warned(text string) (n int64) {
	c.warns.Range(func(line, count any) bool {
		if strings.Contains(line.(string), text) {
			n += count.(*atomic.Int64).Load()
		}
		return true
	})
	return n
}

// serveDB starts the embedded server; it ends with the test.
func (c *cluster) serveDB(file string) {
	ln, err := c.net.Host("db").Listen(c.t.Context(), "tcp", "db:3306")
	require.NoError(c.t, err)
	server, err := devdb.New(devdb.Config{Listener: ln, File: file})
	require.NoError(c.t, err)
	ctx, crash := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Run(ctx) })
	c.t.Cleanup(func() { crash(); running.Wait() })
}

func (c *cluster) metaNames() []string {
	names := make([]string, len(c.addrs))
	for i, a := range c.addrs {
		names[i], _, _ = strings.Cut(a, ":")
	}
	return names
}

// metaNode is one meta, with what is needed to kill it.
type metaNode struct {
	*meta.Server
	id    conclave.NodeID
	sent  func() uint64 // SQL statements
	crash context.CancelFunc
	ended chan struct{} // closed when Run has returned
	err   error         // what it returned
}

// startMeta starts a meta under a new incarnation.
func (c *cluster) startMeta(name string) *metaNode {
	host := c.net.Host(name)
	db, err := conclavesql.Open(dsn, conclavesql.Options{Dial: host.DialContext, Deadline: 500 * time.Millisecond})
	require.NoError(c.t, err)
	n := &metaNode{id: conclave.NodeID{Name: name, Incarnation: conclave.NewIncarnation(c.rand)}, sent: db.Statements, ended: make(chan struct{})}
	cfg := meta.DefaultConfig()
	cfg.Node, cfg.Listen, cfg.Insecure, cfg.Metas, cfg.Network = n.id, name+":9615", true, c.addrs, host
	cfg.Logger, cfg.Rand = c.log.Named(name), rand.New(rand.NewPCG(c.rand.Uint64(), 0))
	cfg.Slots = 16
	cfg.Store, cfg.History, cfg.Database = conclavesql.NewStateStore(db, lock), conclavesql.NewHistory(db, lock), db
	cfg.Strategy = func(ask meta.AskWitness) (elector.Strategy, error) {
		return termcas.New(termcas.Config{DB: db, Lock: lock, Rand: rand.New(rand.NewPCG(c.rand.Uint64(), 1)), Logger: logging.Slog(cfg.Logger.Named("termcas")), Ask: ask})
	}
	c.setup(&cfg)
	n.Server, err = meta.New(cfg)
	require.NoError(c.t, err)
	ctx, crash := context.WithCancel(context.Background())
	n.crash = crash
	go func() {
		defer close(n.ended)
		n.err = n.Run(ctx)
		db.Close()
	}()
	select {
	case <-n.Started():
	case <-n.ended:
		require.NoError(c.t, n.err)
	}
	c.metas[name] = n
	c.t.Cleanup(func() { crash(); <-n.ended })
	return n
}

// kill ends a node as kill -9 does: all its connections close.
func (c *cluster) kill(name string) {
	c.net.Kill(name)
	if m := c.metas[name]; m != nil {
		m.crash()
		<-m.ended
		delete(c.metas, name)
		return
	}
	c.nodes[name].stop()
	delete(c.nodes, name)
}

// leader waits until a meta reports over HTTP that it leads, and returns it.
func (c *cluster) leader() *metaNode {
	c.t.Helper()
	return c.leaderAfter(0)
}

func (c *cluster) leaderAfter(term uint64) *metaNode {
	c.t.Helper()
	var name string
	c.eventually(20*time.Second, func() bool {
		info, err := c.admin.Leader(c.t.Context())
		name = info.Leader
		return err == nil && info.Term > term
	})
	return c.metas[name]
}

func (c *cluster) term() uint64 {
	c.t.Helper()
	info, err := c.admin.Leader(c.t.Context())
	require.NoError(c.t, err)
	return info.Term
}

// eventually polls in virtual time, each millisecond at first, then less and
// less often.
func (c *cluster) eventually(limit time.Duration, claim func() bool) time.Duration {
	c.t.Helper()
	start := time.Now()
	for !claim() {
		if time.Since(start) > limit {
			require.FailNow(c.t, "not true within "+limit.String())
		}
		time.Sleep(max(time.Millisecond, time.Since(start)/50))
	}
	return time.Since(start)
}

// stable waits until every slot is served and the slots are spread evenly.
func (c *cluster) stable(limit time.Duration) (metaclient.SlotsInfo, time.Duration) {
	c.t.Helper()
	var slots metaclient.SlotsInfo
	took := c.eventually(limit, func() bool {
		var err error
		slots, err = c.admin.Slots(c.t.Context())
		return err == nil && slots.Stable && slots.Even && len(slots.Slots) > 0
	})
	return slots, took
}

// servedWithout reports whether every slot is served, and none by the named
// node.
func (c *cluster) servedWithout(name string) bool {
	slots, err := c.admin.Slots(c.t.Context())
	if err != nil || !slots.Stable {
		return false
	}
	return !slices.ContainsFunc(slots.Slots, func(s metaclient.SlotInfo) bool { return s.Leader == name || s.Source == name })
}

func (c *cluster) nodeInfo(name string) (metaclient.NodeInfo, bool) {
	list, err := c.admin.Nodes(c.t.Context(), "")
	require.NoError(c.t, err)
	i := slices.IndexFunc(list, func(n metaclient.NodeInfo) bool { return n.Name == name })
	if i < 0 {
		return metaclient.NodeInfo{}, false
	}
	return list[i], true
}

// has reports whether a meta recorded an event of that type.
func (c *cluster) has(what string) bool { return len(c.eventsOf(what)) > 0 }

func (c *cluster) eventsOf(what string) (found []wire.Event) {
	for _, m := range c.metas {
		events, _ := m.Events().Since(0)
		for _, e := range events {
			if e.Type == what {
				found = append(found, e)
			}
		}
	}
	return found
}

// fakeNode is a session or data node as the leader sees one: it answers at its
// port, sends beats, applies tables, and, if it is a data node, does at once
// what the table says.
type fakeNode struct {
	*metaclient.Client
	id     conclave.NodeID
	view   *wire.View
	fence  *wire.Fence
	server *serve.HTTPServer
	stop   func()
	mute   func()     // stops the beats; the node still answers at its port
	err    chan error // Run's result

	mu       sync.Mutex // guards the rest
	draining bool
	stuck    bool // reports migrating forever
}

func (c *cluster) startNode(name string, role conclave.Role, change ...func(*metaclient.Config)) *fakeNode {
	return c.startNodeOn(name, name, role, change...)
}

// startNodeOn starts a node on a host with another name than the node's.
func (c *cluster) startNodeOn(hostname, name string, role conclave.Role, change ...func(*metaclient.Config)) *fakeNode {
	host := c.net.Host(hostname)
	n := &fakeNode{
		id:   conclave.NodeID{Name: name, Incarnation: conclave.NewIncarnation(c.rand)},
		view: wire.NewView(), fence: &wire.Fence{}, err: make(chan error, 1),
	}
	ln, err := host.Listen(c.t.Context(), "tcp", hostname+":9000")
	require.NoError(c.t, err)
	icpt := &wire.Interceptor{Address: ln.Addr().String(), View: n.view, Fence: n.fence}
	peers := wire.NewPeers(host, icpt, wire.PingTimeout)
	cfg := metaclient.Config{
		Self:  wire.Member{Node: n.id, Role: role, Address: ln.Addr().String()},
		Metas: c.addrs, Peers: peers, View: n.view, Fence: n.fence, Logger: c.log.Named(name).With("fake", true),
		Rand: rand.New(rand.NewPCG(c.rand.Uint64(), 2)), Report: n.report,
	}
	cfg.Logger.SetLevel(hclog.Warn)
	for _, f := range change {
		f(&cfg)
	}
	n.Client = metaclient.New(cfg)
	icpt.Behind = n.Behind
	r := serve.NewRouter(serve.RouterConfig{
		Node: n.id, Role: role, Metrics: prometheus.NewRegistry(), Events: serve.NewEvents(name, time.Now),
		Ready: func() (bool, []string) { return true, nil },
	})
	path, h := wirev1connect.NewNodeServiceHandler(metaclient.NewNodeService(n.id, role, n.view, n.fence, n.Announced), serve.HandlerOptions(icpt))
	serve.Mount(r, path, h)
	n.server = serve.NewHTTPServer(ln, r, wire.PingTimeout)

	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = n.server.Serve() })
	beating, mute := context.WithCancel(ctx)
	var loop sync.WaitGroup
	loop.Go(func() { n.err <- n.Run(beating) })
	running.Go(func() { // reports at once what it has done
		for changed := n.view.Changed(); ; changed = n.view.Changed() {
			n.Poke()
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	})
	n.mute = func() { mute(); loop.Wait() }
	n.stop = sync.OnceFunc(func() {
		cancel()
		n.mute()
		n.server.Close()
		running.Wait()
		peers.Close()
	})
	c.nodes[hostname] = n
	c.t.Cleanup(n.stop)
	return n
}

// report returns the reports of a data node that does everything at once.
func (n *fakeNode) report() (reports []*wirev1.SlotReport, load uint32, ready, draining bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.view.Table().Slots {
		r := &wirev1.SlotReport{Slot: uint32(s.ID), LeaderEpoch: wire.EpochOut(s.LeaderEpoch)}
		switch {
		case s.Leader == n.id && n.stuck:
			r.State = string(slot.Migrating)
		case s.Leader == n.id:
			r.State = string(slot.Serving)
		case s.Source == n.id:
			r.State = string(slot.Finished)
		case s.Holds(n.id):
			r.State = string(slot.CaughtUp)
		default:
			continue
		}
		reports = append(reports, r)
	}
	return reports, 7, true, n.draining
}

// startNodes starts data-1..n and session-1..m and waits until all slots are
// served.
func (c *cluster) startNodes(data, sessions int) {
	c.t.Helper()
	for i := range data {
		c.startNode(fmt.Sprintf("data-%d", i+1), conclave.RoleData)
	}
	for i := range sessions {
		c.startNode(fmt.Sprintf("session-%d", i+1), conclave.RoleSession)
	}
	for _, n := range c.nodes {
		require.NoError(c.t, n.WaitRegistered(c.t.Context()))
	}
	if data > 0 {
		c.stable(10 * time.Second)
	}
}
