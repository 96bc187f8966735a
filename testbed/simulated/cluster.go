package simulated

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/elector/termcas"
	"conclave/internal/devdb"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/simulated/simnet"
)

// Options configures a cluster in a bubble, except its size. The zero value is
// usable.
type Options struct {
	// Log receives the nodes' logs. If it is nil they are not formatted.
	Log io.Writer
	// Link is the shape of every link without a fault. The default is a latency
	// of 50 to 250 microseconds.
	Link simnet.Shape
	// Drift is the largest relative error of a process's durations in either
	// direction; the error is drawn at each start. The default is 200
	// millionths, which no ordinary quartz exceeds. A negative value means no
	// drift.
	Drift float64
	// Tap, if not nil, is called with everything that is sent.
	Tap func(simnet.Sent)
}

func (o Options) withDefaults() Options {
	if o.Link == (simnet.Shape{}) {
		o.Link = simnet.Shape{Latency: 50 * time.Microsecond, Spread: 200 * time.Microsecond}
	}
	if o.Drift == 0 {
		o.Drift = 200e-6
	}
	return o
}

// Cluster is the whole cluster in a bubble.
// It must be used inside one bubble only.
type Cluster struct {
	o      Options
	size   testbed.Size
	gate   *trace.Gate
	net    *simnet.Net
	tables *devdb.Tables // the database's disk
	metas  []string

	mu       sync.Mutex // guards the fields below; not held while waiting
	nodes    map[string]*process
	clients  map[string]*Client
	clocks   map[string]time.Duration    // the offset of a host's wall clock
	standing map[string][]testbed.Action // cuts and delays between a host and all others, including later ones
	starts   uint64

	operators map[string]bool // hosts of operators at work
}

var _ testbed.Cluster = (*Cluster)(nil)

// process is a node in the bubble: a server that runs until it is cancelled or
// has shut down.
type process struct {
	host   string // the node's name, or that of its twin's host
	node   conclave.NodeID
	server server
	alive  context.Context // ends when it is killed, or has stopped
	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned
	err    error         // what Run returned; valid after done
	stop   sync.WaitGroup
	asked  atomic.Bool // to stop gracefully

	advertise string // instead of its own address
}

type server interface {
	Run(context.Context) error
	Shutdown(context.Context) error
}

// New returns a cluster, which Open starts.
func New(o Options) *Cluster {
	return &Cluster{
		o: o.withDefaults(), tables: devdb.NewTables(), nodes: map[string]*process{}, clients: map[string]*Client{},
		clocks: map[string]time.Duration{}, standing: map[string][]testbed.Action{}, operators: map[string]bool{},
	}
}

// Open starts the database and then every node, at the same instant.
func (c *Cluster) Open(_ context.Context, size testbed.Size, gate *trace.Gate) error {
	for _, f := range []struct {
		n         *int
		byDefault int
	}{{&size.Metas, 3}, {&size.Sessions, 2}, {&size.Datas, 3}, {&size.Slots, 16}, {&size.Replicas, 2}} {
		if *f.n == 0 {
			*f.n = f.byDefault
		}
	}
	if size.Takeover == "" {
		size.Takeover = string(termcas.Witness)
	}
	if size.Lease == 0 {
		size.Lease = 3 * time.Second
	}
	c.size, c.gate, c.net = size, gate, simnet.New(size.Seed)
	c.net.Tap = c.o.Tap
	c.net.Default(c.o.Link)
	c.metas = addresses("meta", size.Metas, metaPort)
	names := []string{testbed.Database}
	for _, role := range []struct {
		name string
		n    int
	}{{"meta", size.Metas}, {"data", size.Datas}, {"session", size.Sessions}} {
		for i := range role.n {
			names = append(names, fmt.Sprintf("%s-%d", role.name, i+1))
		}
	}
	for _, name := range names {
		if err := c.start(name, name); err != nil {
			return err
		}
	}
	return nil
}

// Capabilities: every step is possible, and the nodes' memory can be read.
func (c *Cluster) Capabilities() *testbed.Capabilities {
	return &testbed.Capabilities{Events: c.gate != nil, Stopping: c.stopping, Partial: c.partial, SlotCopies: c.slotCopies}
}

// Events reports no claims: all were passed to the gate when they were made.
func (c *Cluster) Events(func(time.Time, trace.Claim)) (bool, error) { return false, nil }

// Net returns the network, for faults that no scenario action has.
func (c *Cluster) Net() *simnet.Net { return c.net }

// stream returns the random stream for a name, seeded with the cluster's seed
// and the number of starts so far.
func (c *Cluster) stream(name string) *rand.Rand {
	c.mu.Lock()
	starts := c.starts
	c.mu.Unlock()
	h := fnv.New64a()
	fmt.Fprint(h, name, "/", starts)
	return rand.New(rand.NewPCG(c.size.Seed, h.Sum64()))
}

// start starts a new incarnation of a node on a host. It does nothing if a
// process runs there.
func (c *Cluster) start(name, host string) error { return c.startAt(name, host, "") }

// startAt is start with another advertised address, if it is not empty.
func (c *Cluster) startAt(name, host, advertise string) error {
	if c.process(host) != nil {
		return nil
	}
	c.mu.Lock()
	c.starts++
	c.mu.Unlock()
	rng := c.stream(host)
	spec := nodeSpec{
		node: conclave.NodeID{Name: name, Incarnation: conclave.NewIncarnation(rng)}, host: host,
		network: c.net.Host(host), rng: rng, log: c.logger(host), trace: c.sink(host), now: c.clock(host),
		advertise: advertise, pace: 1 + max(0, c.o.Drift)*(2*rng.Float64()-1),
	}
	s, err := c.server(spec)
	if err != nil {
		return fmt.Errorf("start %s: %w", host, err)
	}
	p := &process{host: host, node: spec.node, server: s, done: make(chan struct{}), advertise: advertise}
	p.alive, p.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(p.done)
		p.err = s.Run(p.alive)
		c.net.Kill(host) // an ended process leaves no connections
	}()
	c.mu.Lock()
	c.nodes[host] = p
	c.mu.Unlock()
	return nil
}

// process returns the process that runs on a host, or nil.
func (c *Cluster) process(host string) *process {
	c.mu.Lock()
	p := c.nodes[host]
	c.mu.Unlock()
	if p == nil {
		return nil
	}
	select {
	case <-p.done:
		return nil
	default:
		return p
	}
}

// kill ends a process as kill -9 does, also one that is stopping: first its
// connections, then its goroutines. It returns when they have ended.
func (c *Cluster) kill(host string) {
	p := c.process(host)
	if p == nil {
		return
	}
	c.net.Kill(host)
	if c.gate != nil {
		c.gate.Free(p.node.Name)
	}
	if host == testbed.Database {
		c.freeStatements()
	}
	p.cancel()
	<-p.done
	p.stop.Wait()
}

// stop begins the graceful stop of a process, as SIGTERM does, and returns the
// process or nil. The stop is limited to a minute.
func (c *Cluster) stop(host string) *process {
	p := c.process(host)
	if p == nil {
		return nil
	}
	p.asked.Store(true)
	p.stop.Go(func() {
		ctx, cancel := context.WithTimeout(p.alive, time.Minute)
		defer cancel()
		if err := p.server.Shutdown(ctx); err != nil {
			c.logger(host).Info("stopped", "error", err)
		}
		p.cancel()
		<-p.done
	})
	return p
}

// stopping reports whether a node has been asked to stop and still runs.
func (c *Cluster) stopping(name string) bool {
	p := c.process(name)
	return p != nil && p.asked.Load()
}

// Close closes the clients, then kills every node that still runs.
func (c *Cluster) Close(ctx context.Context) error {
	var errs []error
	for _, cl := range c.allClients() {
		if err := cl.Close(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	for _, host := range c.hosts() {
		c.kill(host)
	}
	for _, p := range c.processes() {
		p.stop.Wait()
		if p.err != nil && !errors.Is(p.err, context.Canceled) {
			c.logger(p.host).Info("ended", "error", p.err)
		}
	}
	return errors.Join(errs...)
}

// hosts returns the hosts of all nodes that were ever started, sorted.
func (c *Cluster) hosts() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for name := range c.nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// processes returns the last process of each host, sorted by host.
func (c *Cluster) processes() []*process {
	var all []*process
	for _, host := range c.hosts() {
		c.mu.Lock()
		all = append(all, c.nodes[host])
		c.mu.Unlock()
	}
	return all
}

func (c *Cluster) allClients() []*Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*Client
	for _, cl := range c.clients {
		all = append(all, cl)
	}
	slices.SortFunc(all, func(a, b *Client) int { return strings.Compare(a.name, b.name) })
	return all
}

// clock returns a host's wall clock.
func (c *Cluster) clock(host string) func() time.Time {
	return func() time.Time {
		c.mu.Lock()
		off := c.clocks[host]
		c.mu.Unlock()
		return time.Now().Add(off)
	}
}

// sink returns the sink of a node's claims, which passes them to the gate. At a
// Point it also blocks while the process is paused.
func (c *Cluster) sink(host string) trace.Sink {
	if c.gate == nil {
		return nil
	}
	return func(claim trace.Claim) {
		c.gate.Sink(claim)
		if claim.Kind.Point() {
			if thawed := c.net.Awake(host); thawed != nil {
				<-thawed
			}
		}
	}
}

func (c *Cluster) logger(host string) hclog.Logger {
	if c.o.Log == nil {
		return hclog.NewNullLogger()
	}
	return hclog.New(&hclog.LoggerOptions{Name: host, Level: hclog.Debug, Output: timestamped{c.o.Log}, DisableTime: true})
}

// timestamped writes the bubble's time before each line.
type timestamped struct{ to io.Writer }

func (w timestamped) Write(p []byte) (int, error) {
	_, err := fmt.Fprintf(w.to, "%s %s", time.Now().UTC().Format("04:05.000000"), p)
	return len(p), err
}

func addresses(role string, n int, port string) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s-%d%s", role, i+1, port))
	}
	return all
}
