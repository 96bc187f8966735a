package compose

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"time"
)

// ways is how this machine reaches the nodes: an address that a node may advertise
// (service or alias or IP, and port) to the published one.
type ways map[string]string

// refresh reads ids and ways anew: a container that was started may have other
// ports.
func (p *Project) refresh(ctx context.Context) error {
	all, err := p.Containers(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.way == nil {
		p.way, p.ids = make(ways), make(map[string]string)
	}
	for _, c := range all {
		p.ids[c.Service] = c.ID
		maps.Copy(p.way, c.ways()) // what is down keeps the ways it had: a dial is refused there, as it should be
	}
	return nil
}

// ways of one container.
func (c Container) ways() ways {
	w := make(ways)
	for port, published := range c.Ports {
		hosts := []string{c.Service}
		for _, n := range c.Networks {
			hosts = append(hosts, n.Aliases...)
			if n.IP != "" {
				hosts = append(hosts, n.IP)
			}
		}
		for _, h := range hosts {
			w[net.JoinHostPort(h, port)] = published
		}
	}
	return w
}

// Published is where this machine reaches the services whose names begin with a
// prefix, in the order of their names. It lists those that are down, too.
func (p *Project) Published(prefix string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	byName := make(map[string]string)
	for advertised, published := range p.way {
		if host, _, err := net.SplitHostPort(advertised); err == nil && strings.HasPrefix(host, prefix) {
			byName[host] = published
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if !slices.Contains(out, byName[name]) {
			out = append(out, byName[name])
		}
	}
	return out
}

// Outside is the network of a client that runs on this machine: it dials what nodes
// advertise under the ports that they publish, and everything else as it is.
type Outside struct {
	net.Dialer
	project *Project
}

// Outside is this project's.
func (p *Project) Outside() *Outside {
	return &Outside{Dialer: net.Dialer{Timeout: time.Second}, project: p}
}

// DialContext dials the way that leads to an advertised address.
func (o *Outside) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	o.project.mu.Lock()
	if way := o.project.way[address]; way != "" {
		address = way
	}
	o.project.mu.Unlock()
	return o.Dialer.DialContext(ctx, network, address)
}

// ErrOutside is what Listen answers.
var ErrOutside = errors.New("nothing listens outside of the project's networks")

// Listen is refused: containers do not know the way to this machine.
func (o *Outside) Listen(context.Context, string, string) (net.Listener, error) {
	return nil, ErrOutside
}
