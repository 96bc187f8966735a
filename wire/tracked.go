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
	ended context.Context // of all dials: net/http dials on when its caller has given up
	end   context.CancelFunc

	mu      sync.Mutex // guards the rest
	open    map[*trackedConn]bool
	closed  bool
	dialing sync.WaitGroup // dials in progress; none is added once closed is set
}

type trackedConn struct {
	net.Conn
	of *tracked
}

func track(network Network) *tracked {
	t := &tracked{Network: network, open: map[*trackedConn]bool{}}
	t.ended, t.end = context.WithCancel(context.Background())
	return t
}

// DialContext dials. After close it returns net.ErrClosed and no connection.
func (t *tracked) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	t.mu.Lock()
	closed := t.closed
	if !closed {
		t.dialing.Add(1)
	}
	t.mu.Unlock()
	if closed {
		return nil, net.ErrClosed
	}
	defer t.dialing.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ended, cancel)()
	conn, err := t.Network.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &trackedConn{conn, t}
	t.mu.Lock()
	if closed = t.closed; !closed {
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

// close closes all open connections, and ends and joins the dials in progress.
func (t *tracked) close() {
	t.mu.Lock()
	t.closed = true
	open := t.open
	t.open = map[*trackedConn]bool{}
	t.mu.Unlock()
	t.end()
	for c := range open {
		c.Conn.Close()
	}
	t.dialing.Wait()
}
