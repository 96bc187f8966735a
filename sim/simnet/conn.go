package simnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// conn is one end of a connection: it reads from one pipe and writes to the
// other.
type conn struct {
	net           *Net
	host          string
	local, remote addr
	in, out       *pipe
	once          sync.Once
}

var _ net.Conn = (*conn)(nil)

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *conn) LocalAddr() net.Addr         { return c.local }
func (c *conn) RemoteAddr() net.Addr        { return c.remote }

func (c *conn) Close() error {
	c.once.Do(func() {
		c.in.closeReading()
		c.out.closeWriting()
		c.net.forget(c)
	})
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	c.in.setDeadline(t)
	return nil // writes are buffered and never wait
}
func (c *conn) SetReadDeadline(t time.Time) error { c.in.setDeadline(t); return nil }
func (c *conn) SetWriteDeadline(time.Time) error  { return nil }

// pipe carries bytes one way. Writes are buffered and return at once, as on a
// network; reads wait for bytes, the writer's end, or a deadline.
type pipe struct {
	mu       sync.Mutex // guards the rest
	cond     sync.Cond
	buf      []byte
	ended    bool // the writer closed
	closed   bool // the reader closed
	deadline time.Time
	timer    *time.Timer
}

func newPipe() *pipe {
	p := &pipe{}
	p.cond.L = &p.mu
	return p
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.closed:
			return 0, net.ErrClosed
		case !p.deadline.IsZero() && !time.Now().Before(p.deadline):
			return 0, os.ErrDeadlineExceeded
		case len(p.buf) > 0:
			n := copy(b, p.buf)
			p.buf = p.buf[n:]
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return 0, net.ErrClosed
	}
	if p.closed {
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
	}
	p.buf = append(p.buf, b...)
	p.cond.Broadcast()
	return len(b), nil
}

func (p *pipe) closeReading() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.buf = nil
	if p.timer != nil {
		p.timer.Stop()
	}
	p.cond.Broadcast()
}

func (p *pipe) closeWriting() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.cond.Broadcast()
}

func (p *pipe) setDeadline(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.deadline = t
	if !t.IsZero() && !p.closed {
		p.timer = time.AfterFunc(time.Until(t), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.cond.Broadcast()
		})
	}
	p.cond.Broadcast()
}

// queue is an unbounded queue whose takers wait on a condition variable.
type queue[T any] struct {
	mu     sync.Mutex // guards the rest
	cond   sync.Cond
	items  []T
	closed bool
}

func newQueue[T any]() *queue[T] {
	q := &queue[T]{}
	q.cond.L = &q.mu
	return q
}

func (q *queue[T]) put(v T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, v)
	q.cond.Signal()
}

func (q *queue[T]) take() (v T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		q.cond.Wait()
	}
	if len(q.items) == 0 {
		return v, false
	}
	v, q.items = q.items[0], q.items[1:]
	return v, true
}

// close ends the queue and hands back what nobody took.
func (q *queue[T]) close() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	left := q.items
	q.items = nil
	q.cond.Broadcast()
	return left
}
