package faultnet

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"conclave/internal/sleep"
)

// host is one process and its proxy.
type host struct {
	net     *Net
	name    string
	behind  string // the process's address
	address string // the proxy's address

	mu       sync.Mutex // guards the fields below
	listener net.Listener
	closed   bool // between ClosePort and OpenPort
}

const (
	watchPause = 5 * time.Millisecond // between two dials to a host that refuses
	dialLimit  = time.Second          // of one dial
)

// open makes the proxy accept connections on l, except after Close or ClosePort.
func (h *host) open(l net.Listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listener != nil || h.closed || h.net.ctx.Err() != nil {
		l.Close()
		return
	}
	h.listener = l
	h.net.done.Go(func() { h.accept(l) })
}

// refuse makes the proxy refuse dials.
func (h *host) refuse() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listener != nil {
		h.listener.Close()
		h.listener = nil
	}
}

// shut makes the proxy refuse dials until its port is opened again, or ends that.
func (h *host) shut(closed bool) error {
	h.mu.Lock()
	h.closed = closed
	h.mu.Unlock()
	if closed {
		h.refuse()
		return nil
	}
	return h.reopen()
}

// reopen makes a proxy that refuses dials accept connections.
func (h *host) reopen() error {
	h.mu.Lock()
	open := h.listener != nil || h.closed
	h.mu.Unlock()
	if open {
		return nil
	}
	l, err := net.Listen("tcp", h.address)
	if err == nil {
		h.open(l)
	}
	return err
}

func (h *host) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no free file descriptors; there may be some later
			_ = sleep.For(h.net.ctx, watchPause)
			continue
		}
		h.net.done.Go(func() { h.carry(conn.(*net.TCPConn)) })
	}
}

// watch keeps an idle connection to the host. When it ends, the host may have
// gone; a refused dial proves it.
func (h *host) watch() {
	dialer := net.Dialer{Timeout: dialLimit}
	for h.net.ctx.Err() == nil {
		conn, err := dialer.DialContext(h.net.ctx, "tcp", h.behind)
		if errors.Is(err, syscall.ECONNREFUSED) {
			h.refuse()
		}
		if err != nil {
			_ = sleep.For(h.net.ctx, watchPause)
			continue
		}
		_ = h.reopen() // if another program has the port, dials are refused until the next try
		stop := context.AfterFunc(h.net.ctx, func() { conn.Close() })
		var none [1]byte
		_, _ = conn.Read(none[:]) // nothing is sent here; Read returns when the connection ends
		stop()
		conn.Close()
	}
}

// carry serves one connection until it ends on both sides.
func (h *host) carry(near *net.TCPConn) {
	caller := h.net.caller(near.RemoteAddr())
	there, back := h.net.link(caller, h.name), h.net.link(h.name, caller)
	if caller == "" {
		there, back = &link{}, &link{} // not a host of this network: no faults
	}
	stop := context.AfterFunc(h.net.ctx, func() { near.Close() })
	defer stop()
	// A handshake needs both directions.
	if there.passable(h.net.ctx) != nil || back.passable(h.net.ctx) != nil {
		near.Close()
		return
	}
	dialer := net.Dialer{Timeout: dialLimit}
	conn, err := dialer.DialContext(h.net.ctx, "tcp", h.behind)
	if err != nil {
		_ = near.SetLinger(0)
		near.Close()
		return
	}
	p := newPair(h.net.ctx, caller, h.name, near, conn.(*net.TCPConn))
	h.net.mu.Lock()
	h.net.pairs[p] = true
	h.net.mu.Unlock()
	p.carry(there, back)
	h.net.mu.Lock()
	delete(h.net.pairs, p)
	h.net.mu.Unlock()
}
