package inprocess

import (
	"context"
	"fmt"
	"net"
	"sync"

	"conclave/wire"
)

// host is the network of one node: TCP, with a port that stays the node's over restarts.
// It is reserved by a listener until the node listens for the first time.
type host struct {
	*wire.TCP
	address string

	mu       sync.Mutex
	reserved net.Listener // nil once it was given to the node
}

// reserve returns the network of a node at an address, at a free port of loopback if it
// is empty.
func reserve(address string) (*host, error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
	h := &host{TCP: wire.NewTCP()}
	ln, err := h.TCP.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	h.reserved, h.address = ln, ln.Addr().String()
	return h, nil
}

// Listen returns the reserved listener, and later a new one.
func (h *host) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	h.mu.Lock()
	ln := h.reserved
	h.reserved = nil
	h.mu.Unlock()
	if ln != nil {
		return ln, nil
	}
	return h.TCP.Listen(ctx, network, address)
}

// release closes the listener that no node has asked for.
func (h *host) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reserved != nil {
		h.reserved.Close()
		h.reserved = nil
	}
}
