package compose

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"
)

// routes maps an address that a node may advertise (service, alias or IP, and
// port) to the published address at which this machine reaches it.
type routes map[string]string

// Find returns the containers of a project that another process may have started,
// and makes their addresses known.
func (p *Project) Find(ctx context.Context) ([]Container, error) {
	all, err := p.Containers(ctx)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%w: project %s is not up", ErrNoContainer, p.cfg.Name)
	}
	p.learn(all)
	return all, err
}

// refresh updates ids and routes, because a container that was started may have
// other ports.
func (p *Project) refresh(ctx context.Context) error {
	all, err := p.Containers(ctx)
	p.learn(all)
	return err
}

func (p *Project) learn(all []Container) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.routes == nil {
		p.routes, p.ids = make(routes), make(map[string]string)
	}
	for _, c := range all {
		p.ids[c.Service] = c.ID
		maps.Copy(p.routes, c.routes()) // a container that is down keeps its routes, on which dials are refused
	}
}

// routes returns the routes to one container.
func (c Container) routes() routes {
	r := make(routes)
	for port, published := range c.Ports {
		hosts := []string{c.Service}
		for _, n := range c.Networks {
			hosts = append(hosts, n.Aliases...)
			if n.IP != "" {
				hosts = append(hosts, n.IP)
			}
		}
		for _, h := range hosts {
			r[net.JoinHostPort(h, port)] = published
		}
	}
	return r
}

// Published returns the addresses at which this machine reaches the services
// whose names begin with a prefix, in the order of their names, including
// services that are down.
func (p *Project) Published(prefix string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	byName := make(map[string]string)
	for advertised, published := range p.routes {
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

// Outside is the network of a client on this machine. It translates dials to
// the addresses that nodes advertise; other addresses are dialled unchanged.
type Outside struct {
	net.Dialer
	project *Project
}

// Outside returns the network of this project.
func (p *Project) Outside() *Outside {
	return &Outside{Dialer: net.Dialer{Timeout: time.Second}, project: p}
}

// DialContext dials an advertised address at its published port.
func (o *Outside) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	o.project.mu.Lock()
	if published := o.project.routes[address]; published != "" {
		address = published
	}
	o.project.mu.Unlock()
	return o.Dialer.DialContext(ctx, network, address)
}

// ErrOutside is returned by Listen.
var ErrOutside = errors.New("cannot listen outside of the project's networks")

// Listen returns ErrOutside, because containers cannot reach this machine.
func (o *Outside) Listen(context.Context, string, string) (net.Listener, error) {
	return nil, ErrOutside
}
