package faultnet

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"conclave/internal/sleep"
)

// pair is one connection through a proxy: near leads to the caller, far to the
// host that was called.
type pair struct {
	caller, called string
	near, far      *net.TCPConn

	ctx   context.Context // ends when the pair was broken
	reset func()          // breaks the connection for both sides

	mu  sync.Mutex // guards cut
	cut string     // the host whose side was broken by HalfOpen
}

// newPair returns a pair that is broken at the latest when ctx ends.
func newPair(ctx context.Context, caller, called string, near, far *net.TCPConn) *pair {
	p := &pair{caller: caller, called: called, near: near, far: far}
	ctx, end := context.WithCancel(ctx)
	p.ctx, p.reset = ctx, sync.OnceFunc(func() {
		end()
		for _, c := range []*net.TCPConn{near, far} {
			_ = c.SetLinger(0) // fails only if it is closed
			c.Close()
		}
	})
	context.AfterFunc(ctx, p.reset)
	return p
}

// chunk is the result of one read; the last one of a direction has err set.
type chunk struct {
	bytes []byte
	due   time.Time
	err   error // io.EOF: closed; otherwise reset
}

const (
	chunkSize = 32 << 10
	inFlight  = 64 // chunks of one direction; the sender waits if there are more
)

// carry copies bytes in both directions until both have ended.
func (p *pair) carry(there, back *link) {
	var directions sync.WaitGroup
	directions.Go(func() { p.move(p.near, p.far, p.caller, p.called, there) })
	directions.Go(func() { p.move(p.far, p.near, p.called, p.caller, back) })
	directions.Wait()
	p.reset()
}

// move copies one direction, in order, with the faults of its link.
func (p *pair) move(src, dst *net.TCPConn, from, to string, l *link) {
	queue := make(chan chunk, inFlight)
	var reader sync.WaitGroup
	reader.Go(func() { p.read(src, from, queue, l) })
	defer reader.Wait()
	for c := range queue {
		if sleep.For(p.ctx, time.Until(c.due)) != nil || l.passable(p.ctx) != nil {
			break
		}
		if p.isCut(to) {
			continue // half-open: the bytes are lost
		}
		if c.err == nil && l.loses() {
			p.reset()
			break
		}
		if _, err := dst.Write(c.bytes); err != nil && !p.isCut(to) {
			p.reset()
			break
		}
		if p.end(dst, c.err) {
			break
		}
	}
	for range queue { // unblocks the reader until it has ended
	}
}

// read fills the queue and closes it at the end of the source.
func (p *pair) read(src *net.TCPConn, from string, queue chan<- chunk, l *link) {
	defer close(queue)
	for {
		b := make([]byte, chunkSize)
		n, err := src.Read(b)
		if p.isCut(from) {
			return // half-open: the end is not passed on
		}
		queue <- chunk{b[:n], l.due(time.Now(), n), err}
		if err != nil {
			return
		}
	}
}

// end passes on the end of a direction, if it has ended: a close as a close, a
// reset as a reset. It reports whether the direction has ended.
func (p *pair) end(dst *net.TCPConn, err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, io.EOF):
		_ = dst.CloseWrite() // fails only if it is closed
	default:
		p.reset()
	}
	return true
}

// half breaks the connection for one side only.
func (p *pair) half(gone string) {
	p.mu.Lock()
	p.cut = gone
	p.mu.Unlock()
	c := p.far
	if gone == p.caller {
		c = p.near
	}
	_ = c.SetLinger(0) // fails only if it is closed
	c.Close()
}

// isCut reports whether HalfOpen has broken the named host's side.
func (p *pair) isCut(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut == name && name != ""
}
