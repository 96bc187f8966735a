package simnet

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"

	"conclave/wire"
)

// Net is one network; hosts are made by name.
type Net struct {
	mu        sync.Mutex // guards the rest; held for look-ups only
	listeners map[string]*listener
	conns     map[string]map[*conn]bool // by host, both ends
	nextPort  int
}

// New makes an empty network.
func New() *Net {
	return &Net{listeners: map[string]*listener{}, conns: map[string]map[*conn]bool{}, nextPort: 40000}
}

// Host is the network as the process on the named host sees it.
type Host struct {
	net  *Net
	name string
}

var _ wire.Network = (*Host)(nil)

// Host returns the named host's view. Hosts need no making and no ending.
func (n *Net) Host(name string) *Host { return &Host{net: n, name: name} }

// Cut ends everything of a host, as the kernel ends a killed process: its
// listeners are gone and both ends of its connections fail.
func (n *Net) Cut(name string) {
	n.mu.Lock()
	var doomed []*conn
	for c := range n.conns[name] {
		doomed = append(doomed, c)
	}
	var closed []*listener
	for addr, l := range n.listeners {
		if l.host == name {
			delete(n.listeners, addr)
			closed = append(closed, l)
		}
	}
	n.mu.Unlock()
	for _, l := range closed {
		l.queue.close()
	}
	for _, c := range doomed {
		c.Close()
	}
}

// Listen opens host:port; the address's host part is ignored, the listener's
// is the host's own name. Port 0 takes a free one.
func (h *Host) Listen(_ context.Context, network, address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == "0" {
		n.nextPort++
		port = strconv.Itoa(n.nextPort)
	}
	addr := addr(net.JoinHostPort(h.name, port))
	if n.listeners[string(addr)] != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Addr: addr, Err: syscall.EADDRINUSE}
	}
	l := &listener{net: n, host: h.name, addr: addr, queue: newQueue[*conn]()}
	n.listeners[string(addr)] = l
	return l, nil
}

// DialContext connects to a listener, or is refused.
func (h *Host) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.listeners[address]
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: addr(address), Err: syscall.ECONNREFUSED}
	}
	n.nextPort++
	local := addr(fmt.Sprintf("%s:%d", h.name, n.nextPort))
	up, down := newPipe(), newPipe()
	near := &conn{net: n, host: h.name, local: local, remote: l.addr, in: down, out: up}
	far := &conn{net: n, host: l.host, local: l.addr, remote: local, in: up, out: down}
	for _, c := range []*conn{near, far} {
		if n.conns[c.host] == nil {
			n.conns[c.host] = map[*conn]bool{}
		}
		n.conns[c.host][c] = true
	}
	l.queue.put(far)
	return near, nil
}

func (n *Net) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns[c.host], c)
}

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

type listener struct {
	net   *Net
	host  string
	addr  addr
	queue *queue[*conn]
}

func (l *listener) Accept() (net.Conn, error) {
	c, ok := l.queue.take()
	if !ok {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	return c, nil
}

func (l *listener) Close() error {
	l.net.mu.Lock()
	if l.net.listeners[string(l.addr)] == l {
		delete(l.net.listeners, string(l.addr))
	}
	l.net.mu.Unlock()
	for _, c := range l.queue.close() {
		c.Close() // dialled, never accepted
	}
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }
