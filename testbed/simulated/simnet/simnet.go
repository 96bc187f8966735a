package simnet

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"conclave/wire"
)

// dialTimeout is how long a dial waits for an answer, as in wire.NewTCP.
const dialTimeout = time.Second

// Net is one network. Its hosts are made when they are first named.
type Net struct {
	// Tap, if not nil, is called with everything that is sent, in order. Set it
	// before the first host is used. It must not call the network.
	Tap func(Sent)
	// Fate, if not nil, is called when a segment has arrived at the other host's
	// kernel, or when it is certain that it never will. With a budget it is called
	// for each piece that was served. The same holds for it as for Tap.
	Fate func(segment uint64, arrived bool)

	seed uint64

	mu        sync.Mutex // guards the rest, and every host, link, listener, conn and pipe; held for look-ups only
	listeners map[string]*listener
	hosts     map[string]*host
	links     map[[2]string]*link
	conns     []*conn // both ends, in the order in which they were made
	byDefault Shape
	nextPort  int
	segments  uint64 // number of segments that were sent
}

// New returns a network without hosts whose links draw from the seed.
func New(seed uint64) *Net {
	return &Net{
		seed: seed, listeners: map[string]*listener{}, hosts: map[string]*host{}, links: map[[2]string]*link{}, nextPort: 40000,
	}
}

// Sent is what leaves a host at one instant.
type Sent struct {
	From, To string // addresses
	Data     []byte // valid during the call of Tap only
	What     string // "fin", "rst", or ""
	Segment  uint64 // the number of the segment in which it travels; writes of one instant may share one
}

// host is the network's state of a machine and of the process on it.
type host struct {
	frozen  bool
	closed  bool          // it refuses dials; see ClosePort
	thawed  chan struct{} // closed by Resume and by Kill; nil unless paused
	waiting int           // number of dials that wait for thawed; see awake
	kills   int           // number of processes that were killed here
	cpu     *processor    // nil: computing takes no time
}

// Host is the network as one process on a host sees it. Once the process was
// killed its Host fails every call; the next process needs a new one.
type Host struct {
	net   *Net
	name  string
	kills int // of the host, when this process started
}

var _ wire.Network = (*Host)(nil)

// Host returns the network for a process that starts on the named host. A host
// need not be created or closed.
func (n *Net) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return &Host{net: n, name: name, kills: n.hostOf(name).kills}
}

// dead reports whether the process was killed. Net.mu is held.
func (h *Host) dead() bool { return h.net.hostOf(h.name).kills != h.kills }

// hostOf returns the named host, which it makes if necessary. Net.mu is held.
func (n *Net) hostOf(name string) *host {
	h := n.hosts[name]
	if h == nil {
		h = &host{}
		n.hosts[name] = h
	}
	return h
}

// Listen listens on a port of this host; the host part of the address is
// ignored. Port 0 takes a free port.
func (h *Host) Listen(_ context.Context, network, address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if h.dead() {
		return nil, &net.OpError{Op: "listen", Net: network, Err: syscall.ENETDOWN}
	}
	if port == "0" {
		n.nextPort++
		port = strconv.Itoa(n.nextPort)
	}
	addr := addr(net.JoinHostPort(h.name, port))
	if n.listeners[string(addr)] != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Addr: addr, Err: syscall.EADDRINUSE}
	}
	l := &listener{net: n, host: h.name, addr: addr}
	l.cond.L = &n.mu
	n.listeners[string(addr)] = l
	return l, nil
}

// errNoAnswer is returned by a dial that got neither a connection nor a
// refusal.
var errNoAnswer = os.ErrDeadlineExceeded

// DialContext connects to a listener. It fails with ECONNREFUSED if the other
// host has no such listener, and with os.ErrDeadlineExceeded if no answer
// arrives within a second. It takes one round trip.
func (h *Host) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: addr(address), Err: err}
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	to, _, err := net.SplitHostPort(address)
	if err != nil {
		return fail(err)
	}
	n := h.net
	limit := time.Now().Add(dialTimeout)
	// 1. A frozen process does not dial before it is thawed.
	if err := n.awake(ctx, h.name); err != nil {
		return fail(err)
	}
	// 2. The request travels to the other host.
	n.mu.Lock()
	there, arrives := n.link(h.name, to).trip(1)
	dead := h.dead()
	n.mu.Unlock()
	if dead {
		return fail(syscall.ENETDOWN)
	}
	if err := pause(ctx, there, arrives, limit); err != nil {
		return fail(err)
	}
	// 3. The other host's kernel accepts or refuses.
	n.mu.Lock()
	back, arrives := n.link(to, h.name).trip(1)
	var c *conn
	if dead = h.dead(); !dead && arrives && n.listeners[address] != nil && !n.hostOf(to).closed {
		c = n.connect(h.name, n.listeners[address])
	}
	n.mu.Unlock()
	// 4. The answer travels back.
	err = pause(ctx, back, arrives, limit)
	switch {
	case err != nil && c != nil:
		c.Close()
		return fail(err)
	case err != nil:
		return fail(err)
	case dead:
		return fail(syscall.ENETDOWN)
	case c == nil:
		return fail(syscall.ECONNREFUSED)
	}
	return c, nil
}

// connect makes both ends of a connection, queues the far end at the listener
// and returns the near end. Net.mu is held.
func (n *Net) connect(from string, l *listener) *conn {
	n.nextPort++
	local := addr(fmt.Sprintf("%s:%d", from, n.nextPort))
	up, down := n.newPipe(from, l.host), n.newPipe(l.host, from)
	near := &conn{net: n, host: from, peer: l.host, local: local, remote: l.addr, in: down, out: up}
	far := &conn{net: n, host: l.host, peer: from, local: l.addr, remote: local, in: up, out: down}
	up.writer, up.reader, down.writer, down.reader = near, far, far, near
	n.conns = append(n.conns, near, far)
	l.queue = append(l.queue, far)
	l.cond.Signal()
	return near
}

// awake waits until the host is not frozen. After a thaw the waiting dials of a
// host continue one microsecond apart, in the order of their calls, and those
// of two hosts never at the same instant: the runtime keeps the order of at
// most 256 goroutines that become ready at one instant, and processes that were
// frozen for long have more.
func (n *Net) awake(ctx context.Context, name string) error {
	for {
		n.mu.Lock()
		h := n.hostOf(name)
		thawed, position := h.thawed, h.waiting
		if thawed != nil {
			h.waiting++
		}
		n.mu.Unlock()
		if thawed == nil {
			return nil
		}
		select {
		case <-thawed:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := pause(ctx, time.Duration(position)*time.Microsecond+offset(name), true, time.Now().Add(time.Hour)); err != nil {
			return err
		}
	}
}

// offset returns the moment within a microsecond at which a host's dials
// continue.
func offset(name string) time.Duration {
	return time.Duration(1 + hash(name)%999)
}

// pause waits for the time that a packet travels. If the packet does not arrive
// before the limit, pause waits for the limit and returns errNoAnswer.
func pause(ctx context.Context, d time.Duration, arrives bool, limit time.Time) error {
	left := time.Until(limit)
	late := !arrives || d > left
	if late {
		d = left
	}
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if late {
		return errNoAnswer
	}
	return nil
}

// forget removes an end from the network's list. Net.mu is held.
func (n *Net) forget(c *conn) {
	n.conns = slices.DeleteFunc(n.conns, func(other *conn) bool { return other == c })
}

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

type listener struct {
	net    *Net
	host   string
	addr   addr
	cond   sync.Cond // on Net.mu
	queue  []*conn
	closed bool
}

func (l *listener) Accept() (net.Conn, error) {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	for !l.closed && (len(l.queue) == 0 || l.net.hostOf(l.host).frozen) {
		l.cond.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	c := l.queue[0]
	l.queue = l.queue[1:]
	return c, nil
}

func (l *listener) Close() error {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	for _, c := range l.end() {
		c.end() // dialled, never accepted
	}
	return nil
}

// end closes the listener and returns the connections that were not accepted.
// Net.mu is held.
func (l *listener) end() []*conn {
	if l.net.listeners[string(l.addr)] == l {
		delete(l.net.listeners, string(l.addr))
	}
	l.closed = true
	left := l.queue
	l.queue = nil
	l.cond.Broadcast()
	return left
}

func (l *listener) Addr() net.Addr { return l.addr }

// listenersOf returns a host's listeners, sorted by address. Net.mu is held.
func (n *Net) listenersOf(name string) []*listener {
	var all []*listener
	for _, l := range n.listeners {
		if l.host == name {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *listener) int { return cmp.Compare(a.addr, b.addr) })
	return all
}

// Connections returns the number of ends that are open at a host.
func (n *Net) Connections(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	open := 0
	for _, c := range n.conns {
		if c.host == name {
			open++
		}
	}
	return open
}
