package serve

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// The HTTP/2 server of net/http reads each frame by two calls, whatever is in it, and
// nothing in it bounds how many frames it takes: settings, pings, headers and resets,
// data of no bytes. So it is the calls that are counted, and paid with bytes.
const (
	paidBy     = 512     // bytes that pay for one call, in either direction: bulk is never paused
	payAtOnce  = 200     // unpaid calls for which a connection asks the limits
	callsOfOne = 10_000  // unpaid calls a second of a connection
	burstOfOne = 2_000   // those that a connection may make at once
	callsOfAll = 100_000 // unpaid calls a second of all connections of an address
	burstOfAll = 20_000  // those that they may make at once
)

// pace bounds how fast connections are read, each and together for one address. What
// is above the limits waits; nothing is refused. A connection asks the limits once in
// payAtOnce calls, so that one with few of them hardly ever waits for the others
// of its address.
type pace struct {
	paused atomic.Uint64

	mu sync.Mutex // guards by
	by map[string]*addressPace
}

type addressPace struct {
	limit *rate.Limiter
	conns int // guarded by pace.mu
}

// listener returns ln with the pace for its connections.
func (p *pace) listener(ln net.Listener) net.Listener { return &pacedListener{ln, p} }

func (p *pace) join(address string) *addressPace {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.by[address]
	if a == nil {
		a = &addressPace{limit: rate.NewLimiter(callsOfAll, burstOfAll)}
		p.by[address] = a
	}
	a.conns++
	return a
}

func (p *pace) leave(address string, a *addressPace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.conns--; a.conns == 0 {
		delete(p.by, address)
	}
}

type pacedListener struct {
	net.Listener
	pace *pace
}

func (l *pacedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	address := HostOf(conn.RemoteAddr().String())
	c := &pacedConn{Conn: conn, pace: l.pace, address: l.pace.join(address), limit: rate.NewLimiter(callsOfOne, burstOfOne), closed: make(chan struct{})}
	c.close = sync.OnceFunc(func() {
		close(c.closed)
		l.pace.leave(address, c.address)
	})
	return c, nil
}

// pacedConn is a connection that is read by one goroutine at a time, and written by
// another.
type pacedConn struct {
	net.Conn
	pace    *pace
	address *addressPace
	limit   *rate.Limiter
	unpaid  atomic.Int64
	close   func()
	closed  chan struct{}
}

// Read reads, and waits afterwards if there were too many calls for what was
// read and written.
func (c *pacedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.unpaid.Add(1) >= payAtOnce {
		c.wait()
	}
	c.pay(n)
	return n, err
}

// Write writes, which pays for calls.
func (c *pacedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.pay(n)
	return n, err
}

// Close closes the connection; a Read that waits returns.
func (c *pacedConn) Close() error {
	defer c.close()
	return c.Conn.Close()
}

// pay pays for calls that were made; nothing is paid in advance.
func (c *pacedConn) pay(n int) {
	for {
		unpaid := c.unpaid.Load()
		paid := min(unpaid, int64(n/paidBy))
		if paid <= 0 || c.unpaid.CompareAndSwap(unpaid, unpaid-paid) {
			return
		}
	}
}

// wait takes payAtOnce calls from both limits.
func (c *pacedConn) wait() {
	c.unpaid.Add(-payAtOnce)
	now := time.Now()
	delay := max(c.limit.ReserveN(now, payAtOnce).DelayFrom(now), c.address.limit.ReserveN(now, payAtOnce).DelayFrom(now))
	if delay <= 0 {
		return
	}
	c.pace.paused.Add(1)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.closed:
	}
}
