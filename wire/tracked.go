package wire

import (
	"context"
	"net"
	"sync"
)

// tracked is a Network that keeps its dialled connections and can close them
// all.
type tracked struct {
	Network

	mu     sync.Mutex // guards the rest
	open   map[*trackedConn]bool
	closed bool
}

type trackedConn struct {
	net.Conn
	of *tracked
}

// DialContext dials. After close it returns net.ErrClosed and no connection.
func (t *tracked) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := t.Network.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &trackedConn{conn, t}
	t.mu.Lock()
	closed := t.closed
	if !closed {
		t.open[c] = true
	}
	t.mu.Unlock()
	if closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	return c, nil
}

// Close closes the connection and removes it from its network.
func (c *trackedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// close closes all open connections, and those of dials that complete later.
func (t *tracked) close() {
	t.mu.Lock()
	t.closed = true
	open := t.open
	t.open = map[*trackedConn]bool{}
	t.mu.Unlock()
	for c := range open {
		c.Conn.Close()
	}
}
