package oversell

import (
	"context"
	"net"
	"sync"
)

// ice freezes a worker's connections to its lock, as when its process is stopped:
// nothing of it is sent, nothing that comes is read, and its sockets stay open, so that
// the server does not notice. Locks only see that its lease is not renewed.
type ice struct {
	mu      sync.Mutex    // guards what follows
	frozen  chan struct{} // closed by thaw; nil while nothing is frozen
	closing []net.Conn    // to be closed by thaw: a frozen process closes nothing
}

func (i *ice) freeze() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.frozen == nil {
		i.frozen = make(chan struct{})
	}
}

// thaw may be called twice.
func (i *ice) thaw() {
	i.mu.Lock()
	frozen, closing := i.frozen, i.closing
	i.frozen, i.closing = nil, nil
	i.mu.Unlock()
	if frozen != nil {
		close(frozen)
	}
	for _, conn := range closing {
		conn.Close()
	}
}

// wait returns when nothing is frozen; false: the connection was given up meanwhile.
func (i *ice) wait(given <-chan struct{}) bool {
	i.mu.Lock()
	frozen := i.frozen
	i.mu.Unlock()
	if frozen == nil {
		return true
	}
	select {
	case <-frozen:
		return true
	case <-given:
		return false
	}
}

func (i *ice) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !i.wait(ctx.Done()) {
		return nil, ctx.Err()
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &iceConn{Conn: conn, ice: i, closed: make(chan struct{})}, nil
}

// iceConn is one connection.
type iceConn struct {
	net.Conn
	ice    *ice
	once   sync.Once
	closed chan struct{}
}

func (c *iceConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.ice.wait(c.closed) {
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *iceConn) Write(p []byte) (int, error) {
	if !c.ice.wait(c.closed) {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func (c *iceConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.ice.mu.Lock()
	if c.ice.frozen != nil {
		c.ice.closing = append(c.ice.closing, c.Conn)
		c.ice.mu.Unlock()
		return nil
	}
	c.ice.mu.Unlock()
	return c.Conn.Close()
}
