package electortest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
)

// World is one store and the way to play on it.
type World struct {
	// Dial reaches the store. Every node gets it through a Cable of its own.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Strategy is the one under test, for one node; it dials through seat.Cable.
	Strategy func(t testing.TB, seat Seat) elector.Strategy
	// Lease of the candidates; the beat is a third of it.
	Lease time.Duration
	// Bubble says that the world is in memory and runs in a synctest bubble, where
	// leases pass in no time.
	Bubble bool
	// Push says that the leader's beats are pushed to the other nodes, and that they
	// notice when their stream to a killed leader breaks, as metas do.
	Push bool
	// Words are texts in requests, by which the suite finds those whose answers it
	// loses. nil: words of SQL.
	Words []string
	// Quiet keeps the nodes' log out of the test's.
	Quiet bool
	// FencedWrite tries an effect of the given leader on the store, in one statement
	// with the check of its term; false when it was refused. nil: the store has none.
	FencedWrite func(ctx context.Context, owner conclave.NodeID, term uint64) (bool, error)
}

// late is how long after it has happened a test may see something: at once in a bubble,
// and on a busy machine when it is the test's turn.
func (w World) late() time.Duration {
	if w.Bubble {
		return 0
	}
	return w.Lease / 4
}

// Seat is what one node's strategy gets.
type Seat struct {
	ID     conclave.NodeID
	Beat   time.Duration
	Cable  *Cable
	Rand   *rand.Rand
	Logger hclog.Logger
	// Ask asks the node that advertises address whether it leads term: alive or
	// stopped (also: nobody is there), or no answer.
	Ask func(ctx context.Context, address string, term uint64, lock string) (alive, answered bool)
}

// Cluster is some nodes in one election, and the ledger of who led what. It fails
// the test at once when a term has two owners or terms do not rise.
type Cluster struct {
	t     testing.TB
	world World

	mu      sync.Mutex // guards what follows
	nodes   []*Node
	ledger  []Entry
	changed chan struct{} // closed and replaced at each event
}

// Entry is one leadership in the ledger.
type Entry struct {
	Term  elector.Term
	Node  conclave.NodeID
	Began time.Time
}

// Option changes a node's configuration before it is made.
type Option func(*elector.Config)

// NewCluster starts n nodes named n1, n2, ... one after the other.
func NewCluster(t testing.TB, world World, n int, options ...Option) *Cluster {
	c := &Cluster{t: t, world: world, changed: make(chan struct{})}
	for i := range n {
		c.Add(fmt.Sprintf("n%d", i+1), options...)
	}
	return c
}

// Node is one candidate.
type Node struct {
	*elector.Elector
	ID       conclave.NodeID
	Cable    *Cable
	Strategy elector.Strategy

	c      *Cluster
	cancel context.CancelFunc
	group  sync.WaitGroup // Run, and who listens to it; Kill joins them
	mute   bool           // does not answer questions; guarded by c.mu
	dead   bool           // its port is closed; guarded by c.mu
}

// Add starts a node; a name that was there before comes back as a new incarnation.
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
	level := hclog.Debug
	if c.world.Quiet {
		level = hclog.Off
	}
	logger := hclog.New(&hclog.LoggerOptions{Name: name, Level: level, Output: lines{c.t}, DisableTime: true})
	cfg := elector.Config{
		ID:      n.ID,
		Address: n.ID.String(),
		Lease:   c.world.Lease,
		Rand:    rand.New(rand.NewPCG(uint64(count)+1, 8)),
		Logger:  logger,
		Lead: func(ctx context.Context, _ elector.Term) error {
			<-ctx.Done()
			return nil
		},
		WakePeers: func(context.Context, elector.Term) {
			for _, peer := range c.Nodes() {
				if peer != n {
					peer.Wake()
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
	n.Strategy = c.world.Strategy(c.t, Seat{
		ID: n.ID, Beat: c.world.Lease / 3, Cable: n.Cable,
		Rand: rand.New(rand.NewPCG(uint64(count)+1, 9)), Logger: logger.Named("strategy"), Ask: c.ask,
	})
	cfg.Strategy = n.Strategy
	for _, option := range options {
		option(&cfg)
	}
	lead := cfg.Lead
	cfg.Lead = func(ctx context.Context, term elector.Term) error {
		c.led(n, term)
		defer c.event()
		return lead(ctx, term)
	}
	e, err := elector.New(cfg)
	require.NoError(c.t, err)
	n.Elector = e
	changes := e.Changes(context.Background())
	n.group.Go(func() {
		for range changes {
			c.event()
		}
	})

	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	c.mu.Lock()
	c.nodes = append(c.nodes, n)
	c.mu.Unlock()
	n.group.Go(func() {
		defer c.event()
		_ = n.Run(ctx) // its end is what the test asks for
	})
	return n
}

// ask is the question to a leader's port.
func (c *Cluster) ask(ctx context.Context, address string, term uint64, lock string) (alive, answered bool) {
	for _, n := range c.Nodes() {
		c.mu.Lock()
		mute, dead := n.mute, n.dead
		c.mu.Unlock()
		switch {
		case n.ID.String() != address:
		case dead:
			return false, true
		case mute:
			<-ctx.Done()
			return false, false
		default:
			return n.ConfirmLeading(term, lock), true
		}
	}
	return false, true
}

// led enters a leadership into the ledger, and checks it.
func (c *Cluster) led(n *Node, term elector.Term) {
	c.mu.Lock()
	for _, past := range c.ledger {
		if past.Term.Number >= term.Number {
			c.t.Errorf("%s leads term %d after %s led term %d", n.ID, term.Number, past.Node, past.Term.Number)
		}
	}
	c.ledger = append(c.ledger, Entry{Term: term, Node: n.ID, Began: time.Now()})
	c.mu.Unlock()
	c.event()
}

// Ledger is who has led, in order.
func (c *Cluster) Ledger() []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Entry(nil), c.ledger...)
}

// Nodes are all that were ever added.
func (c *Cluster) Nodes() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Node(nil), c.nodes...)
}

// PerceivedLeaders are the nodes that lead right now, in their own view.
func (c *Cluster) PerceivedLeaders() []*Node {
	var list []*Node
	for _, n := range c.Nodes() {
		if _, leading := n.Leading(); leading {
			list = append(list, n)
		}
	}
	return list
}

// event tells those who wait that something has happened.
func (c *Cluster) event() {
	c.mu.Lock()
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
}

// Until waits for claim to become true; it is looked at after each event, and now
// and then. It gives up after thirty leases.
func (c *Cluster) Until(what string, claim func() bool) {
	c.t.Helper()
	limit := time.NewTimer(30 * c.world.Lease)
	defer limit.Stop()
	look := time.NewTicker(c.world.Lease / 1000)
	defer look.Stop()
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if claim() {
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

// Leader waits for a node that leads.
func (c *Cluster) Leader() (*Node, elector.Term) {
	c.t.Helper()
	return c.LeaderAfter(0)
}

// entered says whether the ledger has the term: Lead has been called.
func (c *Cluster) entered(number uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.ledger) - 1
	return last >= 0 && c.ledger[last].Term.Number >= number
}

// LeaderAfter waits for a node that leads a higher term.
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

// Others are all living nodes but n.
func (c *Cluster) Others(n *Node) []*Node {
	var list []*Node
	for _, o := range c.Nodes() {
		c.mu.Lock()
		dead := o.dead
		c.mu.Unlock()
		if o != n && !dead {
			list = append(list, o)
		}
	}
	return list
}

// Mute makes the node's port silent: dialled, it does not answer.
func (n *Node) Mute() {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.mute = true
}

// Kill ends the node as kill -9 does: its sockets and its port are closed, nothing
// is said.
func (n *Node) Kill() {
	n.c.mu.Lock()
	n.dead = true
	n.c.mu.Unlock()
	n.Cable.Cut()
	if n.c.world.Push {
		for _, peer := range n.c.Others(n) {
			peer.Suspect()
		}
	}
	n.cancel()
	n.group.Wait()
}

// Stop ends all nodes.
func (c *Cluster) Stop() {
	for _, n := range c.Nodes() {
		n.Kill()
	}
}

// lines writes a log into the test's.
type lines struct{ t testing.TB }

func (l lines) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}
