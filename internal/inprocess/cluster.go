package inprocess

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/internal/devdb"
	"conclave/internal/node"
	"conclave/internal/random"
	"conclave/testbed"
	"conclave/testbed/outside"
)

// Config configures a Cluster.
type Config struct {
	// Metas, Datas and Sessions are how many nodes of each role there are; at least one.
	Metas, Datas, Sessions int
	// Addresses has those of the nodes, and of the database, by name. One that is missing
	// gets a free port of loopback.
	Addresses map[string]string
	// File keeps the tables of the database over the end of the process; see devdb.Config.
	File string
	// Consul is where the first session answers clients of Consul; "" is nowhere.
	Consul string
	// Sofa is where each session serves clients of SOFARegistry, by its name; nil is nowhere.
	Sofa map[string]string
	// Version is what the nodes say of themselves.
	Version string
}

// Slots is how many slots the cluster has: few start sooner, and the nodes of one process
// gain nothing by more.
const Slots = 16

// settle is how long the first slot table waits for another data node (meta.Config), if
// there is one: all start at the same moment.
const settle = 25 * time.Millisecond

// Cluster is a cluster on loopback in this process, without tokens. A node that was
// killed or has stopped can be started again: it is a new incarnation at the same address,
// and the database keeps its tables. All methods may be called from any goroutine.
type Cluster struct {
	config Config
	names  []string
	hosts  map[string]*host
	tables *devdb.Tables // the database's disk, without File

	mu        sync.Mutex // guards the rest; not held while a server is made or waited for
	processes map[string]*Process
	closed    bool
}

var (
	// ErrRunning reports that the node to start runs.
	ErrRunning = errors.New("it is running")
	// ErrClosed reports that the node's cluster was closed, and its port is given up.
	ErrClosed = errors.New("the cluster is closed")
)

// New returns a cluster whose addresses are known, and of which nothing runs. Close must
// follow.
func New(c Config) (*Cluster, error) {
	if min(c.Metas, c.Datas, c.Sessions) < 1 || max(c.Metas, c.Datas, c.Sessions) > 99 {
		return nil, fmt.Errorf("%d metas, %d data nodes and %d sessions: want 1 to 99 each", c.Metas, c.Datas, c.Sessions)
	}
	out := &Cluster{config: c, hosts: map[string]*host{}, processes: map[string]*Process{}}
	if c.File == "" {
		out.tables = devdb.NewTables()
	}
	out.names = slices.Concat([]string{testbed.Database}, testbed.Numbered("meta", c.Metas), testbed.Numbered("data", c.Datas), testbed.Numbered("session", c.Sessions))
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

// Names returns the names of the database (testbed.Database) and of all nodes: metas, data
// nodes, sessions.
func (c *Cluster) Names() []string { return c.names }

// Addresses returns the addresses of the nodes of a role.
func (c *Cluster) Addresses(role conclave.Role) (out []string) {
	for _, name := range c.names {
		if testbed.RoleOf(name) == string(role) {
			out = append(out, c.hosts[name].address)
		}
	}
	return out
}

// Address returns the address of a node, or of the database; "" if there is none of that
// name.
func (c *Cluster) Address(name string) string {
	if h := c.hosts[name]; h != nil {
		return h.address
	}
	return ""
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
	if c.Closed() {
		return nil, fmt.Errorf("start %s: %w", name, ErrClosed)
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

// Closed reports whether Close was called.
func (c *Cluster) Closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// server makes the server of a node.
func (c *Cluster) server(name string, h *host, log hclog.Logger) (Server, error) {
	if name == testbed.Database {
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
	rng, consul, wait := random.New(), "", settle
	if c.config.Datas == 1 {
		wait = time.Nanosecond
	}
	if name == testbed.Numbered("session", 1)[0] {
		consul = c.config.Consul
	}
	return Node{
		ConsulListen: consul, SofaListen: c.config.Sofa[name],
		Config: node.Config{
			Node: conclave.NodeID{Name: name, Incarnation: conclave.NewIncarnation(rng)}, Listen: h.address, Metas: c.Addresses(conclave.RoleMeta),
			Network: h, Logger: log, Rand: rng, Version: c.config.Version,
		},
		Meta: MetaNode{DSN: "root@tcp(" + c.hosts[testbed.Database].address + ")/conclave", Slots: Slots, Settle: wait},
	}.New(conclave.Role(testbed.RoleOf(name)))
}

// AwaitReady waits until every node that runs is ready, and every one that was started has
// not failed by itself. If one fails, the error is its own; if ctx ends before, the error
// names one that is not ready. A node that was killed or stopped is not waited for.
func (c *Cluster) AwaitReady(ctx context.Context) error {
	via := outside.HTTP(nil, nil)
	waiting, err := outside.AwaitReady(ctx, lookEvery, func(ctx context.Context) (bool, []string, error) {
		if err := c.failed(c.names); err != nil {
			return false, nil, err
		}
		for _, name := range slices.Backward(c.names[1:]) { // metas are ready first
			if p := c.Process(name); p == nil || !p.Running() {
				continue
			}
			if n, err := outside.Probe(ctx, via, c.hosts[name].address); err != nil || !n.Ready {
				return false, []string{name + ": " + cmp.Or(n.Why, "it does not answer")}, nil
			}
		}
		return true, nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w; not ready: %s", err, strings.Join(waiting, ", "))
	}
	return nil
}

// lookEvery is how often what is waited for is looked at.
const lookEvery = 2 * time.Millisecond

// AwaitLeader waits until a meta leads. A node that is started then finds the leader at
// once, instead of asking for it again and again.
func (c *Cluster) AwaitLeader(ctx context.Context) error {
	return outside.Until(ctx, lookEvery, func() (bool, error) {
		name, _ := c.Leader()
		return name != "", c.failed(c.names[:1+c.config.Metas]) // the database and the metas
	})
}

// failed returns the error of one of these nodes that has ended by itself, or nil.
func (c *Cluster) failed(names []string) error {
	for _, name := range names {
		if p := c.Process(name); p != nil && !p.Running() {
			if err := p.Err(); err != nil && !p.Asked() && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("%s has ended: %w", name, err)
			}
		}
	}
	return nil
}

// Leader returns the meta that leads and its term; "" if none does.
func (c *Cluster) Leader() (name string, term uint64) {
	for _, candidate := range c.names {
		p := c.Process(candidate)
		if p == nil || !p.Running() {
			continue
		}
		if m, ok := p.Server.(*Meta); ok && m.Up() {
			if led, leads := m.Elector().Leading(); leads && led.Number > term {
				name, term = candidate, led.Number
			}
		}
	}
	return name, term
}

// Close kills what runs and returns when it has ended. No node can be started any more.
func (c *Cluster) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
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
