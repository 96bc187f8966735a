package faultnet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Net is a set of hosts and the links between them. Its methods may be called
// by several goroutines at once.
type Net struct {
	ctx   context.Context
	end   context.CancelFunc
	done  sync.WaitGroup
	block [2]byte // hosts of this network dial from 127.x.y.0/24

	mu    sync.Mutex // guards the fields below; not held while waiting
	hosts map[string]*host
	names map[string]string // by source address
	links map[direction]*link
	pairs map[*pair]bool
}

// direction is from one host to another.
type direction struct{ from, to string }

// New returns a network without hosts.
func New() *Net {
	ctx, end := context.WithCancel(context.Background())
	return &Net{
		ctx: ctx, end: end,
		// Not 127.0.0.x, which other programs use.
		block: [2]byte{byte(16 + rand.IntN(200)), byte(rand.IntN(256))},
		hosts: map[string]*host{}, names: map[string]string{}, links: map[direction]*link{}, pairs: map[*pair]bool{},
	}
}

// Join returns the address from which the host must dial, and assigns it at the
// first call.
func (n *Net) Join(name string) (from net.IP, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ip, known := range n.names {
		if known == name {
			return net.ParseIP(ip), nil
		}
	}
	for last := byte(1); last < 255; last++ {
		from = net.IPv4(127, n.block[0], n.block[1], last)
		if _, taken := n.names[from.String()]; !taken {
			n.names[from.String()] = name
			return from, nil
		}
	}
	return nil, errors.New("a network has at most 254 hosts")
}

// Leave frees the address of a host that dials no more. Faults of its links last
// until Mend.
func (n *Net) Leave(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.names, func(_, known string) bool { return known == name })
}

// Listen starts a proxy for a host that listens at behind, now or later, and
// returns the proxy's address, which the host must advertise. With watched the
// proxy keeps an idle connection to the host, and refuses dials while the host
// does.
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
		return "", fmt.Errorf("host %s already has a proxy", name)
	}
	n.hosts[name] = h
	h.open(l)
	if watched {
		n.done.Go(h.watch)
	}
	return h.address, nil
}

// Close ends all proxies and connections, and returns when their goroutines
// have ended.
func (n *Net) Close() {
	n.end()
	n.mu.Lock()
	for _, h := range n.hosts {
		h.refuse()
	}
	n.mu.Unlock()
	n.done.Wait()
}

// link returns the link of a direction, and creates it at the first call.
func (n *Net) link(from, to string) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := direction{from, to}
	if n.links[d] == nil {
		n.links[d] = &link{}
	}
	return n.links[d]
}

// Cut holds back the bytes and dials of from to to until Mend.
func (n *Net) Cut(from, to string) { n.link(from, to).change(func(f *fault) { f.cut = true }) }

// Slow delays what from sends to to by the duration by and a random part of
// jitter, and limits it to rate bytes per second if rate is above zero.
func (n *Net) Slow(from, to string, by, jitter time.Duration, rate int) {
	n.link(from, to).change(func(f *fault) { f.delay, f.jitter, f.rate = by, jitter, rate })
}

// Mend ends Cut and Slow in that direction.
func (n *Net) Mend(from, to string) {
	n.link(from, to).change(func(f *fault) { *f = fault{lose: f.lose} })
}

// LoseNext drops the next bytes that from sends to to and breaks their
// connection. It is how an answer is lost after the request was executed.
func (n *Net) LoseNext(from, to string) { n.link(from, to).change(func(f *fault) { f.lose = true }) }

// ClosePort makes a host's proxy refuse dials of everyone until OpenPort. Connections
// stay, and the host goes on dialling others.
func (n *Net) ClosePort(name string) error { return n.shut(name, true) }

// OpenPort ends ClosePort.
func (n *Net) OpenPort(name string) error { return n.shut(name, false) }

func (n *Net) shut(name string, closed bool) error {
	n.mu.Lock()
	h := n.hosts[name]
	n.mu.Unlock()
	if h == nil {
		return fmt.Errorf("no such host listens: %s", name)
	}
	return h.shut(closed)
}

// Reset breaks every connection between a and b for both sides.
func (n *Net) Reset(a, b string) {
	for _, p := range n.between(a, b) {
		p.reset()
	}
}

// HalfOpen breaks every connection between the two hosts for gone only. The
// connections of kept stay open, and what it sends is lost.
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

// caller returns the name of the host that dials from an address; "" if it is
// not one of this network.
func (n *Net) caller(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.names[tcp.IP.String()]
}
