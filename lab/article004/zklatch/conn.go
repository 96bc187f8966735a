package zklatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"conclave/internal/sleep"
)

// ConnConfig configures a Conn. Servers and Timeout are required.
type ConnConfig struct {
	Servers []string // host:port
	// Timeout is how long the servers keep a session from which they receive nothing.
	// They may grant another one: see Session.Timeout.
	Timeout time.Duration
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error) // default TCP
	Logger  *slog.Logger                                                      // nil discards the log lines
}

// Conn is a Tree on a real ZooKeeper: go-zookeeper's connection, with contexts, a count
// of its connections, and the time at which the session was last confirmed.
//
// On a new connection nothing is sent or read before the watches of the last one have
// been set again. (The library sets them relative to the last answer that it has
// seen: an answer that overtakes that request would hide a change.) So that there is
// always a watch to set again, each session begins with a watch on the root.
type Conn struct {
	cfg   ConnConfig
	log   *slog.Logger
	zk    *zk.Conn
	ctx   context.Context // ends with Close: dials
	stop  context.CancelFunc
	ended chan struct{}  // closed when the library's loop has ended
	group sync.WaitGroup // requests in progress, and watches; Close joins them
	once  sync.Once

	requests atomic.Uint64

	mu      sync.Mutex // guards the fields below
	tap     *tap       // the present connection
	session Session
	links   uint64
	rooted  bool // the root is watched in this session
	changed chan struct{}
	closed  bool
	tries   int // dials since there was a session
	next    int // server to dial
}

var _ Tree = (*Conn)(nil)

// Dial returns a Conn that connects in the background.
func Dial(cfg ConnConfig) (*Conn, error) {
	switch {
	case len(cfg.Servers) == 0:
		return nil, errors.New("zklatch: Servers are missing")
	case cfg.Timeout < time.Millisecond:
		return nil, fmt.Errorf("zklatch: Timeout %v must be at least 1ms", cfg.Timeout)
	}
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Conn{cfg: cfg, log: cfg.Logger, changed: make(chan struct{}), ended: make(chan struct{})}
	c.ctx, c.stop = context.WithCancel(context.Background())
	ready := make(chan struct{}) // the library calls back before Connect has returned
	var events <-chan zk.Event
	var err error
	c.zk, events, err = zk.Connect(cfg.Servers, cfg.Timeout,
		zk.WithDialer(c.dial), zk.WithHostProvider(hosts{c}), zk.WithLogger(printer{c.log}), zk.WithLogInfo(false),
		zk.WithEventCallback(func(e zk.Event) { <-ready; c.onEvent(e) }))
	if err != nil {
		c.stop()
		return nil, fmt.Errorf("zklatch: %w", err)
	}
	close(ready)
	go func() { // ends with the library's loop; Close joins it
		defer close(c.ended)
		for range events { // onEvent has received them already
		}
	}()
	return c, nil
}

// printer passes the library's log lines on.
type printer struct{ log *slog.Logger }

func (p printer) Printf(format string, args ...any) { p.log.Debug(fmt.Sprintf(format, args...)) }

// hosts gives the library the servers in turn.
type hosts struct{ *Conn }

func (h hosts) Init([]string) error { return nil }
func (h hosts) Len() int            { return len(h.cfg.Servers) }
func (h hosts) Connected()          {}

// Next returns retryStart, which means that all servers were tried, only to make the
// library check whether it was closed; dial makes the pauses between tries.
func (h hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	return h.cfg.Servers[h.next%len(h.cfg.Servers)], h.closed
}

// dial connects, after a pause if the last tries have failed.
func (c *Conn) dial(network, addr string, limit time.Duration) (net.Conn, error) {
	c.mu.Lock()
	tries := c.tries
	c.tries++
	c.mu.Unlock()
	if tries > 0 {
		if sleep.For(c.ctx, min(10*time.Millisecond<<min(tries, 10), c.cfg.Timeout/10)) != nil {
			return nil, ErrClosed
		}
	}
	ctx, cancel := context.WithTimeout(c.ctx, limit)
	defer cancel()
	conn, err := c.cfg.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	t := newTap(conn, c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.Close()
		return nil, ErrClosed
	}
	c.tap = t
	return t, nil
}

// granted records the session that the server has granted; onEvent follows. It reports
// whether the library is going to set its watches again.
func (c *Conn) granted(t *tap, id int64, timeout time.Duration, asked time.Time) (again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tap != t {
		return false
	}
	c.session.Timeout = timeout
	c.session.ConfirmedAt = asked
	return c.rooted && c.session.ID == id
}

// confirmed records that a request sent at that time was answered.
func (c *Conn) confirmed(t *tap, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tap == t && at.After(c.session.ConfirmedAt) {
		c.session.ConfirmedAt = at
	}
}

// rewatched lets requests through: the watches are being set again before them.
func (c *Conn) rewatched(t *tap) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tap == t && c.session.ID != 0 && c.session.Link == 0 {
		c.linked()
	}
}

// linked marks the session as connected, which lets requests through; mu is held.
func (c *Conn) linked() {
	c.links++
	c.session.Link = c.links
	c.tries = 0
	c.change()
}

// change wakes the readers of Session's channel; mu is held.
func (c *Conn) change() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// onEvent follows the library's state. The library's loop calls it, so it must not
// block.
func (c *Conn) onEvent(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.State {
	case zk.StateHasSession:
		if id := c.zk.SessionID(); id != c.session.ID {
			c.session.ID, c.rooted = id, false
		}
		if !c.rooted && !c.closed {
			c.group.Go(c.watchRoot)
		}
	case zk.StateExpired:
		c.session = Session{}
		c.rooted = false
		c.change()
	case zk.StateDisconnected:
		if c.session.Link != 0 {
			c.session.Link = 0
			c.change()
		}
	}
}

// settleTime is the time between the library's event that there is a session and the
// first request. In between the library checks whether there are watches to set again,
// without reporting it. (If it is too short, the library sends one needless request.)
const settleTime = 5 * time.Millisecond

// watchRoot sends a session's first request.
func (c *Conn) watchRoot() {
	if sleep.For(c.ctx, settleTime) != nil {
		return
	}
	_, _, events, err := c.zk.ExistsW("/")
	if err != nil {
		return // the connection is lost: the next one tries again
	}
	c.mu.Lock()
	c.rooted = true
	if c.session.ID != 0 && c.session.Link == 0 && c.zk.State() == zk.StateHasSession {
		c.linked()
	}
	c.mu.Unlock()
	if e := <-events; e.Type == zk.EventNotWatching {
		return // the session has ended
	}
	c.mu.Lock()
	c.rooted = false
	c.mu.Unlock()
	c.watchRoot() // the root was written
}

// Session returns the session, and a channel that is closed when it changes.
func (c *Conn) Session() (Session, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session, c.changed
}

// Requests returns how many requests were made so far, without the library's own.
func (c *Conn) Requests() uint64 { return c.requests.Load() }

// Close ends the session and deletes its nodes.
func (c *Conn) Close() error {
	c.end(false)
	return nil
}

// Crash drops the connection without ending the session, as the kernel of a killed
// process does: the servers keep the session until its timeout.
func (c *Conn) Crash() { c.end(true) }

func (c *Conn) end(crash bool) {
	c.once.Do(func() {
		c.mu.Lock()
		c.closed = true
		t := c.tap
		c.mu.Unlock()
		c.stop()
		if crash && t != nil {
			t.Close()
		}
		c.zk.Close()
	})
	<-c.ended
	c.mu.Lock()
	if c.session.ID != 0 || c.session.Link != 0 {
		c.session.ID, c.session.Link = 0, 0
	}
	c.change()
	c.mu.Unlock()
	c.group.Wait()
}
