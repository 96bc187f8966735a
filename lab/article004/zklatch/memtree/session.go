package memtree

import (
	"context"
	"slices"
	"time"

	"conclave/lab/article004/zklatch"
)

// session is the server's state of a session. Server.mu guards it.
type session struct {
	id      int64
	secret  [16]byte // needed to continue the session on another connection
	timeout time.Duration
	nodes   map[string]bool // nodes that end with it, by path
	timer   *time.Timer     // ends it; reset by each request
	touched time.Time       // the last request
	local   *Session        // the client in this process; nil for one with a connection
	conn    *wireConn       // its connection; nil while there is none
}

// open creates a session; mu is held.
func (s *Server) open(timeout time.Duration) *session {
	s.ids++
	ses := &session{id: s.ids, timeout: min(max(timeout, s.timeouts[0]), s.timeouts[1]), nodes: map[string]bool{}}
	copy(ses.secret[:], time.Unix(s.ids, 0).String()) // a test's secret
	s.sessions[ses.id] = ses
	return ses
}

// touch restarts a session's timeout; mu is held.
func (s *Server) touch(ses *session) {
	ses.touched = time.Now()
	if ses.timer == nil {
		ses.timer = time.AfterFunc(ses.timeout, func() { s.overdue(ses) })
		return
	}
	ses.timer.Reset(ses.timeout)
}

// overdue ends a session from which nothing was received for its timeout.
func (s *Server) overdue(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses.local != nil && ses.local.link != 0 || time.Since(ses.touched) < ses.timeout {
		return // a request came while the timer fired
	}
	s.expire(ses)
}

// expire ends a session, its watches and its nodes; mu is held.
func (s *Server) expire(ses *session) {
	if s.sessions[ses.id] != ses {
		return
	}
	delete(s.sessions, ses.id)
	if ses.timer != nil {
		ses.timer.Stop()
	}
	s.unwatch(ses)
	paths := make([]string, 0, len(ses.nodes))
	for path := range ses.nodes {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		_ = s.remove(path, zklatch.AnyVersion) // cannot fail: it exists and has no children
	}
	if ses.conn != nil {
		ses.conn.hangUp()
	}
}

// Expire ends a session as if its timeout had passed. The client learns of it at once if
// it is connected, otherwise when it connects.
func (s *Server) Expire(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ses := s.sessions[id]
	if ses == nil {
		return
	}
	s.expire(ses)
	if ses.local != nil && ses.local.link != 0 {
		ses.local.relink()
	}
}

// Session is a client in this process, without a network connection; its faults are
// injected. Its session does not time out while it is connected.
type Session struct {
	server *Server

	// Server.mu guards the fields below.
	ses         *session
	timeout     time.Duration
	link        uint64 // 0: not connected
	links       uint64 // connections so far
	confirmedAt time.Time
	changed     chan struct{}               // closed and replaced when ID or link change
	open        map[chan zklatch.Event]bool // watches that have not fired
	held        []func()                    // events that wait for a connection
	closed      bool
}

var _ zklatch.Tree = (*Session)(nil)

// Connect opens a session in this process.
func (s *Server) Connect(timeout time.Duration) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Session{server: s, timeout: timeout, changed: make(chan struct{}), open: map[chan zklatch.Event]bool{}}
	c.relink()
	return c
}

// relink connects, with the last session if it has not ended, otherwise with a new
// one; mu is held.
func (c *Session) relink() {
	s := c.server
	if c.ses == nil || s.sessions[c.ses.id] != c.ses {
		lost := c.open
		c.open, c.held = map[chan zklatch.Event]bool{}, nil
		for ch := range lost {
			ch <- zklatch.Event{Type: zklatch.NotWatching}
			close(ch)
		}
		c.ses = s.open(c.timeout)
		c.ses.local = c
	}
	if c.ses.timer != nil {
		c.ses.timer.Stop() // no timeout while it is connected
	}
	c.links++
	c.link = c.links
	for _, fire := range c.held {
		fire()
	}
	c.held = nil
	c.change()
}

func (c *Session) change() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Disconnect breaks the connection until Reconnect. The server ends the session when
// its timeout has passed, and the client learns of it when it reconnects.
func (c *Session) Disconnect() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.link == 0 || c.closed {
		return
	}
	c.link, c.confirmedAt = 0, time.Now()
	c.server.touch(c.ses)
	c.change()
}

// Reconnect restores the connection.
func (c *Session) Reconnect() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.link == 0 && !c.closed {
		c.relink()
	}
}

// Close ends the session and deletes its nodes.
func (c *Session) Close() {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	c.link, c.confirmedAt = 0, time.Now()
	s.expire(c.ses)
	for ch := range c.open {
		ch <- zklatch.Event{Type: zklatch.NotWatching}
		close(ch)
	}
	c.open = nil
	c.change()
}

// Session returns the session, and a channel that is closed when it changes.
func (c *Session) Session() (zklatch.Session, <-chan struct{}) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	confirmedAt := c.confirmedAt
	if c.link != 0 {
		confirmedAt = time.Now()
	}
	return zklatch.Session{ID: c.ses.id, Link: c.link, Timeout: c.ses.timeout, ConfirmedAt: confirmedAt}, c.changed
}

// do waits for a connection and executes one request under Server.mu, with the fault
// that was injected for it.
func (c *Session) do(ctx context.Context, op Op, path string, request func(s *Server) error) error {
	s := c.server
	for {
		s.mu.Lock()
		if c.closed {
			s.mu.Unlock()
			return zklatch.ErrClosed
		}
		if c.link != 0 {
			break
		}
		changed := c.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer s.mu.Unlock()
	switch s.fault(op, path) {
	case dropRequest:
		c.relink()
		return zklatch.ErrConnectionLost
	case loseReply:
		_ = s.count(op, request) // its result is lost
		c.relink()
		return zklatch.ErrConnectionLost
	}
	return s.count(op, request)
}

// count counts and executes a request; mu is held.
func (s *Server) count(op Op, request func(s *Server) error) error {
	if op == Get || op == Children {
		s.reads++
	} else {
		s.writes++
	}
	return request(s)
}

// Create creates a node.
func (c *Session) Create(ctx context.Context, path string, data []byte, kind zklatch.Kind) (made string, err error) {
	err = c.do(ctx, Create, path, func(s *Server) (err error) {
		made, err = s.create(c.ses, path, data, kind)
		return err
	})
	return made, err
}

// Delete removes a node.
func (c *Session) Delete(ctx context.Context, path string, version int32) error {
	return c.do(ctx, Delete, path, func(s *Server) error { return s.remove(path, version) })
}

// Get reads a node.
func (c *Session) Get(ctx context.Context, path string) (data []byte, stat zklatch.Stat, err error) {
	err = c.do(ctx, Get, path, func(s *Server) error {
		n, err := s.find(path)
		if err == nil {
			data, stat = slices.Clone(n.data), n.stat
		}
		return err
	})
	return data, stat, err
}

// GetW reads a node and watches it.
func (c *Session) GetW(ctx context.Context, path string) (data []byte, stat zklatch.Stat, ch <-chan zklatch.Event, err error) {
	err = c.do(ctx, Get, path, func(s *Server) error {
		n, err := s.find(path)
		if err != nil {
			return err
		}
		var w *watch
		w, ch = c.watch()
		n.watches = append(n.watches, w)
		data, stat = slices.Clone(n.data), n.stat
		return nil
	})
	return data, stat, ch, err
}

// watch returns a watch and its channel; mu is held.
func (c *Session) watch() (*watch, <-chan zklatch.Event) {
	events := make(chan zklatch.Event, 1)
	c.open[events] = true
	return &watch{owner: c.ses, fire: func(e zklatch.Event) { c.deliver(events, e) }}, events
}

// deliver sends an event, once there is a connection; mu is held.
func (c *Session) deliver(events chan zklatch.Event, e zklatch.Event) {
	if c.link == 0 {
		c.held = append(c.held, func() { c.deliver(events, e) })
		return
	}
	if c.open[events] {
		delete(c.open, events)
		events <- e
		close(events)
	}
}

// Set writes a node.
func (c *Session) Set(ctx context.Context, path string, data []byte, version int32) (stat zklatch.Stat, err error) {
	err = c.do(ctx, Set, path, func(s *Server) (err error) {
		stat, err = s.write(path, data, version)
		return err
	})
	return stat, err
}

// SetIf writes a node if the fence has the version given.
func (c *Session) SetIf(ctx context.Context, path string, data []byte, version int32, fence string, fenceVersion int32) (stat zklatch.Stat, err error) {
	err = c.do(ctx, Multi, path, func(s *Server) (err error) {
		if _, err := s.check(fence, fenceVersion); err != nil {
			return err
		}
		stat, err = s.write(path, data, version)
		return err
	})
	return stat, err
}

// Children lists the names under a node.
func (c *Session) Children(ctx context.Context, path string) (list []string, err error) {
	err = c.do(ctx, Children, path, func(s *Server) error {
		n, err := s.find(path)
		if err == nil {
			list = n.names()
		}
		return err
	})
	return list, err
}

// ChildrenW lists the names under a node and watches them.
func (c *Session) ChildrenW(ctx context.Context, path string) (list []string, ch <-chan zklatch.Event, err error) {
	err = c.do(ctx, Children, path, func(s *Server) error {
		n, err := s.find(path)
		if err == nil {
			var w *watch
			w, ch = c.watch()
			n.below = append(n.below, w)
			list = n.names()
		}
		return err
	})
	return list, ch, err
}

// names returns the names of the node's children, in no order.
func (n *node) names() []string {
	list := make([]string, 0, len(n.children))
	for name := range n.children {
		list = append(list, name)
	}
	return list
}
