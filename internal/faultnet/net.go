package faultnet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Net is a set of hosts and the links between them. Its methods may be called
// from any goroutine.
type Net struct {
	ctx   context.Context
	end   context.CancelFunc
	done  sync.WaitGroup
	block [2]byte // 127.x.y.0 is where this network's callers dial from

	mu    sync.Mutex // guards the rest; nothing is waited for under it
	hosts map[string]*host
	names map[string]string // by source address
	links map[way]*link
	pairs map[*pair]bool
}

// way is a direction: from one host to another.
type way struct{ from, to string }

// New is a network without hosts.
func New() *Net {
	ctx, end := context.WithCancel(context.Background())
	return &Net{
		ctx: ctx, end: end,
		// Clear of 127.0.0.x, where everybody else lives.
		block: [2]byte{byte(16 + rand.IntN(200)), byte(rand.IntN(256))},
		hosts: map[string]*host{}, names: map[string]string{}, links: map[way]*link{}, pairs: map[*pair]bool{},
	}
}

// ErrFull says that a network has no address left for another caller.
var ErrFull = errors.New("a network has at most 254 hosts")

// Join gives a host the address that it dials from.
func (n *Net) Join(name string) (from net.IP, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ip, known := range n.names {
		if known == name {
			return net.ParseIP(ip), nil
		}
	}
	if len(n.names) >= 254 {
		return nil, ErrFull
	}
	from = net.IPv4(127, n.block[0], n.block[1], byte(1+len(n.names)))
	n.names[from.String()] = name
	return from, nil
}

// Listen puts a proxy before a host, which listens at behind now or later, and
// returns the address that others are told. A watched host is one that does not
// mind an idle connection: its proxy refuses dials while the host does.
func (n *Net) Listen(name, behind string, watched bool) (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	h := &host{net: n, name: name, behind: behind, address: l.Addr().String()}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts[name] != nil {
		l.Close()
		return "", fmt.Errorf("host %s has a proxy already", name)
	}
	n.hosts[name] = h
	h.listening(l)
	if watched {
		n.done.Go(h.watch)
	}
	return h.address, nil
}

// Close ends every proxy and connection, and returns when nothing of them runs.
func (n *Net) Close() {
	n.end()
	n.mu.Lock()
	for _, h := range n.hosts {
		h.deaf()
	}
	for p := range n.pairs {
		p.reset()
	}
	n.mu.Unlock()
	n.done.Wait()
}

// link is that direction's, made when it is first asked for.
func (n *Net) link(from, to string) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := way{from, to}
	if n.links[w] == nil {
		n.links[w] = newLink()
	}
	return n.links[w]
}

// Cut holds back what from sends to to, and the dials, until Mend.
func (n *Net) Cut(from, to string) { n.link(from, to).change(func(f *fault) { f.cut = true }) }

// Slow makes what from sends to to arrive by later, up to jitter more, and at no
// more than rate bytes a second when that is above zero.
func (n *Net) Slow(from, to string, by, jitter time.Duration, rate int) {
	n.link(from, to).change(func(f *fault) { f.delay, f.jitter, f.rate = by, jitter, rate })
}

// Mend ends Cut and Slow in that direction.
func (n *Net) Mend(from, to string) {
	n.link(from, to).change(func(f *fault) { *f = fault{lose: f.lose} })
}

// LoseNext breaks the connection on which from next sends something to to, and
// drops what it sent: the answer is lost after the deed was done.
func (n *Net) LoseNext(from, to string) { n.link(from, to).change(func(f *fault) { f.lose = true }) }

// Reset breaks every connection between the two, for both sides.
func (n *Net) Reset(a, b string) {
	for _, p := range n.between(a, b) {
		p.reset()
	}
}

// HalfOpen breaks every connection between the two for gone alone: the other side
// is not told, and what it sends is heard by nobody.
func (n *Net) HalfOpen(kept, gone string) {
	for _, p := range n.between(kept, gone) {
		p.half(gone)
	}
}

func (n *Net) between(a, b string) []*pair {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []*pair
	for p := range n.pairs {
		if p.caller == a && p.called == b || p.caller == b && p.called == a {
			out = append(out, p)
		}
	}
	return out
}

// caller names who dials from an address; "" for somebody from outside.
func (n *Net) caller(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.names[tcp.IP.String()]
}
