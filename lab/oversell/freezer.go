package oversell

import (
	"context"
	"net"
	"sync"
)

// freezer freezes a worker's connections to its lock's store, as if its process
// were stopped: nothing is sent, nothing is read, and the sockets stay open, so
// that the server does not notice. The only effect on the lock is that its
// lease is not renewed.
type freezer struct {
	mu      sync.Mutex    // guards what follows
	frozen  chan struct{} // closed by thaw; nil while nothing is frozen
	closing []net.Conn    // closed while frozen: thaw closes them, because a frozen process closes nothing
}

func (f *freezer) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frozen == nil {
		f.frozen = make(chan struct{})
	}
}

// thaw may be called twice.
func (f *freezer) thaw() {
	f.mu.Lock()
	frozen, closing := f.frozen, f.closing
	f.frozen, f.closing = nil, nil
	f.mu.Unlock()
	if frozen != nil {
		close(frozen)
	}
	for _, conn := range closing {
		conn.Close()
	}
}

// wait waits while the freezer is frozen. It returns false if cancelled is
// closed first.
func (f *freezer) wait(cancelled <-chan struct{}) bool {
	f.mu.Lock()
	frozen := f.frozen
	f.mu.Unlock()
	if frozen == nil {
		return true
	}
	select {
	case <-frozen:
		return true
	case <-cancelled:
		return false
	}
}

func (f *freezer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !f.wait(ctx.Done()) {
		return nil, ctx.Err()
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &freezerConn{Conn: conn, freezer: f, closed: make(chan struct{})}, nil
}

// freezerConn is a connection that can be frozen.
type freezerConn struct {
	net.Conn
	freezer *freezer
	once    sync.Once
	closed  chan struct{}
}

func (c *freezerConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.freezer.wait(c.closed) {
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *freezerConn) Write(p []byte) (int, error) {
	if !c.freezer.wait(c.closed) {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func (c *freezerConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.freezer.mu.Lock()
	if c.freezer.frozen != nil {
		c.freezer.closing = append(c.freezer.closing, c.Conn)
		c.freezer.mu.Unlock()
		return nil
	}
	c.freezer.mu.Unlock()
	return c.Conn.Close()
}
