package inprocess

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"

	"conclave/wire"
)

// host is the network of one node: TCP, with a port that stays the node's over restarts.
// Until the node listens for the first time, connections wait for it.
type host struct {
	*wire.TCP
	address string
	unhold  func()

	mu    sync.Mutex
	first net.Listener // nil once it was given to the node
}

// reserve returns the network of a node at an address, at a free port of loopback if it
// is empty.
func reserve(address string) (*host, error) {
	at, err := net.ResolveTCPAddr("tcp", cmp.Or(address, "127.0.0.1:0"))
	if err != nil {
		return nil, err
	}
	h := &host{TCP: wire.NewTCP()}
	if h.unhold, err = hold(at); err == nil {
		if h.first, err = h.TCP.Listen(context.Background(), "tcp", at.String()); err != nil {
			h.unhold()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", at, err)
	}
	h.address = h.first.Addr().String()
	return h, nil
}

// Listen returns the first listener, and later a new one.
func (h *host) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	h.mu.Lock()
	ln := h.first
	h.first = nil
	h.mu.Unlock()
	if ln != nil {
		return ln, nil
	}
	return h.TCP.Listen(ctx, network, address)
}

// release gives the port up. The node has ended, if it was started.
func (h *host) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.first != nil {
		h.first.Close()
		h.first = nil
	}
	h.unhold()
}
