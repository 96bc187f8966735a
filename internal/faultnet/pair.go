package faultnet

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// pair is one connection through a proxy: its near end towards the caller, its
// far end towards the host that was called.
type pair struct {
	caller, called string
	near, far      *net.TCPConn

	once sync.Once
	over chan struct{} // closed when the pair was broken by a fault

	mu   sync.Mutex // guards mute
	mute string     // the host that hears and says nothing any more: half-open
}

func newPair(caller, called string, near, far *net.TCPConn) *pair {
	return &pair{caller: caller, called: called, near: near, far: far, over: make(chan struct{})}
}

// chunk is what was read at once; the last one of a direction has its end.
type chunk struct {
	bytes []byte
	due   time.Time
	err   error // io.EOF: closed in order; else reset
}

const (
	chunkSize = 32 << 10
	inFlight  = 64 // chunks of one direction; the sender waits when there are more
)

// carry moves bytes both ways until both have ended.
func (p *pair) carry(there, back *link) {
	var ways sync.WaitGroup
	ways.Go(func() { p.move(p.near, p.far, p.called, there) })
	ways.Go(func() { p.move(p.far, p.near, p.caller, back) })
	ways.Wait()
	p.reset()
}

// move carries one direction, in order, with the faults of its link.
func (p *pair) move(src, dst *net.TCPConn, to string, l *link) {
	queue := make(chan chunk, inFlight)
	var reader sync.WaitGroup
	reader.Go(func() { p.read(src, queue, l) })
	defer reader.Wait()
	for c := range queue {
		if !p.arrive(c.due) || l.passable(p.over) != nil {
			break
		}
		if p.muted(to) {
			continue // it is gone: nobody hears, and nobody is told
		}
		if c.err == nil && l.loses() {
			p.reset()
			break
		}
		if _, err := dst.Write(c.bytes); err != nil && !p.muted(to) {
			p.reset()
			break
		}
		if p.end(dst, c.err) {
			break
		}
	}
	for range queue { // lets the reader go on to its end
	}
}

// read fills the queue, and closes it after the end of the source.
func (p *pair) read(src *net.TCPConn, queue chan<- chunk, l *link) {
	defer close(queue)
	for {
		b := make([]byte, chunkSize)
		n, err := src.Read(b)
		if p.muted(p.nameOf(src)) {
			return // its end is not told
		}
		queue <- chunk{b[:n], l.due(time.Now(), n), err}
		if err != nil {
			return
		}
	}
}

// end passes the end of a direction on: an orderly one as such, a reset as a reset.
func (p *pair) end(dst *net.TCPConn, err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, io.EOF):
		_ = dst.CloseWrite() // closed already is what we want
	default:
		p.reset()
	}
	return true
}

// arrive waits until then; false when the pair was broken before.
func (p *pair) arrive(due time.Time) bool {
	d := time.Until(due)
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.over:
		return false
	}
}

// reset breaks the connection for both sides.
func (p *pair) reset() {
	p.once.Do(func() {
		close(p.over)
		for _, c := range []*net.TCPConn{p.near, p.far} {
			_ = c.SetLinger(0) // closed already is what we want
			c.Close()
		}
	})
}

// half breaks the connection for one side only.
func (p *pair) half(gone string) {
	p.mu.Lock()
	p.mute = gone
	p.mu.Unlock()
	c := p.far
	if gone == p.caller {
		c = p.near
	}
	_ = c.SetLinger(0) // closed already is what we want
	c.Close()
}

func (p *pair) muted(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mute == name && name != ""
}

func (p *pair) nameOf(c *net.TCPConn) string {
	if c == p.near {
		return p.caller
	}
	return p.called
}
