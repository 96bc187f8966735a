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
	c.end()
	return nil
}

// end closes this end and sends a FIN to the other end. Net.mu is held.
func (c *conn) end() {
	if c.ended {
		return
	}
	c.ended = true
	c.in.fail(net.ErrClosed)
	if c.out.failed == nil {
		c.out.failed = net.ErrClosed
		c.out.post(nil, fin)
	}
	c.net.forget(c)
}

// reset makes reads and writes fail with ECONNRESET; the owner still has to
// close its end. Net.mu is held.
func (c *conn) reset() {
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

// mark is the flag that a segment carries besides its bytes.
type mark int

const (
	nothing mark = iota
	fin          // the writer has closed its end
	rst          // the reader's host has no such connection
)

func (m mark) String() string { return [...]string{"", "fin", "rst"}[m] }

// segment holds the bytes that were written at one instant.
type segment struct {
	number uint64
	data   []byte
	what   mark
	writes int // how many writes of the sender it has
	sent   time.Time
	at     time.Time // when it arrives
}

// pipe carries the bytes of one direction of a connection. Net.mu guards it.
type pipe struct {
	net            *Net
	from, to       *host
	link           *link
	writer, reader *conn
	cond           sync.Cond // on Net.mu; the reader waits on it

	held        []segment // written while the writer's process is frozen
	inFlight    []segment // in the order of their arrival
	arrival     *time.Timer
	waiting     []job         // arrived, not served: only where the processor has a budget
	resendDelay time.Duration // the delay before a lost segment is sent again

	buf    []byte // arrived, not read
	ended  bool   // the writer's FIN has arrived
	closed error  // what Read returns; nil while the reader's end is open
	failed error  // what Write returns; nil while the writer's end is open

	deadline      time.Time
	deadlineTimer *time.Timer
}

// newPipe returns the pipe from one host to another. Net.mu is held.
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

// post sends a segment, or keeps it until the process is thawed. Net.mu is
// held.
func (p *pipe) post(b []byte, what mark) {
	if p.from.frozen {
		p.held = append(p.held, segment{data: bytes.Clone(b), what: what})
		return
	}
	p.send(b, what)
}

// send schedules the arrival of data, which stays the caller's. What is written
// at one instant travels in one segment. Net.mu is held.
func (p *pipe) send(data []byte, what mark) {
	now := time.Now()
	lost := p.link.loseNext && len(data) > 0
	n := len(p.inFlight)
	joins := !lost && n > 0 && p.link.shape.Bandwidth == 0 && p.inFlight[n-1].sent.Equal(now) && p.inFlight[n-1].what == nothing
	var number uint64
	if joins {
		number = p.inFlight[n-1].number
	} else {
		p.net.segments++
		number = p.net.segments
	}
	if p.net.Tap != nil {
		p.net.Tap(Sent{From: string(p.writer.local), To: string(p.writer.remote), Data: data, What: what.String(), Segment: number})
	}
	p.from.cpu.sent(1, len(data))
	if lost {
		p.link.loseNext = false
		p.net.fate(number, false)
		p.writer.reset()
		p.reader.reset()
		return
	}
	if joins {
		p.inFlight[n-1].data = append(p.inFlight[n-1].data, data...)
		p.inFlight[n-1].what = what
		p.inFlight[n-1].writes++
		return
	}
	d, _ := p.link.trip(len(data))
	at := now.Add(d)
	if n > 0 && at.Before(p.inFlight[n-1].at) {
		at = p.inFlight[n-1].at
	}
	p.inFlight = append(p.inFlight, segment{number: number, data: bytes.Clone(data), what: what, writes: 1, sent: now, at: at})
	if len(p.inFlight) == 1 {
		p.arrive()
	}
}

// fate reports what became of a segment. Net.mu is held.
func (n *Net) fate(number uint64, arrived bool) {
	if n.Fate != nil {
		n.Fate(number, arrived)
	}
}

// arrive delivers the segments that are due and sets the timer for the next
// one. Net.mu is held.
func (p *pipe) arrive() {
	now := time.Now()
	for len(p.inFlight) > 0 {
		if wait := p.inFlight[0].at.Sub(now); wait > 0 {
			p.later(wait)
			return
		}
		if p.link.cut {
			p.resendDelay = min(max(2*p.resendDelay, resend), maxResend)
			p.inFlight[0].at = now.Add(p.resendDelay)
			p.later(p.resendDelay)
			return
		}
		if p.to.cpu.stalls(p) {
			return
		}
		p.resendDelay = 0
		first := p.inFlight[0]
		p.inFlight = slices.Delete(p.inFlight, 0, 1)
		if p.to.cpu != nil && p.closed == nil && first.what != rst {
			p.to.cpu.add(p, first)
		} else {
			p.deliver(first)
		}
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

// deliver appends a segment that has arrived to what the reader can read.
// Net.mu is held.
func (p *pipe) deliver(arrived segment) {
	if arrived.what == rst {
		p.net.fate(arrived.number, true)
		p.reader.reset()
		return
	}
	p.net.fate(arrived.number, p.closed == nil)
	if p.closed != nil {
		if len(arrived.data) > 0 { // this host has no such connection
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

// fail makes reads fail with the error. Net.mu is held.
func (p *pipe) fail(err error) {
	if p.closed != nil && err != net.ErrClosed { //nolint:errorlint // compared with our own
		return
	}
	p.closed = err
	p.buf = nil
	p.to.cpu.forget(p)
	if p.deadlineTimer != nil {
		p.deadlineTimer.Stop()
	}
	p.cond.Broadcast()
}

// drop discards everything that is in flight or held. Net.mu is held.
func (p *pipe) drop() {
	for _, s := range p.inFlight {
		p.net.fate(s.number, false)
	}
	p.held, p.inFlight = nil, nil
	if p.arrival != nil {
		p.arrival.Stop()
	}
}

func (p *pipe) setDeadline(t time.Time) {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.deadline = t
	if p.deadlineTimer != nil {
		p.deadlineTimer.Stop()
		p.deadlineTimer = nil
	}
	// A deadline that has passed needs no timer: the broadcast below wakes the
	// reader. Also, under the race detector Go 1.26.8 crashes when two
	// goroutines of a bubble run such timers at the same moment, because both
	// use the one context that the detector has for the bubble's timers.
	if wait := time.Until(t); !t.IsZero() && wait > 0 && p.closed == nil {
		p.deadlineTimer = time.AfterFunc(wait, func() {
			p.net.mu.Lock()
			defer p.net.mu.Unlock()
			p.cond.Broadcast()
		})
	}
	p.cond.Broadcast()
}
