package inprocess

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/internal/devdb"
	"conclave/internal/node"
	"conclave/internal/random"
)

// Database is the name of the database among those of the nodes.
const Database = "db"

// Config configures a Cluster.
type Config struct {
	// Metas, Datas and Sessions are how many nodes of each role there are; at least one.
	Metas, Datas, Sessions int
	// Addresses has those of the nodes, and of the database, by name. One that is missing
	// gets a free port of loopback.
	Addresses map[string]string
	// File keeps the tables of the database over the end of the process; see devdb.Config.
	File string
	// Slots is how many slots a table made from nothing has; see meta.Config.
	Slots int
	// Settle is how long the first slot table waits for another data node; see
	// meta.Config.
	Settle time.Duration
	// Version is what the nodes say of themselves.
	Version string
}

// Cluster is a cluster on loopback in this process, without tokens. A node that was
// killed or has stopped can be started again: it is a new incarnation at the same address,
// and the database keeps its tables. All methods may be called from any goroutine.
type Cluster struct {
	config Config
	names  []string
	hosts  map[string]*host
	tables *devdb.Tables // the database's disk, without File

	mu        sync.Mutex // guards processes; not held while a server is made or waited for
	processes map[string]*Process
}

// ErrRunning reports that the node to start runs.
var ErrRunning = errors.New("it is running")

// New returns a cluster whose addresses are known, and of which nothing runs. Close must
// follow.
func New(c Config) (*Cluster, error) {
	for _, n := range []struct {
		role string
		n    int
	}{{"meta", c.Metas}, {"data", c.Datas}, {"session", c.Sessions}} {
		if n.n < 1 || n.n > 99 {
			return nil, fmt.Errorf("%d %s nodes: want 1 to 99", n.n, n.role)
		}
	}
	out := &Cluster{config: c, hosts: map[string]*host{}, processes: map[string]*Process{}}
	if c.File == "" {
		out.tables = devdb.NewTables()
	}
	out.names = Names(c.Metas, c.Datas, c.Sessions)
	for _, name := range out.names {
		h, err := reserve(c.Addresses[name])
		if err != nil {
			out.Close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out.hosts[name] = h
	}
	return out, nil
}

// Names returns the names of the database and of the nodes of a cluster of that size.
func Names(metas, datas, sessions int) []string {
	names := []string{Database}
	add := func(role string, n int) {
		for i := range n {
			names = append(names, fmt.Sprintf("%s-%d", role, i+1))
		}
	}
	add("meta", metas)
	add("data", datas)
	add("session", sessions)
	return names
}

// Names returns the names of all nodes and of the database.
func (c *Cluster) Names() []string { return c.names }

// Addresses returns the addresses of the nodes of a role.
func (c *Cluster) Addresses(role conclave.Role) (out []string) {
	for _, name := range c.names {
		if strings.HasPrefix(name, string(role)+"-") {
			out = append(out, c.hosts[name].address)
		}
	}
	return out
}

// Process returns the last process of a node; nil if it was never started.
func (c *Cluster) Process(name string) *Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.processes[name]
}

// Start starts a node that does not run, without waiting until it is ready. A nil logger
// discards its lines. Two calls for one node must not overlap.
func (c *Cluster) Start(name string, log hclog.Logger) (*Process, error) {
	h := c.hosts[name]
	if h == nil {
		return nil, fmt.Errorf("unknown node %q (want one of %s)", name, strings.Join(c.names, ", "))
	}
	if p := c.Process(name); p != nil && p.Running() {
		return nil, fmt.Errorf("%w: %s", ErrRunning, name)
	}
	s, err := c.server(name, h, log)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := Start(s, nil)
	c.mu.Lock()
	c.processes[name] = p
	c.mu.Unlock()
	return p, nil
}

// server makes the server of a node.
func (c *Cluster) server(name string, h *host, log hclog.Logger) (Server, error) {
	if name == Database {
		ln, err := h.Listen(context.Background(), "tcp", h.address)
		if err != nil {
			return nil, err
		}
		db, err := devdb.New(devdb.Config{Listener: ln, File: c.config.File, Tables: c.tables, Logger: log})
		if err != nil {
			ln.Close()
			return nil, err
		}
		return db, nil
	}
	rng := random.New()
	role, _, _ := strings.Cut(name, "-")
	return Node{
		Config: node.Config{
			Node: conclave.NodeID{Name: name, Incarnation: conclave.NewIncarnation(rng)}, Listen: h.address, Metas: c.Addresses(conclave.RoleMeta),
			Network: h, Logger: log, Rand: rng, Version: c.config.Version,
		},
		Meta: MetaNode{DSN: "root@tcp(" + c.hosts[Database].address + ")/conclave", Slots: c.config.Slots, Settle: c.config.Settle},
	}.New(conclave.Role(role))
}

// Close kills what runs and returns when it has ended.
func (c *Cluster) Close() {
	var all sync.WaitGroup
	for _, name := range c.names {
		if p := c.Process(name); p != nil {
			all.Go(p.Kill)
		}
	}
	all.Wait()
	for _, h := range c.hosts {
		h.release()
	}
}
