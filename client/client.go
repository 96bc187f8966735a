package client

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/internal/signal"
	"conclave/wire"
)

// Client keeps an application's publications and subscriptions, and keeps them
// registered at a session. All methods may be called from any goroutine.
type Client struct {
	config Config
	log    *slog.Logger
	id     string
	peers  *wire.Peers
	token  atomic.Pointer[string]   // as last read
	given  atomic.Pointer[[]string] // the last result of Resolve, without Config.Bind

	callbacks  sync.WaitGroup
	background sync.WaitGroup // the goroutines of Start and of the links
	attempts   sync.WaitGroup // to connect; Run joins them
	ended      chan struct{}  // closed when Run has returned

	room    signal.Broadcast // Publish may not have to wait any more
	settled signal.Broadcast // every publication may be settled

	turns func() // waits until the other goroutines of the process have run

	closing      context.Context // ends when Close leaves, after it has waited
	beginClosing context.CancelFunc

	mu         sync.Mutex // guards the rest, also inside publications, subscriptions and links
	running    bool
	closed     bool                     // new publications, changes and subscriptions are refused
	muted      bool                     // no new callback is started
	seq        uint64                   // numbers publications, subscriptions and links in their order
	pubs       map[string]*Publication  // everything that a session must know: live ones, and tombstones until they are forgotten
	waiting    int                      // bytes of the publications in pubs that no session has accepted
	tombstones []*Publication           // the tombstones in pubs that data has, oldest first
	remember   time.Duration            // how long those are sent again, as the last session reported
	subs       map[string]*Subscription // all open subscriptions
	watches    []*Watch                 // all open watches, in the order in which they were made
	links      []*link                  // one; two while moving; none while there is no session
	lost       int64                    // sessions lost, see Lost
	advertised []string                 // sessions that take clients, as the last session reported
	former     []string                 // what a session reported before, until formerEnd: none of them took the client
	formerEnd  time.Time
	lease      time.Duration // of a client, as the last session reported; 0: not known
	unreached  error         // of the last attempt to connect, if no session is reached
	resolved   []string      // the last result of Resolve
	dropped    error         // why a Close has ended Run before everything was withdrawn
	refusal    error         // why the sessions refuse the token, until one accepts it
	welcomed   bool          // a session has taken this client at least once
}

// New checks the configuration and returns a client. It does not connect before
// Run or Start. What is published and subscribed before that is sent once there
// is a session.
func New(c Config) (*Client, error) {
	c = c.withDefaults()
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	out := &Client{config: c, log: c.Logger, ended: make(chan struct{}), pubs: map[string]*Publication{}, subs: map[string]*Subscription{}, turns: takeTurns}
	out.peers = wire.NewPeers(c.Network, &wire.Interceptor{Token: out.tokenFor}, wire.ClientPingTimeout)
	if c.TLSFrom != nil {
		out.peers.UseTLS(c.TLSFrom)
	}
	out.closing, out.beginClosing = context.WithCancel(context.Background())
	out.id = out.newID()
	return out, nil
}

// newID returns a random id, so that no order between two processes of an
// application is ever needed. The lock is held, or c is not shared yet.
func (c *Client) newID() string {
	b := binary.LittleEndian.AppendUint64(nil, c.config.Rand.Uint64())
	return hex.EncodeToString(binary.LittleEndian.AppendUint64(b, c.config.Rand.Uint64()))
}

// Run keeps the client connected until Close, and then returns nil. If ctx ends
// first, Run returns its error without a good-bye, as if the process had died:
// the session keeps the registrations for at most its client lease, or for Linger if
// that was announced and everything is known to be stored. Losing sessions,
// even all of them, does not end Run: the client retries for ever. A client runs
// once: after Close or another Run it returns ErrClosed, while it runs another error.
func (c *Client) Run(ctx context.Context) error {
	if err := c.begin(); err != nil {
		return err
	}
	return c.run(ctx)
}

// Start calls Run in the background, until Close. After Close, or a second time, it
// only logs an error.
func (c *Client) Start() {
	if err := c.begin(); err != nil {
		c.log.Error("the client was not started", "error", err)
		return
	}
	c.background.Go(func() { _ = c.run(context.Background()) }) // nil: only Close ends it
}

// begin decides whether the client may run: a Close at the same time either
// prevents the run, or waits for its end.
func (c *Client) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case c.running:
		return errors.New("client: it is running already")
	}
	c.running = true
	return nil
}

func (c *Client) run(ctx context.Context) error {
	defer close(c.ended)
	defer c.attempts.Wait()
	defer c.peers.Close()
	err := c.runLinks(ctx)
	c.mu.Lock()
	c.closed, c.muted = true, true
	c.mu.Unlock()
	c.callbacks.Wait()
	return err
}

// Close withdraws everything, waits until data has that, says good-bye and ends
// Run. Before Run and Start it only makes them fail. If no session has ever taken
// the client, because its token is refused, there is nothing to withdraw, and Close
// returns at once.
//
// If ctx ends first, the rest is dropped as if the process had died: the session
// withdraws it when its client lease expires. Close then returns an error, within two
// seconds of the end of ctx, also while a callback is running. It may be called
// again, also at the same time; the first ctx that ends is that of all calls.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.room.Notify()
	if !c.running { // nothing was sent
		if first {
			close(c.ended)
		}
		c.mu.Unlock()
		return nil
	}
	for _, p := range c.sorted() {
		if !p.withdrawn {
			c.advance(p, nil, true)
		}
	}
	for settled := c.settled.Next(); !c.allSettled() && !isDone(c.ended); settled = c.settled.Next() {
		c.mu.Unlock()
		select {
		case <-settled:
		case <-c.ended:
		case <-ctx.Done():
		}
		c.mu.Lock()
		if ctx.Err() != nil && !c.allSettled() && !isDone(c.ended) {
			c.dropped = ctx.Err()
			break
		}
	}
	c.mu.Unlock()
	c.beginClosing()
	late := make(chan struct{})
	defer context.AfterFunc(ctx, func() { time.AfterFunc(3*leaveLimit/2, func() { close(late) }) })()
	select {
	case <-c.ended:
		c.background.Wait()
	case <-late: // a good-bye does not take as long
		return fmt.Errorf("close %s: it has not ended yet, a callback may be running: %w", c.config.Name, ctx.Err())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped != nil {
		return fmt.Errorf("close %s: not everything is known to be withdrawn: %w", c.config.Name, c.dropped)
	}
	return nil
}

// allSettled reports whether every publication is stored, or refused, or no session
// has ever taken this client and its token is refused. The lock is held.
func (c *Client) allSettled() bool {
	if !c.welcomed && c.refusal != nil {
		return true
	}
	for _, p := range c.pubs {
		if p.stored.version < p.version && p.err == nil {
			return false
		}
	}
	return true
}

// sorted returns the publications in the order in which they were made,
// followed by the withdrawn ones: the replacement of a withdrawn publication is
// sent before its withdrawal.
func (c *Client) sorted() []*Publication {
	var live, withdrawn []*Publication
	for _, p := range c.pubs {
		if p.withdrawn {
			withdrawn = append(withdrawn, p)
		} else {
			live = append(live, p)
		}
	}
	bySeq := func(a, b *Publication) int { return cmp.Compare(a.seq, b.seq) }
	slices.SortFunc(live, bySeq)
	slices.SortFunc(withdrawn, bySeq)
	return append(live, withdrawn...)
}

// sortedSubs returns the subscriptions in the order in which they were made.
func (c *Client) sortedSubs() []*Subscription {
	out := make([]*Subscription, 0, len(c.subs))
	for _, s := range c.subs {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *Subscription) int { return cmp.Compare(a.seq, b.seq) })
	return out
}

// wakeLinks makes the links send what was queued for them.
func (c *Client) wakeLinks() {
	c.mu.Lock()
	links := slices.Clone(c.links)
	c.mu.Unlock()
	for _, l := range links {
		l.ready.Set()
	}
}

// Name returns the name under which sessions display this client.
func (c *Client) Name() string { return c.config.Name }

// Connected returns the session at which this client is registered; two while
// it moves, none while it has no session.
func (c *Client) Connected() []conclave.NodeID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []conclave.NodeID
	for _, l := range c.links {
		out = append(out, l.session)
	}
	return out
}

// Lost returns how often the client has lost its session since it was started. A
// move that a session asked for, and the end of the client, are no losses.
func (c *Client) Lost() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// jittered returns a random time between half of d and d.
func (c *Client) jittered(d time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return d/2 + time.Duration(c.config.Rand.Int64N(int64(d/2)+1))
}
