package zklatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"conclave/internal/join"
	"conclave/internal/signal"
	"conclave/internal/sleep"
)

// ErrSuspended is the cause that ends a holder's context when the connection breaks, or
// when the session may have ended by the holder's own clock: the hold may be lost
// (CancelLeadershipException in article 004).
var ErrSuspended = errors.New("connection suspended: the hold may be lost")

// Config configures a Client. Servers and Timeout are required.
type Config struct {
	Servers []string // host:port
	// Timeout is how long the servers keep a session from which they receive nothing.
	// They may grant another one: see Session.Timeout.
	Timeout time.Duration
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error) // default TCP
	// Retry decides whether an acquisition starts again after its place in the queue is
	// lost. By default it does until the caller's context ends. A Latch does until it is
	// closed, whatever the policy.
	Retry  RetryPolicy
	Logger *slog.Logger // nil discards the log lines
}

// Client is a session with a ZooKeeper: go-zookeeper's connection, with contexts, a count
// of its connections, and the time at which the session was last confirmed. It makes the
// recipes (locks, latches, selectors), and deletes the nodes that they leave behind.
type Client struct {
	cfg   Config
	log   *slog.Logger
	zk    *zk.Conn
	ctx   context.Context // ends with Close: dials, pings and background work
	stop  context.CancelFunc
	ended chan struct{} // closed when the library's loop has ended
	group join.Group    // requests in progress, pings and background work; Close joins them
	once  sync.Once

	requests, woken atomic.Uint64

	mu      sync.Mutex // guards the fields below
	conn    *greeted   // the present connection
	session Session
	links   uint64
	changed signal.Broadcast // notified when the ID or Link of session changes
	closed  bool
	tries   int // dials since there was a session
	next    int // server to dial
}

// Dial returns a Client that connects in the background.
func Dial(cfg Config) (*Client, error) {
	switch {
	case len(cfg.Servers) == 0:
		return nil, errors.New("zklatch: Servers are missing")
	case cfg.Timeout < time.Millisecond:
		return nil, fmt.Errorf("zklatch: Timeout %v must be at least 1ms", cfg.Timeout)
	}
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	c := &Client{cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), ended: make(chan struct{})}
	c.ctx, c.stop = context.WithCancel(context.Background())
	if err := c.connect(); err != nil {
		c.stop()
		return nil, fmt.Errorf("zklatch: %w", err)
	}
	c.group.Go(c.runPings)
	return c, nil
}

// Session is the state of a client's session.
type Session struct {
	// ID is the session's id; 0 before the first one, and after it has expired.
	// Ephemeral nodes of another ID are deleted, or will be soon.
	ID int64
	// Link counts the connections from 1; it is 0 while there is none. If it has
	// changed, there was a time without a connection, in which watches reported
	// nothing.
	Link uint64
	// Timeout is what the servers have granted: they end a session from which they have
	// received nothing for that long.
	Timeout time.Duration
	// ConfirmedAt is when, by this process's monotonic clock, the last answered
	// request was sent. The servers have received from this session at that time or
	// later.
	ConfirmedAt time.Time
}

// Connected reports whether there is a connection now.
func (s Session) Connected() bool { return s.ID != 0 && s.Link != 0 }

// Until returns the earliest time at which the servers could end the session, by this
// process's monotonic clock. It is in the past if the session was not confirmed for too
// long, even if there seems to be a connection.
func (s Session) Until() time.Time {
	if s.ID == 0 {
		return time.Time{}
	}
	return s.ConfirmedAt.Add(s.Timeout)
}

// trustedUntil returns until when a node of the session may be relied on: a tenth of the
// timeout earlier than the servers could end it.
func (s Session) trustedUntil() time.Time { return s.Until().Add(-s.Timeout / 10) }

// reliable reports whether s is the session with this id, is connected, and was
// confirmed recently enough.
func (s Session) reliable(id int64) bool {
	return s.ID == id && s.Connected() && time.Now().Before(s.trustedUntil())
}

// whileReliable returns true after an event, and false when ctx ends, when the session with
// this id cannot be relied on, or when its connection was replaced since began.
func (c *Client) whileReliable(ctx context.Context, began Session, id int64, events <-chan zk.Event) bool {
	for {
		s, changed := c.Session()
		if s.Link != began.Link || !s.reliable(id) {
			return false
		}
		select {
		case <-events:
			return true
		case <-changed:
		case <-time.After(time.Until(s.trustedUntil())): // or it was confirmed meanwhile
		case <-ctx.Done():
			return false
		}
	}
}

// Session returns the session, and a channel that is closed when its ID or Link changes.
func (c *Client) Session() (Session, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session, c.changed.Next()
}

// Requests returns how many requests were made so far, without pings.
func (c *Client) Requests() uint64 { return c.requests.Load() }

// Woken returns how often a watch has woken a waiter of this Client.
func (c *Client) Woken() uint64 { return c.woken.Load() }

// Close ends the session, which deletes its nodes, stops the deletions that are still
// pending, and joins the Client's goroutines. Close or release the recipes before.
func (c *Client) Close() {
	c.once.Do(func() {
		c.mu.Lock()
		c.closed = true
		c.mu.Unlock()
		c.stop()
		c.zk.Close()
	})
	<-c.ended
	c.mu.Lock()
	c.session.ID, c.session.Link = 0, 0
	c.changed.Notify()
	c.mu.Unlock()
	c.group.Close()
}

// makePath creates the missing nodes of a path. The last is of the given kind, those above
// are containers (creatingParentContainersIfNeeded in article 004), which the servers
// delete when nothing is left in them: it returns ErrNoNode if that happens meanwhile.
func (c *Client) makePath(ctx context.Context, path string, last int32) error {
	for at := 1; at <= len(path); at++ {
		if at < len(path) && path[at] != '/' {
			continue
		}
		kind := last
		if at < len(path) {
			kind = zk.FlagContainer
		}
		err := untilAnswered(func() error {
			_, err := c.Create(ctx, path[:at], nil, kind)
			return err
		})
		if err != nil && !errors.Is(err, ErrNodeExists) {
			return err
		}
	}
	return nil
}

// repeat repeats a deletion in the background until it succeeds, until there is no such
// node, or until Close: a lost answer must not leave a node that blocks all others until
// the session ends.
func (c *Client) repeat(what string, deletion func() error) {
	c.group.Go(func() {
		for pause := time.Duration(0); ; {
			err := deletion()
			if err == nil || errors.Is(err, ErrNoNode) || errors.Is(err, ErrClosed) || c.ctx.Err() != nil {
				return
			}
			c.log.Debug("will try again", "to", what, "error", err)
			pause = sleep.Longer(pause, 10*time.Millisecond, time.Second)
			_ = sleep.For(c.ctx, pause)
		}
	})
}

// discard deletes in the background the node that may exist in a queue with this id in
// its name.
func (c *Client) discard(dir, id string) {
	c.repeat("delete "+id+" in "+dir, func() error {
		path, err := c.find(c.ctx, dir, id)
		if err == nil && path != "" {
			err = c.Delete(c.ctx, path, AnyVersion)
		}
		return err
	})
}

// pauseAfter pauses after an error, unless the next try waits for a connection anyway.
func (c *Client) pauseAfter(ctx context.Context, err error) {
	if ctx.Err() != nil || lost(err) {
		return
	}
	c.log.Warn("will try again", "error", err)
	_ = sleep.For(ctx, 100*time.Millisecond)
}
