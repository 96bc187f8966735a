package metaclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/internal/signal"
	"conclave/internal/sleep"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Config configures a Client.
type Config struct {
	// Self is how the node registers: its identity, its role, and its
	// advertised address. Draining and Dialable are ignored; they are set from
	// Report and by the leader.
	Self wire.Member
	// DataCenter is sent to the leader, which refuses a node of another one (as
	// the original does). Empty: not compared.
	DataCenter string
	// Metas are addresses of meta nodes. One that answers is enough, since the
	// leader sends the others.
	Metas []string
	// Peers makes the calls; View and Fence are the node's own, shared with its
	// interceptor.
	Peers *wire.Peers
	View  *wire.View
	Fence *wire.Fence
	// Logger receives a line when a leader is found or lost.
	Logger hclog.Logger
	// Rand is the source of jitter; nil draws a seed.
	Rand *rand.Rand
	// Beat is the time between two beats of this node, and the expected time
	// between two of the leader. Default 1 s; a third of the node lease at
	// most.
	Beat time.Duration
	// Beats are the node's, with which its beats to the leader are sent. Nil: its own.
	Beats *signal.Ticks
	// Report returns what each beat reports: every slot that the node holds,
	// its load, whether it serves, and whether it is draining. It is called
	// from one goroutine at a time, which no beat waits for. Nil: always ready.
	Report func() (reports []*wirev1.SlotReport, load uint32, ready, draining bool)
	// Unheard, if set, returns the addresses of the data nodes that a session does
	// not hear, for each beat with a report; it must not block.
	Unheard func() []string
	// OnMessage, if set, is called with every message of a leader, after its state
	// went to View; it must not block. Metas pass the beats to their elector
	// with it.
	OnMessage func(*wirev1.JoinResponse)
	// Broke, if set, is called when a stream on which a leader had sent a
	// message ended.
	Broke func(l Leader, err error)
	// Guess, if set, returns the leader as the caller knows it from elsewhere
	// (a meta knows it from the database). It is used when no meta names one.
	Guess func() (Leader, bool)
}

// Leader is a leader that the client follows or could follow.
type Leader struct {
	Term    uint64
	Node    conclave.NodeID
	Address string
}

// Client keeps one node connected to the leader. All methods may be called from
// any goroutine, also before and after Run.
type Client struct {
	Config
	hints   signal.Signal // hint was set
	pokes   signal.Signal // send a beat now
	tables  signal.Signal // a table was received: send a beat now, without a report
	fetches signal.Signal // ahead was set

	reporter *reporter

	contact atomic.Pointer[contact]
	updated signal.Broadcast // notified when a leader's message has changed contact

	mu         sync.Mutex     // guards the rest, and is held while contact is replaced; never held across a call
	hint       Leader         // the leader that was last suggested
	learned    []string       // addresses of metas, as leaders sent them
	ahead      string         // address of a peer that holds a newer table,
	aheadEpoch conclave.Epoch // and that table's epoch
}

// contact is what the leaders' messages say of this node. It is replaced as a whole.
type contact struct {
	leader     Leader    // of the stream that is held; zero while seeking
	at         time.Time // when a leader's message last arrived; before the first, when New was called
	ever       bool      // one has arrived
	registered bool      // the written member list contains this node
	refusal    error     // why the leader does not admit this node; nil: it does, or has not been asked
	lease      time.Duration
}

// change replaces contact, with mu held.
func (c *Client) change(f func(*contact)) {
	next := *c.contact.Load()
	f(&next)
	c.contact.Store(&next)
}

// defaultNodeLease is used until a leader has sent its own.
const defaultNodeLease = 3 * time.Second

// New returns a client that sends nothing before Run.
func New(c Config) *Client {
	if c.Beat <= 0 {
		c.Beat = time.Second
	}
	if c.Rand == nil {
		c.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if c.Beats == nil {
		c.Beats = signal.NewTicks(c.Beat, c.Rand)
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	n := &Client{Config: c, hints: signal.New(), pokes: signal.New(), tables: signal.New(), fetches: signal.New(), reporter: newReporter()}
	n.contact.Store(&contact{at: time.Now(), lease: defaultNodeLease})
	return n
}

// The pauses between two tries to find the leader, each with a jitter of half of it, so
// that the nodes do not ask in step. A new leader cuts a pause short by announcing itself;
// only a node that it cannot reach finds it by asking.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = 250 * time.Millisecond
	afterContact  = 12 * time.Millisecond // doubled after a stream that was held
)

// Run finds the leader and follows it until ctx ends, whose error it returns.
// It gives up only on errors that waiting cannot resolve: another living
// process has the node's name (wire.CodeConflict), or, before the node was ever
// registered, the leader refuses the request itself (wire.CodeBadRequest,
// wire.CodeUnauthorized). It may be called again after it has returned.
func (c *Client) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() { c.runFetch(ctx) })
	if c.Report != nil {
		working.Go(func() { c.reporter.run(ctx, c.Report) })
	}
	defer working.Wait()
	defer cancel()

	var pause time.Duration
	for {
		target, err := c.seek(ctx)
		if err == nil {
			var contact bool
			contact, err = c.join(ctx, target)
			if contact { // by now a killed leader has a successor, which asking would only delay
				pause = afterContact
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if c.permanent(err) {
			return fmt.Errorf("join the cluster as %s: %w", c.Self.Node.Name, err)
		}
		c.Logger.Debug("no leader yet", "target", target.Address, "error", err)
		pause = sleep.Longer(pause, shortestPause, longestPause)
		if !c.waitForHint(ctx, pause/2+time.Duration(c.Rand.Int64N(int64(pause)))) {
			return ctx.Err()
		}
	}
}

// AwaitSuccessor waits until a leader announces itself, or for as long as an election takes,
// or until ctx ends. A meta that has led calls it before Run: asking would delay the election.
func (c *Client) AwaitSuccessor(ctx context.Context) {
	c.waitForHint(ctx, afterContact+time.Duration(c.Rand.Int64N(int64(afterContact))))
}

// permanent reports whether another try would end in the same way.
func (c *Client) permanent(err error) bool {
	switch wire.CodeOf(err) {
	case wire.CodeConflict:
		return true
	case wire.CodeBadRequest, wire.CodeUnauthorized:
		return !c.contact.Load().ever
	}
	return false
}

// waitForHint waits for d, or until a leader is suggested. It returns false if
// ctx ended.
func (c *Client) waitForHint(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-c.hints.C():
		c.putBack()
	}
	return true
}

// Poke sends a beat now, because there is something to report, or in reportPause
// if it has just sent one. It never blocks.
func (c *Client) Poke() { c.pokes.Set() }

// PokeSoon sends a beat in 20 ms: what there is to report can wait until the
// hand-overs that a table begins have ended. It never blocks.
func (c *Client) PokeSoon() { time.AfterFunc(20*time.Millisecond, c.Poke) }

// Announced suggests a leader that has announced itself; NodeService calls it.
// It never blocks.
func (c *Client) Announced(term uint64, leader conclave.NodeID, address string) {
	if c.suggest(Leader{Term: term, Node: leader, Address: address}) {
		c.hints.Set()
	}
}

// Registered reports whether the last leader has written a member list with
// this incarnation.
func (c *Client) Registered() bool { return c.contact.Load().registered }

// Refusal returns why the last leader asked did not admit this node, for
// instance because it cannot be dialed at its advertised address. It is nil if
// no leader has refused the node since it was last admitted.
func (c *Client) Refusal() error { return c.contact.Load().refusal }

// refused records a refusal, and logs it if it differs from the previous one.
func (c *Client) refused(why error) {
	c.mu.Lock()
	last := c.Refusal()
	c.change(func(now *contact) { now.refusal = why })
	c.mu.Unlock()
	if last == nil || last.Error() != why.Error() {
		c.Logger.Warn("the leader does not admit this node, will retry", "node", c.Self.Node, "address", c.Self.Address, "why", why)
	}
}

// WaitRegistered blocks until Registered, or until ctx ends.
func (c *Client) WaitRegistered(ctx context.Context) error {
	for {
		updated := c.updated.Next()
		if c.Registered() {
			return nil
		}
		select {
		case <-updated:
		case <-ctx.Done():
			return fmt.Errorf("wait for a leader to register %s: %w", c.Self.Node.Name, ctx.Err())
		}
	}
}

// Leader returns the leader that the client follows; false while it is seeking.
func (c *Client) Leader() (Leader, bool) {
	l := c.contact.Load().leader
	return l, l.Term > 0
}

// LastContact returns when a leader's message last arrived, on this node's own
// monotonic clock; false if none ever did.
func (c *Client) LastContact() (time.Time, bool) {
	now := c.contact.Load()
	return now.at, now.ever
}

// LostFor returns how long no leader's message has arrived; before the first,
// it counts from New.
func (c *Client) LostFor() time.Duration { return time.Since(c.contact.Load().at) }

// NodeLease returns how long a silent node stays on the member list, as the
// leader sent it; 3 s before it has.
func (c *Client) NodeLease() time.Duration { return c.contact.Load().lease }

// Metas returns all known addresses of metas: the configured ones, then those
// that leaders sent.
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

// update records what a message of the leader contains besides the state.
func (c *Client) update(l Leader, m *wirev1.JoinResponse) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.contact.Load().leader
	c.change(func(now *contact) {
		now.leader, now.at, now.ever, now.registered, now.refusal = l, time.Now(), true, m.GetRegistered(), nil
		if d := wire.FromMs(m.GetNodeLeaseMs()); d > 0 {
			now.lease = d
		}
	})
	c.updated.Notify()
	if len(m.GetMetas()) > 0 {
		c.learned = nil
		for _, meta := range m.GetMetas() {
			if a := meta.GetAddress(); a != "" && a != c.Self.Address {
				c.learned = append(c.learned, a)
			}
		}
	}
	return last != l
}

// clearLeader returns the leader of the stream that broke, and forgets it.
func (c *Client) clearLeader() Leader {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.contact.Load().leader
	c.change(func(now *contact) { now.leader = Leader{} })
	return l
}

// The reasons for which this side ends a stream.
var (
	errSilent     = errors.New("no message of the leader arrived for two beats")
	errSuperseded = errors.New("another leader announced itself")
)
