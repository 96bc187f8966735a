package wire

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"conclave/internal/join"
	"conclave/wire/admit"
)

// Network is the only interface between a node and the world outside: every
// server listens and every client dials through it, the database driver
// included. Processes use TCP, the simulator an in-memory network with faults.
// Nothing else is ever replaced in tests, so both run the same code.
type Network interface {
	Listen(ctx context.Context, network, address string) (net.Listener, error)
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// TCP is the real network. The two embedded types provide its methods.
type TCP struct {
	net.ListenConfig
	net.Dialer
}

var _ Network = (*TCP)(nil)

// NewTCP returns the real network. A dial fails at once if the host refuses it,
// and after a second without an answer, so that a dead host does not block a
// caller for the kernel's timeout of minutes.
func NewTCP() *TCP {
	return &TCP{Dialer: net.Dialer{Timeout: time.Second}}
}

// Limits of the connections that this process sets up at the same time.
const (
	setUpAtOnce = 64
	setUpLimit  = 250 * time.Millisecond // after which one that takes longer does not count
)

// settingUp is of the connections that are being set up.
var settingUp = admit.New(setUpAtOnce, 0)

// Pace waits until this process may set up one more connection, and returns a
// function to be called when it is set up. A process with thousands of clients
// whose session has died would otherwise dial, shake hands and replay for all of
// them at once, so slowly that none is served before it gives up. A connection that
// is not set up within setUpLimit does not count any longer, so that a host that
// does not answer delays no other.
func (*TCP) Pace(ctx context.Context) (done func(), err error) {
	turn, err := settingUp.Wait(ctx, "", 1)
	if err != nil {
		return nil, err
	}
	limit := time.AfterFunc(setUpLimit, turn.Leave) // from now: what waits for a processor is not set up yet
	return func() {
		limit.Stop()
		turn.Leave()
	}, nil
}

// Refused reports whether err is a dial that reached a host on which no process
// listens. This is evidence that the process has stopped; a timeout is not.
func Refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// DialFailed reports whether err is a dial without a connection: refused, no
// route, unknown name, or no answer in time. It is false for a connection that
// was accepted and then stays silent.
func DialFailed(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "dial"
}

// DialTimedOut reports whether err is a dial that was not answered in time.
func DialTimedOut(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "dial" && e.Timeout()
}

// Unnamed reports whether err is a dial to a name that does not resolve. Docker
// and Kubernetes remove a container's name shortly after its process has ended.
// By itself this proves nothing, since a node that is disconnected from the
// network cannot resolve names either; after a refused dial it is the expected
// next error.
func Unnamed(err error) bool {
	e, ok := errors.AsType[*net.DNSError](err)
	return ok && e.IsNotFound
}

// tracked is a Network that keeps its dialled connections and can close them
// all.
type tracked struct {
	Network
	ended   context.Context // of all dials: net/http dials on when its caller has given up
	end     context.CancelFunc
	dialing join.Group // dials in progress

	mu   sync.Mutex // guards open, to which nothing is added once ended has
	open map[*trackedConn]bool
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
	if !t.dialing.Begin() {
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
	closed := t.ended.Err() != nil
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

// close closes all open connections, and ends and joins the dials in progress.
func (t *tracked) close() {
	t.end()
	t.mu.Lock()
	open := t.open
	t.open = map[*trackedConn]bool{}
	t.mu.Unlock()
	for c := range open {
		c.Conn.Close()
	}
	t.dialing.Close()
}
