package simnet

import (
	"context"
	"fmt"
	"net"
	"os"
	"sort"
	"strconv"
	"sync"
	"syscall"
	"time"

	"conclave/wire"
)

// dialLimit is how long a dial that hears nothing waits, as wire.NewTCP's does.
const dialLimit = time.Second

// Net is one network; hosts are made by name.
type Net struct {
	// Tap hears of everything that is sent, in the order in which it is; set it
	// before the first host is used. It must not call the network.
	Tap func(Sent)

	seed uint64

	mu        sync.Mutex // guards the rest, and every host, link, listener, conn and pipe; held for look-ups only
	listeners map[string]*listener
	hosts     map[string]*host
	links     map[[2]string]*link
	conns     []*conn // both ends, in the order in which they were made
	byDefault Shape
	nextPort  int
}

// New makes an empty network whose links draw from the seed.
func New(seed uint64) *Net {
	return &Net{
		seed: seed, listeners: map[string]*listener{}, hosts: map[string]*host{}, links: map[[2]string]*link{}, nextPort: 40000,
	}
}

// Sent is what leaves a host at one moment.
type Sent struct {
	From, To string // addresses
	Data     []byte // to be read at once, and not kept
	What     string // "fin", "rst", or nothing
}

// host is what the network knows of a machine and the process on it.
type host struct {
	frozen, down bool
	closed       bool          // it refuses dials; see Refuse
	thawed       chan struct{} // closed by Thaw, and by Kill; nil while nothing is frozen
	waiting      int           // dials that waited for thawed; see awake
	life         int           // counts the processes that were killed here
}

// Host is the network as the process on the named host sees it. When the process
// is killed its Host is dead: the next process takes a new one.
type Host struct {
	net  *Net
	name string
	life int
}

var _ wire.Network = (*Host)(nil)

// Host returns the view of the process that begins on the named host. Hosts need
// no making and no ending.
func (n *Net) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return &Host{net: n, name: name, life: n.hostOf(name).life}
}

// dead is called with mu held.
func (h *Host) dead() bool { return h.net.hostOf(h.name).life != h.life }

// hostOf is called with mu held.
func (n *Net) hostOf(name string) *host {
	h := n.hosts[name]
	if h == nil {
		h = &host{}
		n.hosts[name] = h
	}
	return h
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

// errSilence is a dial to which nobody said anything.
var errSilence = os.ErrDeadlineExceeded

// DialContext connects to a listener, or is refused, or hears nothing for a
// second: the question travels to the other host, and its answer back.
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
	limit := time.Now().Add(dialLimit)
	// 1. A process that stands still dials nobody.
	if err := n.awake(ctx, h.name); err != nil {
		return fail(err)
	}
	// 2. There.
	n.mu.Lock()
	there, heard := n.link(h.name, to).trip(1)
	dead := h.dead()
	n.mu.Unlock()
	if dead {
		return fail(syscall.ENETDOWN)
	}
	if err := pause(ctx, there, heard, limit); err != nil {
		return fail(err)
	}
	// 3. The other host's kernel answers.
	n.mu.Lock()
	back, heard := n.link(to, h.name).trip(1)
	heard = heard && !n.hostOf(to).down
	var c *conn
	if dead = h.dead(); !dead && heard && n.listeners[address] != nil && !n.hostOf(to).closed {
		c = n.connect(h.name, n.listeners[address])
	}
	n.mu.Unlock()
	// 4. And back.
	err = pause(ctx, back, heard, limit)
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

// connect makes both ends of a connection and queues the far one; mu is held.
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

// awake waits until the host is not frozen. Those that waited go on a microsecond
// apart, in the order in which they came, and those of two hosts never at one
// instant: the runtime keeps the order of the goroutines of one instant only up to
// 256 of them, and processes that were frozen for long have more.
func (n *Net) awake(ctx context.Context, name string) error {
	for {
		n.mu.Lock()
		h := n.hostOf(name)
		thawed, place := h.thawed, h.waiting
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
		if err := pause(ctx, time.Duration(place)*time.Microsecond+within(name), true, time.Now().Add(time.Hour)); err != nil {
			return err
		}
	}
}

// within is a host's moment within a microsecond.
func within(name string) time.Duration {
	return time.Duration(1 + hash(name)%999)
}

// pause lets a packet's time pass, or, when it is never heard, all of the time
// that is left.
func pause(ctx context.Context, d time.Duration, heard bool, limit time.Time) error {
	left := time.Until(limit)
	silence := !heard || d > left
	if silence {
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
	if silence {
		return errSilence
	}
	return nil
}

// forget is called with mu held.
func (n *Net) forget(c *conn) {
	for i, other := range n.conns {
		if other == c {
			n.conns = append(n.conns[:i], n.conns[i+1:]...)
			return
		}
	}
}

// Connections counts the ends that are open at a host.
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
		c.end(fin) // dialled, never accepted
	}
	return nil
}

// end closes the listener and hands back what nobody took; mu is held.
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

// listenersOf are a host's, by address; mu is held.
func (n *Net) listenersOf(name string) []*listener {
	var all []*listener
	for _, l := range n.listeners {
		if l.host == name {
			all = append(all, l)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].addr < all[j].addr })
	return all
}
