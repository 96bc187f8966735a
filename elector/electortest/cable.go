package electortest

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// Cable is the path from one node to its store, with the faults that paths have.
// A strategy under test dials through it.
type Cable struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu    sync.Mutex // guards what follows
	cut   bool
	held  chan struct{} // closed when the stall ends; nil when there is none
	slow  chan struct{} // closed when replies are delivered again; nil when they are
	lose  []byte        // lose the reply to the next request with these bytes
	lost  int           // how many replies were lost
	delay []byte        // deliver the next request with these bytes late,
	late  chan struct{} // when this is closed
	wrong [2][]byte     // put the second in the place of the first in every request
	first []byte        // before the next request with these bytes is sent,
	do    func()        // do this
	conns map[*cableConn]bool

	ghosts sync.WaitGroup // the deliveries of Delay
}

// ErrCut is what a dial through a cut cable returns.
var ErrCut = errors.New("cable is cut")

// NewCable is a sound path over dial.
func NewCable(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *Cable {
	return &Cable{dial: dial, conns: map[*cableConn]bool{}}
}

// Dial opens a connection through the cable.
func (c *Cable) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c.mu.Lock()
	cut, held := c.cut, c.held
	c.mu.Unlock()
	if cut {
		return nil, ErrCut
	}
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	conn, err := c.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	cc := &cableConn{Conn: conn, cable: c, closed: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut { // while it was dialled
		conn.Close()
		return nil, ErrCut
	}
	c.conns[cc] = true
	return cc, nil
}

// Cut closes every connection, as the kernel of a killed process does, and refuses
// new ones until Mend.
func (c *Cable) Cut() {
	c.mu.Lock()
	c.cut = true
	c.mu.Unlock()
	c.Break()
}

// Mend lets new connections through again.
func (c *Cable) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = false
}

// Break closes every connection; new ones may be made at once.
func (c *Cable) Break() {
	c.mu.Lock()
	var conns []*cableConn
	for cc := range c.conns {
		conns = append(conns, cc)
	}
	c.mu.Unlock()
	for _, cc := range conns {
		cc.Close()
	}
}

// HalfOpen closes the store's end of every connection, while the node's end stays
// open and silent; new connections may be made at once.
func (c *Cable) HalfOpen() {
	c.mu.Lock()
	var conns []*cableConn
	for cc := range c.conns {
		cc.deaf = true
		conns = append(conns, cc)
	}
	c.mu.Unlock()
	for _, cc := range conns {
		cc.Conn.Close()
	}
}

// Stall holds everything that is sent, replies too, until the returned function is
// called. Connections stay open: a partition, or a server that hangs.
func (c *Cable) Stall() (release func()) {
	held := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = held
	return sync.OnceFunc(func() {
		c.mu.Lock()
		c.held = nil
		c.mu.Unlock()
		close(held)
	})
}

// HoldReplies lets everything that is sent through to the store, and holds what it
// answers until the returned function is called: a slow way back.
func (c *Cable) HoldReplies() (release func()) {
	slow := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow = slow
	return sync.OnceFunc(func() {
		c.mu.Lock()
		if c.slow == slow {
			c.slow = nil
		}
		c.mu.Unlock()
		close(slow)
	})
}

// LoseReply lets the next request that contains text through to the store, waits
// until the store has answered, and breaks that connection instead of delivering
// the answer: the request was carried out, its sender does not know.
func (c *Cable) LoseReply(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lose = []byte(text)
}

// Delay takes the next request that contains text off the wire. Its sender sees a
// silent connection; the store gets the request when the returned function is
// called, although its sender may have given up long ago: a ghost.
func (c *Cable) Delay(text string) (deliver func()) {
	late := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delay, c.late = []byte(text), late
	return sync.OnceFunc(func() { close(late) })
}

// Delivered waits until the store has answered what came late.
func (c *Cable) Delivered() { c.ghosts.Wait() }

// Before does something just before the next request that contains text is sent:
// the moment at which a store can be stopped with a request under way to it.
func (c *Cable) Before(text string, do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.first, c.do = []byte(text), do
}

// Garble writes wrong in the place of right in every request from now on, as a
// proxy does that thinks it knows better. Both must have the same length.
func (c *Cable) Garble(right, wrong string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = [2][]byte{[]byte(right), []byte(wrong)}
}

// Lost is how many replies LoseReply has lost.
func (c *Cable) Lost() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// cableConn is one connection through a cable.
type cableConn struct {
	net.Conn
	cable  *Cable
	deaf   bool // the store's end is gone, this end does not know; guarded by cable.mu
	doomed bool // the next reply is lost; guarded by cable.mu
	ghost  bool // its last request is delivered late, and by another; guarded by cable.mu
	once   sync.Once
	closed chan struct{}
}

// hold waits while the cable is stalled.
func (cc *cableConn) hold() error {
	cc.cable.mu.Lock()
	held := cc.cable.held
	cc.cable.mu.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-cc.closed:
		return net.ErrClosed
	}
}

func (cc *cableConn) Write(p []byte) (int, error) {
	if err := cc.hold(); err != nil {
		return 0, err
	}
	c := cc.cable
	c.mu.Lock()
	if c.first != nil && bytes.Contains(p, c.first) {
		do := c.do
		c.first, c.do = nil, nil
		c.mu.Unlock() // it may take its time
		do()
		c.mu.Lock()
	}
	if c.lose != nil && bytes.Contains(p, c.lose) {
		c.lose = nil
		cc.doomed = true
	}
	if c.delay != nil && bytes.Contains(p, c.delay) {
		c.delay = nil
		cc.ghost = true
		request, late := bytes.Clone(p), c.late
		c.ghosts.Go(func() { cc.haunt(request, late) }) // ends with the delivery
	}
	swallowed := cc.ghost || cc.deaf
	if len(c.wrong[0]) > 0 {
		p = bytes.ReplaceAll(p, c.wrong[0], c.wrong[1])
	}
	c.mu.Unlock()
	if swallowed {
		return len(p), nil
	}
	return cc.Conn.Write(p)
}

// haunt delivers a request late, waits for the answer that nobody reads, and
// closes the connection.
func (cc *cableConn) haunt(request []byte, late <-chan struct{}) {
	<-late
	defer cc.Conn.Close()
	if _, err := cc.Conn.Write(request); err != nil {
		return
	}
	cc.Conn.SetReadDeadline(time.Time{})
	_, _ = cc.Conn.Read(make([]byte, 1)) // whatever comes, or the end: the wait is over
}

func (cc *cableConn) Read(p []byte) (int, error) {
	c := cc.cable
	n, err := cc.Conn.Read(p)
	c.mu.Lock()
	deaf, doomed, slow := cc.deaf, cc.doomed && n > 0, c.slow
	if doomed {
		c.lost++
	}
	c.mu.Unlock()
	if deaf {
		<-cc.closed
		return 0, net.ErrClosed
	}
	if doomed {
		cc.Close()
		return 0, net.ErrClosed
	}
	if slow != nil {
		select {
		case <-slow:
		case <-cc.closed:
			return 0, net.ErrClosed
		}
	}
	if holdErr := cc.hold(); holdErr != nil {
		return 0, holdErr
	}
	return n, err
}

func (cc *cableConn) Close() error {
	var err error
	cc.once.Do(func() {
		close(cc.closed)
		cc.cable.mu.Lock()
		delete(cc.cable.conns, cc)
		ghost := cc.ghost
		cc.cable.mu.Unlock()
		if ghost { // only its reader ends: the server sees it open until the ghost has come
			err = cc.Conn.SetReadDeadline(time.Unix(1, 0))
			return
		}
		err = cc.Conn.Close()
	})
	return err
}
