package simnet

import (
	"bytes"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// conn is one end of a connection: it reads from one pipe and writes to the
// other. Net.mu guards it.
type conn struct {
	net           *Net
	host, peer    string
	local, remote addr
	in, out       *pipe
	ended         bool
}

var _ net.Conn = (*conn)(nil)

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *conn) LocalAddr() net.Addr         { return c.local }
func (c *conn) RemoteAddr() net.Addr        { return c.remote }

func (c *conn) Close() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.end(fin)
	return nil
}

// end closes this end, and sends word of it; mu is held.
func (c *conn) end(what mark) {
	if c.ended {
		return
	}
	c.ended = true
	c.in.fail(net.ErrClosed)
	if c.out.failed == nil {
		c.out.failed = net.ErrClosed
		if what != nothing {
			c.out.post(nil, what)
		}
	}
	c.net.forget(c)
}

// broken makes reads and writes fail as a reset does; mu is held. The owner still has to close
// its end.
func (c *conn) broken() {
	if c.ended {
		return
	}
	c.in.fail(syscall.ECONNRESET)
	c.out.failed = syscall.ECONNRESET
	c.out.drop()
}

func (c *conn) SetDeadline(t time.Time) error {
	c.in.setDeadline(t)
	return nil // writes are buffered and never wait
}
func (c *conn) SetReadDeadline(t time.Time) error { c.in.setDeadline(t); return nil }
func (c *conn) SetWriteDeadline(time.Time) error  { return nil }

// mark is what a piece carries besides bytes.
type mark int

const (
	nothing mark = iota
	fin          // the writer has closed its end
	rst          // the reader's host knows no such connection
)

func (m mark) String() string { return [...]string{"", "fin", "rst"}[m] }

// piece is what was written at one instant.
type piece struct {
	data []byte
	what mark
	sent time.Time
	at   time.Time // when it arrives
}

// pipe carries bytes one way. Net.mu guards it.
type pipe struct {
	net            *Net
	from, to       *host
	link           *link
	writer, reader *conn
	cond           sync.Cond // on Net.mu; the reader waits on it

	held    []piece // written by a frozen process
	flight  []piece // on the way, in the order of their arrival
	arrival *time.Timer
	again   time.Duration // the pause before what was lost is sent again

	buf    []byte // arrived, not read
	ended  bool   // the writer's end has arrived
	closed error  // why the reader cannot read any more
	failed error  // why the writer cannot write any more

	deadline time.Time
	alarm    *time.Timer
}

// newPipe is called with mu held.
func (n *Net) newPipe(from, to string) *pipe {
	p := &pipe{net: n, from: n.hostOf(from), to: n.hostOf(to), link: n.link(from, to)}
	p.cond.L = &n.mu
	return p
}

func (p *pipe) read(b []byte) (int, error) {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	for {
		switch {
		case p.closed != nil:
			return 0, p.closed
		case !p.deadline.IsZero() && !time.Now().Before(p.deadline):
			return 0, os.ErrDeadlineExceeded
		case p.to.frozen:
		case len(p.buf) > 0:
			n := copy(b, p.buf)
			if p.buf = p.buf[n:]; len(p.buf) == 0 {
				p.buf = nil
			}
			return n, nil
		case p.ended:
			return 0, io.EOF
		case len(b) == 0:
			return 0, nil
		}
		p.cond.Wait()
	}
}

func (p *pipe) write(b []byte) (int, error) {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	if p.failed != nil {
		return 0, p.failed
	}
	p.post(b, nothing)
	return len(b), nil
}

// post sends, or keeps what a frozen process writes; mu is held.
func (p *pipe) post(b []byte, what mark) {
	if p.from.frozen {
		p.held = append(p.held, piece{data: bytes.Clone(b), what: what})
		return
	}
	p.send(b, what)
}

// send puts a piece on its way; mu is held, and data stays the caller's. What is
// written at one instant travels together.
func (p *pipe) send(data []byte, what mark) {
	if p.net.Tap != nil {
		p.net.Tap(Sent{From: string(p.writer.local), To: string(p.writer.remote), Data: data, What: what.String()})
	}
	now := time.Now()
	if p.link.loseNext && len(data) > 0 {
		p.link.loseNext = false
		p.writer.broken()
		p.reader.broken()
		return
	}
	if n := len(p.flight); n > 0 && p.link.shape.Bandwidth == 0 && p.flight[n-1].sent.Equal(now) && p.flight[n-1].what == nothing {
		p.flight[n-1].data = append(p.flight[n-1].data, data...)
		p.flight[n-1].what = what
		return
	}
	d, _ := p.link.trip(len(data))
	at := now.Add(d)
	if n := len(p.flight); n > 0 && at.Before(p.flight[n-1].at) {
		at = p.flight[n-1].at
	}
	p.flight = append(p.flight, piece{data: bytes.Clone(data), what: what, sent: now, at: at})
	if len(p.flight) == 1 {
		p.arrive()
	}
}

// arrive delivers what is due, and comes back for the rest; mu is held.
func (p *pipe) arrive() {
	now := time.Now()
	for len(p.flight) > 0 {
		if wait := p.flight[0].at.Sub(now); wait > 0 {
			p.later(wait)
			return
		}
		if p.link.cut || p.to.down {
			p.again = min(max(2*p.again, resend), resendMost)
			p.flight[0].at = now.Add(p.again)
			p.later(p.again)
			return
		}
		p.again = 0
		piece := p.flight[0]
		p.flight = slices.Delete(p.flight, 0, 1)
		p.deliver(piece)
	}
}

func (p *pipe) later(d time.Duration) {
	if p.arrival == nil {
		p.arrival = time.AfterFunc(d, func() {
			p.net.mu.Lock()
			defer p.net.mu.Unlock()
			p.arrive()
		})
		return
	}
	p.arrival.Reset(d)
}

// deliver is called with mu held.
func (p *pipe) deliver(arrived piece) {
	if arrived.what == rst {
		p.reader.broken()
		return
	}
	if p.closed != nil {
		if len(arrived.data) > 0 { // nobody knows this connection here
			p.reader.out.send(nil, rst)
		}
		return
	}
	if p.buf == nil {
		p.buf = arrived.data
	} else {
		p.buf = append(p.buf, arrived.data...)
	}
	p.ended = p.ended || arrived.what == fin
	p.cond.Broadcast()
}

// fail ends the reading; mu is held.
func (p *pipe) fail(err error) {
	if p.closed != nil && err != net.ErrClosed { //nolint:errorlint // compared with our own
		return
	}
	p.closed = err
	p.buf = nil
	if p.alarm != nil {
		p.alarm.Stop()
	}
	p.cond.Broadcast()
}

// drop forgets what is on its way; mu is held.
func (p *pipe) drop() {
	p.held, p.flight = nil, nil
	if p.arrival != nil {
		p.arrival.Stop()
	}
}

func (p *pipe) setDeadline(t time.Time) {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.deadline = t
	if p.alarm != nil {
		p.alarm.Stop()
		p.alarm = nil
	}
	// A timer that is due at once is none: the broadcast below wakes the reader. (And under
	// the race detector Go 1.26.8 crashes when two goroutines of a bubble run such timers at
	// the same moment: both use the one context that the detector has for the bubble's timers.)
	if wait := time.Until(t); !t.IsZero() && wait > 0 && p.closed == nil {
		p.alarm = time.AfterFunc(wait, func() {
			p.net.mu.Lock()
			defer p.net.mu.Unlock()
			p.cond.Broadcast()
		})
	}
	p.cond.Broadcast()
}
