package electortest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/internal/signal"
)

// World is a store, and how to make strategies on it.
type World struct {
	// Dial connects to the store. Each node uses it through its own Cable.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Strategy makes the strategy under test for one node. It must dial through
	// spec.Cable.
	Strategy func(t testing.TB, spec NodeSpec) elector.Strategy
	// Lease of the candidates; the beat is a third of it.
	Lease time.Duration
	// Bubble means that the world is in memory and runs in a synctest bubble.
	Bubble bool
	// Push means that the leader's beats are pushed to the other nodes, and that they
	// are notified when the stream from a killed leader breaks, as in meta nodes.
	Push bool
	// Quiet keeps the nodes' log lines out of the test's log.
	Quiet bool
	// FencedWrite writes to the store as the given leader, in one statement with the
	// check of its term, and reports whether the write was accepted. nil if the store
	// has no such write.
	FencedWrite func(ctx context.Context, owner conclave.NodeID, term uint64) (bool, error)
}

// late returns how late a test may see an event: not at all in a bubble, up to a quarter
// of a lease on a busy machine.
func (w World) late() time.Duration {
	if w.Bubble {
		return 0
	}
	return w.Lease / 4
}

// NodeSpec is what a strategy needs to know about its node.
type NodeSpec struct {
	ID     conclave.NodeID
	Beat   time.Duration
	Cable  *Cable
	Rand   *rand.Rand
	Logger *slog.Logger
	// Ask asks the node with this address whether it leads term. answered is false if
	// there was no answer; a closed port counts as the answer that it is not alive.
	Ask func(ctx context.Context, address string, term uint64, lock string) (alive, answered bool)
}

// Cluster is a set of nodes in one election, and the ledger of their leaderships. It
// fails the test at once when a term has two owners or terms do not rise.
type Cluster struct {
	t       testing.TB
	world   World
	changed signal.Broadcast // notified at each event

	mu     sync.Mutex // guards the fields below
	nodes  []*Node
	ledger []Entry
}

// Entry is one leadership in the ledger.
type Entry struct {
	Term  elector.Term
	Node  conclave.NodeID
	Began time.Time
}

// Option changes a node's configuration before it is made.
type Option func(*elector.Config)

// NewCluster starts n nodes, named n1, n2 and so on.
func NewCluster(t testing.TB, world World, n int, options ...Option) *Cluster {
	c := &Cluster{t: t, world: world}
	c.start(n, options...)
	return c
}

func (c *Cluster) start(n int, options ...Option) {
	for i := range n {
		c.Add(fmt.Sprintf("n%d", i+1), options...)
	}
}

// Node is one candidate.
type Node struct {
	*elector.Elector
	ID       conclave.NodeID
	Cable    *Cable
	Strategy elector.Strategy

	c      *Cluster
	cancel context.CancelFunc
	group  sync.WaitGroup // Run, and the reader of its changes; Kill joins them
	silent atomic.Bool    // does not answer questions
	dead   atomic.Bool    // killed: its port is closed
}

// Add starts a node. A name that was used before gets a new incarnation.
func (c *Cluster) Add(name string, options ...Option) *Node {
	c.mu.Lock()
	count := len(c.nodes)
	c.mu.Unlock()
	random := rand.New(rand.NewPCG(uint64(count)+1, 7))
	n := &Node{
		ID:    conclave.NodeID{Name: name, Incarnation: conclave.NewIncarnation(random)},
		Cable: NewCable(c.world.Dial),
		c:     c,
	}
	logger := slog.New(slog.DiscardHandler)
	if !c.world.Quiet {
		logger = slog.New(slog.NewTextHandler(lines{c.t}, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", name)
	}
	cfg := elector.Config{
		ID:      n.ID,
		Address: n.ID.String(),
		Lease:   c.world.Lease,
		// Kill ends Run's context.
		HandOver: elector.NoHandOver,
		Rand:     rand.New(rand.NewPCG(uint64(count)+1, 8)),
		Logger:   logger,
		Lead:     func(ctx context.Context, _ elector.Term) error { <-ctx.Done(); return nil },
		WakePeers: func(_ context.Context, resigned elector.Term) {
			for _, peer := range c.Nodes() {
				if peer != n {
					peer.Resigned(resigned.Number)
				}
			}
		},
	}
	if c.world.Push {
		cfg.OnBeat = func(term elector.Term) {
			for _, peer := range c.Others(n) {
				peer.Observe(term)
			}
		}
	}
	n.Strategy = c.world.Strategy(c.t, NodeSpec{
		ID: n.ID, Beat: c.world.Lease / 3, Cable: n.Cable,
		Rand: rand.New(rand.NewPCG(uint64(count)+1, 9)), Logger: logger.With("part", "strategy"), Ask: c.ask,
	})
	cfg.Strategy = n.Strategy
	for _, option := range options {
		option(&cfg)
	}
	lead := cfg.Lead
	cfg.Lead = func(ctx context.Context, term elector.Term) error {
		c.led(n, term)
		defer c.changed.Notify()
		return lead(ctx, term)
	}
	e, err := elector.New(cfg)
	require.NoError(c.t, err)
	n.Elector = e
	changes := e.Changes(context.Background())
	n.group.Go(func() {
		for range changes {
			c.changed.Notify()
		}
	})

	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	c.mu.Lock()
	c.nodes = append(c.nodes, n)
	c.mu.Unlock()
	n.group.Go(func() {
		defer c.changed.Notify()
		_ = n.Run(ctx) // its error is the cancellation by the test
	})
	return n
}

// ask asks at a leader's port.
func (c *Cluster) ask(ctx context.Context, address string, term uint64, lock string) (alive, answered bool) {
	for _, n := range c.Nodes() {
		switch {
		case n.ID.String() != address:
		case n.dead.Load():
			return false, true
		case n.silent.Load():
			<-ctx.Done()
			return false, false
		default:
			return n.ConfirmLeading(term, lock), true
		}
	}
	return false, true
}

// led adds a leadership to the ledger, and checks it: a term has one leader, and terms
// rise. A node whose win was answered late may begin its term after the next one has
// begun, but not by more than a lease: its trust is counted from before its request.
func (c *Cluster) led(n *Node, term elector.Term) {
	c.mu.Lock()
	for _, past := range c.ledger {
		if past.Term.Number == term.Number || past.Term.Number > term.Number && time.Since(past.Began) > c.world.Lease {
			c.t.Errorf("%s leads term %d after %s led term %d", n.ID, term.Number, past.Node, past.Term.Number)
		}
	}
	c.ledger = append(c.ledger, Entry{Term: term, Node: n.ID, Began: time.Now()})
	c.mu.Unlock()
	c.changed.Notify()
}

// Ledger returns all leaderships so far, in order.
func (c *Cluster) Ledger() []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ledger)
}

// Nodes returns all nodes that were added, including killed ones.
func (c *Cluster) Nodes() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

// PerceivedLeaders returns the nodes that believe they lead now.
func (c *Cluster) PerceivedLeaders() []*Node {
	var list []*Node
	for _, n := range c.Nodes() {
		if _, leading := n.Leading(); leading {
			list = append(list, n)
		}
	}
	return list
}

// Until waits until condition returns true. It is called after each event, and at short
// intervals. After thirty leases Until fails the test.
func (c *Cluster) Until(what string, condition func() bool) {
	c.t.Helper()
	limit := time.NewTimer(30 * c.world.Lease)
	defer limit.Stop()
	look := time.NewTicker(c.world.Lease / 1000)
	defer look.Stop()
	for {
		changed := c.changed.Next()
		if condition() {
			return
		}
		select {
		case <-changed:
		case <-look.C:
		case <-limit.C:
			require.FailNow(c.t, "waited too long", "for %s", what)
		}
	}
}

// Leader waits for a node that leads, and returns it.
func (c *Cluster) Leader() (*Node, elector.Term) {
	c.t.Helper()
	return c.LeaderAfter(0)
}

// entered reports whether the ledger has the term, which means that Lead was called.
func (c *Cluster) entered(number uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.ledger) - 1
	return last >= 0 && c.ledger[last].Term.Number >= number
}

// LeaderAfter waits for a node that leads a higher term, and returns it.
func (c *Cluster) LeaderAfter(number uint64) (leader *Node, term elector.Term) {
	c.t.Helper()
	c.Until(fmt.Sprintf("a leader after term %d", number), func() bool {
		for _, n := range c.Nodes() {
			if t, leading := n.Leading(); leading && t.Number > number && c.entered(t.Number) {
				leader, term = n, t
				return true
			}
		}
		return false
	})
	return leader, term
}

// followed waits until the other nodes know that n leads.
func (c *Cluster) followed(n *Node) {
	for _, o := range c.Others(n) {
		c.Until("a follower", func() bool { return o.Current().Leader == n.ID })
	}
}

// Others returns all nodes but n that are not killed.
func (c *Cluster) Others(n *Node) []*Node {
	var list []*Node
	for _, o := range c.Nodes() {
		if o != n && !o.dead.Load() {
			list = append(list, o)
		}
	}
	return list
}

// StopAnswering makes the node's port silent: it accepts questions but does not answer.
func (n *Node) StopAnswering() { n.silent.Store(true) }

// Kill ends the node as kill -9 does: its sockets and its port are closed, and it sends
// nothing.
func (n *Node) Kill() {
	n.dead.Store(true)
	n.Cable.Cut()
	if n.c.world.Push {
		for _, peer := range n.c.Others(n) {
			peer.Suspect()
		}
	}
	n.cancel()
	n.group.Wait()
}

// Stop kills all nodes.
func (c *Cluster) Stop() {
	for _, n := range c.Nodes() {
		n.Kill()
	}
}

// lines writes log lines to the test's log.
type lines struct{ t testing.TB }

func (l lines) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}
