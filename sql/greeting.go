package sql

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"sync"
	"syscall"
	"time"
)

// greeter dials servers, and returns connections on which the server has begun to
// speak. A frozen server does not, although the kernel of its machine accepts
// connections. Each of them that is given up is an aborted handshake when the server
// continues, and after 100 of those (max_connect_errors) MySQL blocks the address for
// good. Therefore a connection without a greeting is kept, and later dials wait for
// it. Another is made when the silence has become half as long again, and at
// least each 30 s: the kept one may be dead, or the name lead to another server.
type greeter struct {
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	reading sync.WaitGroup // joined by close

	mu     sync.Mutex              // guards the fields below
	silent map[string]*greetedConn // those that are kept, by address
	closed bool
}

// greetedConn is a connection with the first bytes of the server.
type greetedConn struct {
	net.Conn
	done  chan struct{} // closed when the next three fields are set
	first []byte
	err   error // why there are none
	at    time.Time

	since, next time.Time // of a kept one: the beginning of the silence, and when another is made
}

// greetingUse is how long a greeting can be answered: servers end a login that takes
// longer than connect_timeout, 10 s by default.
const greetingUse = 5 * time.Second

// connect returns a connection that the server has greeted. step limits the dial, and
// then the wait for the greeting, both also when the kept connection is replaced
// meanwhile; 0 is no limit. Each of them is an answer for the limit of ctx.
func (g *greeter) connect(ctx context.Context, network, addr string, step time.Duration) (net.Conn, error) {
	step = cmp.Or(step, math.MaxInt64/2)
	ctx, stop := context.WithTimeout(ctx, 2*step)
	defer stop()
	for {
		began, c := time.Now(), g.kept(addr)
		if c == nil {
			dialing, cancel := context.WithTimeout(ctx, step)
			conn, err := g.dial(dialing, network, addr)
			cancel()
			if err != nil {
				return nil, err
			}
			limitOf(ctx).answered()
			c = g.read(conn)
		}
		waiting, cancel := context.WithTimeout(ctx, step)
		select {
		case <-c.done:
		case <-waiting.Done():
		}
		cancel()
		switch silence, mine := g.settle(addr, c, began); {
		case silence > 0:
			return nil, fmt.Errorf("%s accepts connections and has greeted none for %.0f s: %w", addr, silence.Seconds(), cmp.Or(context.Cause(ctx), context.DeadlineExceeded))
		case !mine:
			continue
		case c.err != nil:
			return nil, c.err
		}
		limitOf(ctx).answered()
		if s, ok := c.Conn.(syscall.Conn); ok {
			return checkedConn{c, s}, nil
		}
		return c, nil
	}
}

// kept returns the connection to wait for; nil if one is to be made.
func (g *greeter) kept(addr string) *greetedConn {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, now := g.silent[addr], time.Now()
	if c == nil || c.greeted() || now.Before(c.next) {
		return c
	}
	c.patience(now)
	return nil
}

// patience sets when another connection is made.
func (c *greetedConn) patience(now time.Time) {
	c.next = now.Add(min(now.Sub(c.since)/2, 30*time.Second))
}

// read waits for the first bytes of a server.
func (g *greeter) read(conn net.Conn) *greetedConn {
	c := &greetedConn{Conn: conn, done: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		conn.Close()
		c.err = net.ErrClosed
		close(c.done)
		return c
	}
	g.reading.Go(func() {
		first := make([]byte, 512)
		n, err := conn.Read(first)
		if n > 0 {
			err = nil // the driver meets it again
		}
		c.first, c.err, c.at = first[:n], err, time.Now()
		close(c.done)
	})
	return c
}

// settle takes a connection that was greeted, or keeps it. It returns how long the
// server has been silent, or whether the connection is the caller's.
func (g *greeter) settle(addr string, c *greetedConn, began time.Time) (silence time.Duration, mine bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	last := g.silent[addr]
	if !c.greeted() {
		if c.since.IsZero() {
			c.since = began
			if last != nil {
				c.since = last.since
				last.Close()
			}
			c.patience(time.Now())
			g.silent[addr] = c
			if g.closed {
				c.Close()
			}
		}
		return max(time.Since(c.since), 1), false
	}
	if !c.since.IsZero() { // it was kept
		if last != c {
			return 0, false // another dial has it
		}
		delete(g.silent, addr)
		if c.err != nil || time.Since(c.at) > greetingUse {
			c.Close()
			return 0, false
		}
		return 0, true
	}
	if last != nil { // the silence has ended
		delete(g.silent, addr)
		last.Close()
	}
	return 0, true
}

// close closes what is kept.
func (g *greeter) close() {
	g.mu.Lock()
	g.closed = true
	for _, c := range g.silent {
		c.Close()
	}
	g.mu.Unlock()
	g.reading.Wait()
}

func (c *greetedConn) greeted() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Read returns the first bytes, then those that follow.
func (c *greetedConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// checkedConn is a connection that the driver can check before it uses it again.
type checkedConn struct {
	*greetedConn
	syscall.Conn
}
