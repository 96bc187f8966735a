package faultnet

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// host is one process, seen from its proxy.
type host struct {
	net     *Net
	name    string
	behind  string // where it listens
	address string // where its proxy does

	mu       sync.Mutex // guards listener
	listener net.Listener
}

// Pauses between two dials to a host that refuses, and the limit of one.
const (
	watchPause = 5 * time.Millisecond
	dialLimit  = time.Second
)

// listening makes the proxy answer. Never after Close.
func (h *host) listening(l net.Listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listener != nil || h.net.ctx.Err() != nil {
		l.Close()
		return
	}
	h.listener = l
	h.net.done.Go(func() { h.accept(l) })
}

// deaf makes the proxy refuse dials.
func (h *host) deaf() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listener != nil {
		h.listener.Close()
		h.listener = nil
	}
}

// hears says whether the proxy listens.
func (h *host) hears() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.listener != nil
}

func (h *host) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors: others may close some
			h.pause(watchPause)
			continue
		}
		h.net.done.Go(func() { h.carry(conn.(*net.TCPConn)) })
	}
}

// watch holds an idle connection to the host: its end is the first sign that the
// host is gone, a refused dial the proof.
func (h *host) watch() {
	dialer := net.Dialer{Timeout: dialLimit}
	for h.net.ctx.Err() == nil {
		conn, err := dialer.DialContext(h.net.ctx, "tcp", h.behind)
		if errors.Is(err, syscall.ECONNREFUSED) {
			h.deaf()
		}
		if err != nil {
			h.pause(watchPause)
			continue
		}
		if !h.hears() {
			if l, err := net.Listen("tcp", h.address); err == nil {
				h.listening(l)
			}
		}
		stop := closeWith(h.net.ctx, conn)
		var none [1]byte
		_, _ = conn.Read(none[:]) // nothing is ever sent here: it returns when the connection ends
		stop()
		conn.Close()
	}
}

// pause waits, or until Close.
func (h *host) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-h.net.ctx.Done():
	}
}

// carry serves one connection until it ends on both sides.
func (h *host) carry(near *net.TCPConn) {
	caller := h.net.caller(near.RemoteAddr())
	there, back := h.net.link(caller, h.name), h.net.link(h.name, caller)
	if caller == "" {
		there, back = newLink(), newLink() // somebody from outside
	}
	stop := closeWith(h.net.ctx, near)
	defer stop()
	// A handshake needs both ways.
	if there.passable(h.net.ctx.Done()) != nil || back.passable(h.net.ctx.Done()) != nil {
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
	p := newPair(caller, h.name, near, conn.(*net.TCPConn))
	h.net.mu.Lock()
	h.net.pairs[p] = true
	h.net.mu.Unlock()
	if h.net.ctx.Err() != nil {
		p.reset() // Close may have looked before it was there
	}
	p.carry(there, back)
	h.net.mu.Lock()
	delete(h.net.pairs, p)
	h.net.mu.Unlock()
}
