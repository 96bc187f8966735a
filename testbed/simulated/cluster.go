package simulated

import (
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/internal/devdb"
	"conclave/internal/inprocess"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/outside"
	"conclave/testbed/simulated/simnet"
)

// Options configures a cluster in a bubble, except its size. The zero value is
// usable.
type Options struct {
	// Log receives the nodes' logs. If it is nil they are not formatted.
	Log io.Writer
	// Timeline, if not nil, receives the actions and the changes of the state.
	Timeline io.Writer
	// Tap, if not nil, is called with everything that is sent.
	Tap func(simnet.Sent)
	// Recording, if not nil, gets the messages and states of the cluster.
	Recording *Recording
}

// link is the shape of every link without a fault.
var link = simnet.Shape{Latency: 50 * time.Microsecond, Spread: 200 * time.Microsecond}

// drift is the largest relative error of a process's durations in either direction,
// which no ordinary quartz exceeds; the error is drawn at each start.
const drift = 200e-6

// Cluster is the whole cluster in a bubble.
// It must be used inside one bubble only.
type Cluster struct {
	o      Options
	size   testbed.Size
	gate   *trace.Gate
	net    *simnet.Net
	tables *devdb.Tables // the database's disk
	metas  []string

	unguarded atomic.Bool // testbed.Unguard

	clients outside.Clients

	mu       sync.Mutex // guards the fields below; not held while waiting
	nodes    map[string]*process
	clocks   map[string]time.Duration    // the offset of a host's wall clock
	standing map[string][]testbed.Action // cuts and delays between a host and all others, including later ones
	starts   uint64
	refusals map[string]int // by the kind of the statements, the number of the error

	operators map[string]bool // hosts of operators at work
}

var _ testbed.Cluster = (*Cluster)(nil)

// process is a node in the bubble.
type process struct {
	*inprocess.Process
	host string // the node's name, or that of its twin's host
	node conclave.NodeID

	advertise string // instead of its own address
}

// New returns a cluster, which Open starts.
func New(o Options) *Cluster {
	return &Cluster{
		o: o, tables: devdb.NewTables(), nodes: map[string]*process{},
		clocks: map[string]time.Duration{}, standing: map[string][]testbed.Action{}, operators: map[string]bool{}, refusals: map[string]int{},
	}
}

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

// hosts returns the hosts of all nodes that were ever started, sorted.
func (c *Cluster) hosts() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.nodes))
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
	all := testbed.Numbered(role, n)
	for i := range all {
		all[i] += port
	}
	return all
}

// note keeps the cuts and delays between a host and all others, for those to come.
func (c *Cluster) note(a testbed.Action) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case a.Peer != "":
	case a.Verb == testbed.Mend:
		delete(c.standing, a.Node)
	case a.Verb.Undo() == testbed.Mend:
		c.standing[a.Node] = append(c.standing[a.Node], a)
	}
}

// applyStanding applies to a new host the cuts and delays between one host and
// all others.
func (c *Cluster) applyStanding(host string) {
	c.mu.Lock()
	var acts []testbed.Action
	for name, list := range c.standing {
		if name != host {
			acts = append(acts, list...)
		}
	}
	c.mu.Unlock()
	slices.SortStableFunc(acts, func(x, y testbed.Action) int { return strings.Compare(x.Node, y.Node) })
	for _, a := range acts {
		c.changeLink(a, host)
	}
}

// changeLink applies an action to the link with one peer.
func (c *Cluster) changeLink(a testbed.Action, peer string) {
	ways := [][2]string{{a.Node, peer}, {peer, a.Node}}
	switch a.Verb {
	case testbed.CutOne, testbed.Reset, testbed.HalfOpen, testbed.LoseNext:
		ways = ways[:1]
	}
	for _, w := range ways {
		switch a.Verb {
		case testbed.Cut, testbed.CutOne:
			c.net.Cut(w[0], w[1])
		case testbed.Slow:
			c.net.Shape(w[0], w[1], simnet.Shape{
				Latency: link.Latency + a.By, Spread: link.Spread + a.Jitter, Bandwidth: a.Rate,
			})
		case testbed.Mend:
			c.net.Heal(w[0], w[1])
			c.net.Unshape(w[0], w[1])
		case testbed.Reset:
			c.net.Reset(w[0], w[1])
		case testbed.HalfOpen:
			c.net.HalfOpen(w[0], w[1])
		case testbed.LoseNext:
			c.net.LoseNext(w[1], w[0])
		}
	}
}
