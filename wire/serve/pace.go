package serve

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// The HTTP/2 server of net/http reads each frame by two calls, whatever is in it, the first
// of nine bytes; and nothing in it bounds how many frames it takes: settings, pings,
// headers and resets, data of no bytes. So the calls are counted.
const (
	askAfter   = 50                      // calls after which a connection asks the limits
	callsOfOne = 10_000                  // calls a second of a connection
	burstOfOne = 2_000                   // those that it may make at once
	callsOfAll = 100_000                 // calls a second of all connections of an address
	burstOfAll = 20_000                  // those that they may make at once
	longest    = 250 * time.Millisecond  // of a pause: shorter than any peer waits for an answer
	lightAfter = 2500 * time.Millisecond // a connection that asks less often never pauses
	fieldSize  = 32                      // bytes of header fields that count as one call
	paidBy     = 512                     // bytes that are written for one call
)

// pace bounds how fast connections are read, each and together for one address. What
// is above the limits waits; nothing is refused. A connection with fewer than 20
// calls a second does not notice the others of its address, nor do those that are
// sent lists, which acknowledge what was written.
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
	c := &pacedConn{Conn: conn, pace: l.pace, address: l.pace.join(address), limit: rate.NewLimiter(callsOfOne, burstOfOne), asked: time.Now(), closed: make(chan struct{})}
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
	asked   time.Time // used by Read
	calls   atomic.Int64
	close   func()
	closed  chan struct{}
}

// Read reads, and pauses afterwards if there were too many calls.
func (c *pacedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.calls.Add(1+fields(p[:n])) >= askAfter {
		c.ask()
	}
	return n, err
}

// fields returns how many calls the header fields count as that the header of a frame
// announces: they are cheap to send, and not to decode.
func fields(p []byte) int64 {
	const headers, continuation, most = 1, 9, 64 << 10
	if len(p) != 9 || (p[3] != headers && p[3] != continuation) {
		return 0
	}
	return min(int64(p[0])<<16|int64(p[1])<<8|int64(p[2]), most) / fieldSize
}

// Write writes, which pays for calls that were made.
func (c *pacedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	for {
		calls := c.calls.Load()
		paid := min(calls, int64(n/paidBy))
		if paid <= 0 || c.calls.CompareAndSwap(calls, calls-paid) {
			return n, err
		}
	}
}

// Close closes the connection; a Read that pauses returns.
func (c *pacedConn) Close() error {
	defer c.close()
	return c.Conn.Close()
}

// ask takes the calls from both limits, and pauses if there are none. From an address that
// is far above its limit nothing is taken, so that no debt grows for those that
// ask later.
func (c *pacedConn) ask() {
	now, calls := time.Now(), int(min(c.calls.Swap(0), burstOfOne))
	since := now.Sub(c.asked)
	c.asked = now
	if since > lightAfter {
		return
	}
	delay := c.limit.ReserveN(now, calls).DelayFrom(now)
	if c.address.limit.TokensAt(now) > -callsOfAll*longest.Seconds() {
		delay = max(delay, c.address.limit.ReserveN(now, calls).DelayFrom(now))
	} else {
		delay = max(delay, longest)
	}
	if delay = min(delay, longest); delay <= 0 {
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
