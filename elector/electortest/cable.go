package electortest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Cable is the network path from one node to its store, into which faults can be
// injected. A strategy under test dials through it.
type Cable struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu    sync.Mutex // guards the fields below
	cut   bool
	held  chan struct{} // closed when the stall ends; nil without a stall
	slow  chan struct{} // closed when replies are delivered again; nil while they are
	next  [3]fault      // of the next request with a text, one of each kind
	wrong [2][]byte     // replace the first by the second in every request
	conns map[*cableConn]bool

	lost       atomic.Int32   // replies that were lost
	deliveries sync.WaitGroup // of Delay
}

// fault is what happens to the next request that contains a text.
type fault struct {
	text []byte // nil: to none
	do   func(cc *cableConn, request []byte)
}

// The kinds of faults of one request, in their order.
const (
	faultBefore = iota
	faultLoseReply
	faultDelay
)

// setNext sets the fault of a kind.
func (c *Cable) setNext(kind int, text string, do func(cc *cableConn, request []byte)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next[kind] = fault{[]byte(text), do}
}

// takeNext returns the fault of a kind if it is one of this request, and ends it.
func (c *Cable) takeNext(kind int, request []byte) (f fault, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f = c.next[kind]; f.text == nil || !bytes.Contains(request, f.text) {
		return f, false
	}
	c.next[kind] = fault{}
	return f, true
}

// ErrCut is returned by a dial through a cut cable.
var ErrCut = errors.New("cable is cut")

// NewCable returns a path over dial without faults.
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
	if c.cut { // cut during the dial
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

// Mend allows new connections again.
func (c *Cable) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = false
}

// Break closes every connection. New ones can be made at once.
func (c *Cable) Break() { c.each(func(cc *cableConn) { cc.Close() }) }

// HalfOpen closes the store's end of every connection, while the node's end stays open
// and receives nothing. New connections can be made at once.
func (c *Cable) HalfOpen() {
	c.each(func(cc *cableConn) {
		cc.halfOpen.Store(true)
		cc.Conn.Close()
	})
}

// each calls do for every open connection.
func (c *Cable) each(do func(*cableConn)) {
	c.mu.Lock()
	conns := slices.Collect(maps.Keys(c.conns))
	c.mu.Unlock()
	for _, cc := range conns {
		do(cc)
	}
}

// Stall delays everything that is sent in both directions until the returned function is
// called. Connections stay open, as in a partition or when a server hangs.
func (c *Cable) Stall() (release func()) { return c.close(&c.held) }

// HoldReplies delivers requests to the store, and delays its replies until the returned
// function is called.
func (c *Cable) HoldReplies() (release func()) { return c.close(&c.slow) }

// close closes a gate, which is c.held or c.slow, until the returned function is called.
func (c *Cable) close(gate *chan struct{}) (open func()) {
	closed := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	*gate = closed
	return sync.OnceFunc(func() {
		c.mu.Lock()
		if *gate == closed {
			*gate = nil
		}
		c.mu.Unlock()
		close(closed)
	})
}

// LoseReply delivers the next request that contains text to the store, waits for the
// reply, and breaks the connection instead of delivering it: the request was executed,
// but its sender does not know.
func (c *Cable) LoseReply(text string) {
	c.setNext(faultLoseReply, text, func(cc *cableConn, _ []byte) { cc.loseReply.Store(true) })
}

// Delay withholds the next request that contains text. Its sender sees a connection
// without an answer; the store receives the request when the returned function is
// called, although the sender may have given up long before.
func (c *Cable) Delay(text string) (deliver func()) {
	late := make(chan struct{})
	c.setNext(faultDelay, text, func(cc *cableConn, request []byte) {
		cc.delayed.Store(true)
		request = bytes.Clone(request)
		c.deliveries.Go(func() { cc.deliverLate(request, late) }) // ends with the delivery
	})
	return sync.OnceFunc(func() { close(late) })
}

// Delivered waits until the store has answered the delayed requests.
func (c *Cable) Delivered() { c.deliveries.Wait() }

// Before calls do just before the next request that contains text is sent, so that a
// test can stop the store while the request is on its way.
func (c *Cable) Before(text string, do func()) {
	c.setNext(faultBefore, text, func(*cableConn, []byte) { do() })
}

// Garble replaces right by wrong in every request from now on, as a proxy may do that
// rewrites statements. Both must have the same length.
func (c *Cable) Garble(right, wrong string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = [2][]byte{[]byte(right), []byte(wrong)}
}

// Lost returns how many replies LoseReply has lost.
func (c *Cable) Lost() int { return int(c.lost.Load()) }

// cableConn is one connection through a cable.
type cableConn struct {
	net.Conn
	cable     *Cable
	halfOpen  atomic.Bool // the store's end is closed, this end open
	loseReply atomic.Bool // the next reply is lost
	delayed   atomic.Bool // its last request is delivered late, by deliverLate
	once      sync.Once
	closed    chan struct{}
}

// pass waits until a gate is open.
func (cc *cableConn) pass(gate *chan struct{}) error {
	cc.cable.mu.Lock()
	closed := *gate
	cc.cable.mu.Unlock()
	if closed == nil {
		return nil
	}
	select {
	case <-closed:
		return nil
	case <-cc.closed:
		return net.ErrClosed
	}
}

func (cc *cableConn) Write(p []byte) (int, error) {
	c := cc.cable
	if err := cc.pass(&c.held); err != nil {
		return 0, err
	}
	for kind := range c.next {
		if f, found := c.takeNext(kind, p); found {
			f.do(cc, p) // may block, and set a later fault
		}
	}
	if cc.delayed.Load() || cc.halfOpen.Load() {
		return len(p), nil
	}
	c.mu.Lock()
	wrong := c.wrong
	c.mu.Unlock()
	if len(wrong[0]) > 0 {
		p = bytes.ReplaceAll(p, wrong[0], wrong[1])
	}
	return cc.Conn.Write(p)
}

// deliverLate delivers a request when late is closed, waits for the answer, which it
// discards, and closes the connection.
func (cc *cableConn) deliverLate(request []byte, late <-chan struct{}) {
	<-late
	defer cc.Conn.Close()
	if _, err := cc.Conn.Write(request); err != nil {
		return
	}
	cc.Conn.SetReadDeadline(time.Time{})
	_, _ = cc.Conn.Read(make([]byte, 1)) // an answer, or the end of the connection
}

func (cc *cableConn) Read(p []byte) (int, error) {
	c := cc.cable
	n, err := cc.Conn.Read(p)
	if cc.halfOpen.Load() {
		<-cc.closed
		return 0, net.ErrClosed
	}
	if n > 0 && cc.loseReply.Load() {
		c.lost.Add(1)
		cc.Close()
		return 0, net.ErrClosed
	}
	if gate := cmp.Or(cc.pass(&c.slow), cc.pass(&c.held)); gate != nil {
		return 0, gate
	}
	return n, err
}

func (cc *cableConn) Close() error {
	var err error
	cc.once.Do(func() {
		close(cc.closed)
		cc.cable.mu.Lock()
		delete(cc.cable.conns, cc)
		cc.cable.mu.Unlock()
		if cc.delayed.Load() { // only reads end: the server sees it open until the request is delivered
			err = cc.Conn.SetReadDeadline(time.Unix(1, 0))
			return
		}
		err = cc.Conn.Close()
	})
	return err
}
