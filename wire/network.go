package wire

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// Network is the one seam between a node and the world: every server listens
// and every client dials through it, the database driver included. Processes
// use TCP, the simulator an in-memory network with faults; nothing else is
// ever faked, so that both run the same code.
type Network interface {
	Listen(ctx context.Context, network, address string) (net.Listener, error)
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// TCP is the real network: the two standard types have just these methods.
type TCP struct {
	net.ListenConfig
	net.Dialer
}

var _ Network = (*TCP)(nil)

// NewTCP returns the real network. A dial that finds nobody fails at once with
// a refusal; one that hears nothing fails after a second, so that a dead host
// never holds a loop up for the kernel's minutes.
func NewTCP() *TCP {
	return &TCP{Dialer: net.Dialer{Timeout: time.Second}}
}

// Refused says that err is a dial that reached a host on which nobody listens:
// evidence of a stopped process, where a time-out is none.
func Refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// DialFailed reports whether err is a dial that brought no connection: refused,
// no route, no such name, or no answer in time. A connection that was accepted
// and then stays silent is no failed dial.
func DialFailed(err error) bool {
	var e *net.OpError
	return errors.As(err, &e) && e.Op == "dial"
}

// Unnamed says that err is a dial to a name that no resolver knows (any more).
// Docker and Kubernetes drop a container's name a moment after its process has
// ended: alone it proves nothing, since who is cut off from a network finds no
// names in it either; after a refusal it is the next one.
func Unnamed(err error) bool {
	var e *net.DNSError
	return errors.As(err, &e) && e.IsNotFound
}
