package zklatch

import (
	"cmp"
	"context"
	"encoding/binary"
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

// Conn is a Tree on a ZooKeeper: go-zookeeper's connection, with contexts, a count of its
// connections, and the time at which the session was last confirmed.
type Conn struct {
	cfg   ConnConfig
	log   *slog.Logger
	zk    *zk.Conn
	ctx   context.Context // ends with Close: dials and pings
	stop  context.CancelFunc
	ended chan struct{}  // closed when the library's loop has ended
	group sync.WaitGroup // requests in progress, watches and pings; Close joins them
	once  sync.Once

	requests atomic.Uint64

	mu      sync.Mutex // guards the fields below
	conn    *greeted   // the present connection
	session Session
	links   uint64
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
	c.group.Go(c.runPings)
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
	began := time.Now()
	conn, err := c.cfg.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.Close()
		return nil, ErrClosed
	}
	c.conn = &greeted{Conn: conn, dialed: began, limit: c.cfg.Timeout / 3}
	return c.conn, nil
}

// greeted is a connection that reads the granted session timeout, which the library does
// not report, from the first answer. The library's loop alone uses it until then.
type greeted struct {
	net.Conn
	dialed time.Time     // before the session was requested
	limit  time.Duration // for the first answer
	head   []byte        // of the first answer: length, version, timeout
}

const headSize = 12

func (g *greeted) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if missing := headSize - len(g.head); missing > 0 {
		g.head = append(g.head, p[:min(n, missing)]...)
	}
	return n, err
}

// SetReadDeadline shortens the library's time-out for a server that accepts the
// connection but does not answer, which is seven session timeouts.
func (g *greeted) SetReadDeadline(at time.Time) error {
	if limit := time.Now().Add(g.limit); len(g.head) < headSize && at.After(limit) {
		at = limit
	}
	return g.Conn.SetReadDeadline(at)
}

func (g *greeted) timeout() time.Duration {
	return time.Duration(binary.BigEndian.Uint32(g.head[8:])) * time.Millisecond
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
		c.links++
		c.tries = 0
		c.session = Session{ID: c.zk.SessionID(), Link: c.links, Timeout: c.conn.timeout(), ConfirmedAt: c.conn.dialed}
	case zk.StateExpired:
		c.session = Session{}
	case zk.StateDisconnected:
		c.session.Link = 0
	default:
		return
	}
	c.change()
}

// change wakes the readers of Session's channel; mu is held.
func (c *Conn) change() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// runPings makes a request three times in each session timeout: the library does not
// report when its own pings were answered.
func (c *Conn) runPings() {
	for sent := time.Now(); ; {
		s, _ := c.Session()
		if sleep.For(c.ctx, time.Until(sent.Add(cmp.Or(s.Timeout, c.cfg.Timeout)/3))) != nil {
			return
		}
		sent = time.Now()
		if s, _ = c.Session(); s.Connected() {
			_, _, err := c.zk.Get("/")
			c.answered(sent, err)
		}
	}
}

// answered records when a request was sent that the server has answered without an error.
func (c *Conn) answered(sent time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && sent.After(c.session.ConfirmedAt) {
		c.session.ConfirmedAt = sent
	}
}

// Session returns the session, and a channel that is closed when it changes.
func (c *Conn) Session() (Session, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session, c.changed
}

// Requests returns how many requests were made so far, without pings.
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
		conn := c.conn
		c.mu.Unlock()
		c.stop()
		if crash && conn != nil {
			conn.Close()
		}
		c.zk.Close()
	})
	<-c.ended
	c.mu.Lock()
	c.session.ID, c.session.Link = 0, 0
	c.change()
	c.mu.Unlock()
	c.group.Wait()
}
