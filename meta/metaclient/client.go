package metaclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Config says who the node is and what it shares with its client.
type Config struct {
	// Self is how the node registers: identity, role, and the address that
	// others are told. Draining and Dialable are not read: Report and the leader
	// say them.
	Self wire.Member
	// DataCenter is told to the leader, which refuses a node of another one (as the
	// original does). Empty: not compared.
	DataCenter string
	// Metas are addresses of meta nodes; one that answers is enough, since the
	// leader tells the others.
	Metas []string
	// Peers makes the calls; View and Fence are the node's own, shared with its
	// interceptor.
	Peers *wire.Peers
	View  *wire.View
	Fence *wire.Fence
	// Logger is told when a leader is found and lost.
	Logger hclog.Logger
	// Rand is the stream for jitter; nil draws a seed.
	Rand *rand.Rand
	// Beat is the time between two beats up, and the one expected between two
	// down. Default 1 s; a third of the node lease at most.
	Beat time.Duration
	// Report says what goes up with each beat: every slot that the node holds,
	// its load, whether it serves, and whether it is on its way out. It is called
	// from one goroutine at a time and must not block. Nil: always ready.
	Report func() (reports []*wirev1.SlotReport, load uint32, ready, draining bool)
	// Heard, when set, is called with every message of a leader, after its state
	// went to View; it must not block. Metas feed their elector from it.
	Heard func(*wirev1.JoinResponse)
	// Broke, when set, is called when a stream on which a leader had been heard
	// ended.
	Broke func(l Leader, err error)
	// Guess, when set, says whom the caller takes for the leader, from elsewhere
	// (a meta knows it from the database); asked when nobody else names one.
	Guess func() (Leader, bool)
}

// Leader is whom the client follows.
type Leader struct {
	Term    uint64
	Node    conclave.NodeID
	Address string
}

// Client keeps one node in touch with the leader. All methods may be called
// from any goroutine, also before and after Run.
type Client struct {
	Config
	hints   chan struct{} // one token: hint was set
	pokes   chan struct{} // one token: send a beat now
	fetches chan struct{} // one token: ahead was set

	mu         sync.Mutex    // guards the rest; never held across a call
	hint       Leader        // somebody said that this one leads
	leader     Leader        // of the stream that is held; zero while seeking
	registered chan struct{} // closed while the written list names us
	isWritten  bool          // registered is closed
	heard      time.Time     // when a leader was last heard; at first, when New was called
	everHeard  bool
	nodeLease  time.Duration // what the leader said
	learned    []string      // addresses of metas that leaders told
	ahead      string        // address of a peer that holds a newer table
	refusal    error         // why the leader does not admit this node; nil: it does, or none was asked
}

// defaultNodeLease holds until a leader has said its own.
const defaultNodeLease = 3 * time.Second

// New makes a client; nothing is sent before Run.
func New(c Config) *Client {
	if c.Beat <= 0 {
		c.Beat = time.Second
	}
	if c.Rand == nil {
		c.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return &Client{
		Config:     c,
		hints:      make(chan struct{}, 1),
		pokes:      make(chan struct{}, 1),
		fetches:    make(chan struct{}, 1),
		registered: make(chan struct{}),
		heard:      time.Now(),
		nodeLease:  defaultNodeLease,
	}
}

// Run finds the leader and follows it until ctx ends, whose error it returns.
// It gives up only on what no waiting mends: another living process has the
// node's name (wire.CodeConflict), or, before the node was ever registered, the
// leader refuses the request itself (wire.CodeBadRequest, wire.CodeUnauthorized).
// It may be called again after it has returned.
func (c *Client) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var fetching sync.WaitGroup
	fetching.Go(func() { c.runFetch(ctx) })
	defer fetching.Wait()
	defer cancel()

	pause := newPause(c.Rand)
	for {
		target, err := c.seek(ctx)
		if err == nil {
			var spoke bool
			spoke, err = c.join(ctx, target)
			if spoke {
				pause.broke()
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if c.hopeless(err) {
			return fmt.Errorf("join the cluster as %s: %w", c.Self.Node.Name, err)
		}
		c.Logger.Debug("no leader yet", "target", target.Address, "error", err)
		if !c.hintedSoon(ctx, pause.next()) {
			return ctx.Err()
		}
	}
}

// hopeless says that trying again would end the same way.
func (c *Client) hopeless(err error) bool {
	switch wire.CodeOf(err) {
	case wire.CodeConflict:
		return true
	case wire.CodeBadRequest, wire.CodeUnauthorized:
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.everHeard
	}
	return false
}

// hintedSoon waits for d, or until somebody names a leader; false when ctx
// ended.
func (c *Client) hintedSoon(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-c.hints:
		c.putBack()
	}
	return true
}

// Poke sends a beat now, because there is something to report. It never blocks.
func (c *Client) Poke() { wake(c.pokes) }

// Announced tells the client that a leader made itself known; NodeService calls
// it. It never blocks.
func (c *Client) Announced(term uint64, leader conclave.NodeID, address string) {
	if c.suggest(Leader{Term: term, Node: leader, Address: address}) {
		wake(c.hints)
	}
}

// Registered says that the last leader heard has written a member list that
// names this incarnation.
func (c *Client) Registered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isWritten
}

// Refusal is why the leader that was last asked did not admit this node, for
// instance because it cannot be dialled at the address that it advertises. Nil
// when none has refused it since it was last admitted.
func (c *Client) Refusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusal
}

// refused keeps a refusal, and logs it when it is another one than before.
func (c *Client) refused(why error) {
	c.mu.Lock()
	news := c.refusal == nil || c.refusal.Error() != why.Error()
	c.refusal = why
	c.mu.Unlock()
	if news {
		c.Logger.Warn("the leader does not admit this node, will retry", "node", c.Self.Node, "address", c.Self.Address, "why", why)
	}
}

// WaitRegistered blocks until Registered, or until ctx ends.
func (c *Client) WaitRegistered(ctx context.Context) error {
	c.mu.Lock()
	registered := c.registered
	c.mu.Unlock()
	select {
	case <-registered:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for a leader to register %s: %w", c.Self.Node.Name, ctx.Err())
	}
}

// Leader is whom the client follows now; false while it is seeking.
func (c *Client) Leader() (Leader, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leader, c.leader.Term > 0
}

// LeaderHeard is when a leader last spoke, on this node's own monotonic clock;
// false when none ever did.
func (c *Client) LeaderHeard() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard, c.everHeard
}

// LostFor is how long no leader has been heard; it counts from New before the
// first.
func (c *Client) LostFor() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.heard)
}

// NodeLease is how long a silent node stays on the member list, as the leader
// said it; 3 s before it has.
func (c *Client) NodeLease() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodeLease
}

// Metas are all addresses of metas known: the configured ones, then what
// leaders told.
func (c *Client) Metas() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.Config.Metas)
	for _, a := range c.learned {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// note takes what a message of the leader says, besides its state.
func (c *Client) note(l Leader, m *wirev1.JoinResponse) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed = c.leader != l
	c.leader, c.heard, c.everHeard = l, time.Now(), true
	c.refusal = nil
	if d := wire.FromMs(m.GetNodeLeaseMs()); d > 0 {
		c.nodeLease = d
	}
	if m.GetRegistered() != c.isWritten {
		c.isWritten = m.GetRegistered()
		if c.isWritten {
			close(c.registered)
		} else {
			c.registered = make(chan struct{})
		}
	}
	if len(m.GetMetas()) > 0 {
		c.learned = nil
		for _, meta := range m.GetMetas() {
			if a := meta.GetAddress(); a != "" && a != c.Self.Address {
				c.learned = append(c.learned, a)
			}
		}
	}
	return changed
}

// lost forgets whom the broken stream went to.
func (c *Client) lost() Leader {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.leader
	c.leader = Leader{}
	return l
}

// wake puts the one token of a channel.
func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Why a stream was given up by this side.
var (
	errSilent     = errors.New("the leader was not heard for two beats")
	errSuperseded = errors.New("another leader made itself known")
)
