package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/client"
	"conclave/data"
	"conclave/elector"
	"conclave/elector/termcas"
	"conclave/internal/devdb"
	"conclave/meta"
	"conclave/session"
	"conclave/sim/simnet"
	conclavesql "conclave/sql"
	"conclave/wire"
)

// Options say how large the cluster is. The zero value is the local cluster's:
// 3 meta, 2 session, 3 data nodes, 16 slots with 2 replicas.
type Options struct {
	Metas, Sessions, Datas int
	Slots, Replicas        int
	Takeover               termcas.Takeover
	// Seed feeds every random stream of the cluster.
	Seed uint64
}

// Cluster is a running cluster. It belongs to one bubble, and to the goroutine
// that plays the story.
type Cluster struct {
	t       *testing.T
	o       Options
	net     *simnet.Net
	nodes   map[string]*process
	clients []*client.Client
	over    atomic.Bool // the story is told: its clients withdraw what they published
	metas   []string
	dbFile  string
	starts  uint64
}

// process is what a node is in the bubble: a server that runs until it is
// cancelled, or has shut down.
type process struct {
	name   string
	server server
	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned
	err    error         // what it returned; read after done
}

type server interface {
	Run(context.Context) error
	Shutdown(context.Context) error
}

const (
	dbAddress   = "db:3306"
	metaPort    = ":9615"
	sessionPort = ":9603"
	dataPort    = ":9622"
)

// New starts a cluster, all nodes at once, and ends it with the test.
func New(t *testing.T, o Options) *Cluster {
	for _, f := range []struct {
		n         *int
		byDefault int
	}{{&o.Metas, 3}, {&o.Sessions, 2}, {&o.Datas, 3}, {&o.Slots, 16}, {&o.Replicas, 2}} {
		if *f.n == 0 {
			*f.n = f.byDefault
		}
	}
	if o.Takeover == "" {
		o.Takeover = termcas.Witness
	}
	c := &Cluster{t: t, o: o, net: simnet.New(), nodes: map[string]*process{}, dbFile: filepath.Join(t.TempDir(), "db")}
	for i := range o.Metas {
		c.metas = append(c.metas, fmt.Sprintf("meta-%d%s", i+1, metaPort))
	}
	t.Cleanup(c.end)
	c.Start("db")
	for role, n := range map[string]int{"meta": o.Metas, "data": o.Datas, "session": o.Sessions} {
		for i := range n {
			c.nodes[fmt.Sprintf("%s-%d", role, i+1)] = nil
		}
	}
	for _, name := range c.names() {
		if name != "db" {
			c.Start(name)
		}
	}
	return c
}

func (c *Cluster) names() []string {
	var names []string
	for name := range c.nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// stream is a seeded random stream of its own for a name.
func (c *Cluster) stream(name string) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, name, "/", c.starts)
	return rand.New(rand.NewPCG(c.o.Seed, h.Sum64()))
}

// Start starts a node, as a new incarnation.
func (c *Cluster) Start(name string) {
	c.starts++
	host, rng := c.net.Host(name), c.stream(name)
	node := conclave.NodeID{Name: name, Incarnation: conclave.NewIncarnation(rng)}
	log := hclog.New(&hclog.LoggerOptions{Name: name, Level: hclog.Info, Output: testWriter{c.t}, DisableTime: true})
	var s server
	var err error
	switch role, _, _ := strings.Cut(name, "-"); role {
	case "db":
		ln, lerr := host.Listen(context.Background(), "tcp", dbAddress)
		require.NoError(c.t, lerr)
		s, err = devdb.New(devdb.Config{Listener: ln, File: c.dbFile, Logger: log})
	case "meta":
		s, err = c.newMeta(node, host, log, rng)
	case "session":
		s, err = session.New(session.Config{
			Node: node, Listen: name + sessionPort, Insecure: true, Metas: c.metas, Network: host, Logger: log, Rand: rng,
		})
	case "data":
		config := data.DefaultConfig()
		config.Node, config.Listen, config.Insecure, config.Metas = node, name+dataPort, true, c.metas
		config.Network, config.Logger, config.Rand = host, log, rng
		s, err = data.New(config)
	}
	require.NoError(c.t, err, name)
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{name: name, server: s, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = s.Run(ctx)
	}()
	c.nodes[name] = p
}

// metaNode is a meta server together with its database handle.
type metaNode struct {
	*meta.Server
	db   *conclavesql.DB
	lock conclavesql.Lock
}

func (c *Cluster) newMeta(node conclave.NodeID, host *simnet.Host, log hclog.Logger, rng *rand.Rand) (server, error) {
	db, err := conclavesql.Open("root@tcp("+dbAddress+")/conclave", conclavesql.Options{Dial: host.DialContext, Deadline: time.Second / 2})
	if err != nil {
		return nil, err
	}
	lock := conclavesql.DefaultLock()
	strategy := func(ask meta.AskWitness) (elector.Strategy, error) {
		return termcas.New(termcas.Config{
			DB: db, Lock: lock, Takeover: c.o.Takeover, Ask: answers(ask), Rand: c.stream(node.Name + "/termcas"), Logger: log.Named("termcas"),
		})
	}
	s, err := meta.New(meta.Config{
		Node: node, Listen: node.Name + metaPort, Insecure: true, Metas: c.metas, Network: host, Logger: log, Rand: rng,
		Slots: c.o.Slots, Replicas: c.o.Replicas,
		Strategy: strategy, Store: conclavesql.NewStateStore(db, lock), History: conclavesql.NewHistory(db, lock), Statements: db.Statements,
	})
	return &metaNode{Server: s, db: db, lock: lock}, err
}

// answers reads what a leader says, or does not, as evidence of its life.
func answers(ask meta.AskWitness) func(context.Context, string, uint64, string) termcas.Answer {
	return func(ctx context.Context, address string, term uint64, lock string) termcas.Answer {
		alive, err := ask(ctx, address, term, lock)
		switch {
		case err == nil && alive:
			return termcas.Alive
		case err == nil, wire.Refused(err):
			return termcas.Stopped
		}
		return termcas.Silent
	}
}

// Run migrates, as cmd/meta does, and serves.
func (m *metaNode) Run(ctx context.Context) error {
	defer m.db.Close()
	for m.db.Migrate(ctx, m.lock) != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return m.Server.Run(ctx)
}

// up says that the server listens; before that it has no elector.
func (m *metaNode) up() bool {
	select {
	case <-m.Started():
		return true
	default:
		return false
	}
}

// Kill is kill -9: the node's connections are gone, then its goroutines.
func (c *Cluster) Kill(names ...string) {
	for _, name := range names {
		c.net.Cut(name)
		c.nodes[name].cancel()
	}
	for _, name := range names {
		<-c.nodes[name].done
	}
}

// Stop is SIGTERM: the node's graceful stop, to its end.
func (c *Cluster) Stop(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p := c.nodes[name]
	err := p.server.Shutdown(ctx)
	p.cancel()
	<-p.done
	return err
}

// Client starts a client that knows every session.
func (c *Cluster) Client(name string) *client.Client {
	var sessions []string
	for i := range c.o.Sessions {
		sessions = append(sessions, fmt.Sprintf("session-%d%s", i+1, sessionPort))
	}
	cl, err := client.New(client.Config{Name: name, Sessions: sessions, Network: c.net.Host(name), Rand: c.stream(name)})
	require.NoError(c.t, err)
	cl.Start()
	c.clients = append(c.clients, cl)
	return cl
}

// Await lets virtual time pass until the condition holds, and says how long it
// took; after the limit the test fails with what is waited for.
func (c *Cluster) Await(what string, limit time.Duration, holds func() bool) time.Duration {
	c.t.Helper()
	start := time.Now()
	for !holds() {
		if time.Since(start) > limit {
			c.t.Fatalf("after %s still waiting for %s", limit, what)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(start)
}

// end stops clients, then kills every node that still runs.
func (c *Cluster) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c.over.Store(true)
	for _, cl := range c.clients {
		if err := cl.Close(ctx); err != nil {
			c.t.Logf("client: %v", err)
		}
	}
	for _, name := range c.names() {
		p := c.nodes[name]
		if p == nil { // the start of another one failed
			continue
		}
		c.net.Cut(name)
		p.cancel()
		<-p.done
		if p.err != nil && !errors.Is(p.err, context.Canceled) {
			c.t.Logf("%s ended with: %v", name, p.err)
		}
	}
}

// testWriter sends a node's log to the test's.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s %s", time.Now().UTC().Format("05.000"), strings.TrimRight(string(p), "\n"))
	return len(p), nil
}
