package zklatch

import (
	"cmp"
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"conclave/internal/sleep"
)

// connect starts the library's connection.
func (c *Client) connect() error {
	ready := make(chan struct{}) // the library calls back before Connect has returned
	conn, events, err := zk.Connect(c.cfg.Servers, c.cfg.Timeout,
		zk.WithDialer(c.dial), zk.WithHostProvider(hosts{c}), zk.WithLogger(slog.NewLogLogger(c.log.Handler(), slog.LevelDebug)), zk.WithLogInfo(false),
		zk.WithEventCallback(func(e zk.Event) { <-ready; c.onEvent(e) }))
	if err != nil {
		return err
	}
	c.zk = conn
	close(ready)
	go func() { // ends with the library's loop; Close joins it
		defer close(c.ended)
		for range events { // onEvent has received them already
		}
	}()
	return nil
}

// hosts gives the library the servers in turn.
type hosts struct{ *Client }

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
func (c *Client) dial(network, addr string, limit time.Duration) (net.Conn, error) {
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
func (c *Client) onEvent(e zk.Event) {
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
	c.changed.Notify()
}

// runPings makes a request three times in each session timeout, which a new session may
// change: the library does not report when its own pings were answered.
func (c *Client) runPings() {
	for sent := time.Now(); ; {
		s, changed := c.Session()
		due := time.NewTimer(time.Until(sent.Add(cmp.Or(s.Timeout, c.cfg.Timeout) / 3)))
		select {
		case <-c.ctx.Done():
			due.Stop()
			return
		case <-changed:
			due.Stop()
			continue
		case <-due.C:
		}
		sent = time.Now()
		if s, _ = c.Session(); s.Connected() {
			_, _, err := c.zk.Get("/")
			c.answered(sent, err)
		}
	}
}

// answered records when a request was sent that the server has answered without an error.
func (c *Client) answered(sent time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && sent.After(c.session.ConfirmedAt) {
		c.session.ConfirmedAt = sent
	}
}
