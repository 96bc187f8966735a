package containers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"conclave/wire"
)

// The labels that compose sets on what it creates.
const (
	labelProject = "com.docker.compose.project"
	labelService = "com.docker.compose.service"
	labelOneOff  = "com.docker.compose.oneoff"
)

// Container is one service of the project as the engine sees it now. Every
// service has one.
type Container struct {
	Service  string
	ID       string
	Image    string
	State    string // created, running, paused, restarting, exited, dead
	ExitCode int
	PID      int // on the engine's machine; 0 when it does not run
	Started  time.Time
	Env      map[string]string        // its environment
	Ports    map[string]string        // where this machine reaches a port of it, "9615": "127.0.0.1:49153"
	Networks map[string]NetworkMember // by the network's full name
}

// Up reports whether it has not ended: it runs, or is paused.
func (c Container) Up() bool { return c.State == "running" || c.State == "paused" }

// Killed reports whether a signal has ended it.
func (c Container) Killed() bool { return !c.Up() && c.ExitCode > 128 } // 128 + the signal

// NetworkMember is a container's place in a network.
type NetworkMember struct {
	IP      string
	Aliases []string
}

// ps returns the ids of the project's containers that have these labels.
func (p *Project) ps(ctx context.Context, labels ...string) ([]string, error) {
	args := []string{"ps", "--all", "--quiet", "--no-trunc"}
	for _, label := range append(labels, labelProject+"="+p.cfg.Name, labelOneOff+"=False") {
		args = append(args, "--filter", "label="+label)
	}
	out, err := docker(ctx, callLimit, call{args: args})
	return strings.Fields(out), err
}

// Containers returns the project's containers, sorted by service, and makes their ids
// and addresses known: another process may have created them, and one that was started
// again may have other ports.
func (p *Project) Containers(ctx context.Context) ([]Container, error) {
	ids, err := p.ps(ctx)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	all, err := inspect(ctx, ids...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.routes == nil {
		p.routes, p.ids = make(routes), make(map[string]string)
	}
	for _, c := range all {
		p.ids[c.Service] = c.ID
		maps.Copy(p.routes, c.routes()) // a container that is down keeps its routes, on which dials are refused
	}
	return all, err
}

// Container returns the container of a service.
func (p *Project) Container(ctx context.Context, service string) (Container, error) {
	id, err := p.id(ctx, service)
	if err != nil {
		return Container{}, err
	}
	all, err := inspect(ctx, id)
	if err != nil {
		return Container{}, err
	}
	return all[0], nil
}

// id returns the id of a service's container: the one that was last seen, or
// one that another process has created.
func (p *Project) id(ctx context.Context, service string) (string, error) {
	p.mu.Lock()
	known := p.ids[service]
	p.mu.Unlock()
	if known != "" {
		return known, nil
	}
	ids, err := p.ps(ctx, labelService+"="+service)
	if err != nil {
		return "", err
	}
	if len(ids) != 1 {
		return "", fmt.Errorf("%w: project %s has %d containers of service %q, want 1", ErrNoContainer, p.cfg.Name, len(ids), service)
	}
	return ids[0], nil
}

// inspected is the part of the output of `docker inspect` that is used.
type inspected struct {
	ID    string
	State struct {
		Status        string
		ExitCode, Pid int
		StartedAt     time.Time
	}
	Config struct {
		Image  string
		Env    []string
		Labels map[string]string
	}
	NetworkSettings struct {
		Ports    map[string][]struct{ HostIP, HostPort string }
		Networks map[string]struct {
			IPAddress string
			Aliases   []string
		}
	}
}

func inspect(ctx context.Context, ids ...string) ([]Container, error) {
	out, err := docker(ctx, callLimit, call{args: append([]string{"inspect", "--type", "container"}, ids...)})
	if err != nil {
		return nil, err
	}
	var raw []inspected
	if err := json.Unmarshal([]byte(out), &raw); err != nil {
		return nil, fmt.Errorf("read the output of docker inspect: %w", err)
	}
	list := make([]Container, len(raw))
	for i, r := range raw {
		list[i] = r.container()
	}
	slices.SortFunc(list, func(a, b Container) int { return cmp.Compare(a.Service, b.Service) })
	return list, nil
}

func (r inspected) container() Container {
	c := Container{
		Service: r.Config.Labels[labelService], ID: r.ID, Image: r.Config.Image, State: r.State.Status, ExitCode: r.State.ExitCode, PID: r.State.Pid,
		Started: r.State.StartedAt,
		Env:     make(map[string]string), Ports: make(map[string]string), Networks: make(map[string]NetworkMember),
	}
	for _, e := range r.Config.Env {
		name, value, _ := strings.Cut(e, "=")
		c.Env[name] = value
	}
	for port, bound := range r.NetworkSettings.Ports {
		number, protocol, _ := strings.Cut(port, "/")
		if protocol == "tcp" && len(bound) > 0 {
			c.Ports[number] = net.JoinHostPort(reachable(bound[0].HostIP), bound[0].HostPort)
		}
	}
	for name, n := range r.NetworkSettings.Networks {
		c.Networks[name] = NetworkMember{IP: n.IPAddress, Aliases: n.Aliases}
	}
	return c
}

// reachable returns the address at which this machine dials a port bound to ip.
func reachable(ip string) string {
	if ip == "" || ip == "0.0.0.0" || ip == "::" {
		return "127.0.0.1"
	}
	return ip
}

// Logs returns what a service has written since a moment (the zero time: ever),
// with both streams in one and the engine's time before each line.
func (p *Project) Logs(ctx context.Context, service string, since time.Time) (string, error) {
	id, err := p.id(ctx, service)
	if err != nil {
		return "", err
	}
	args := []string{"logs", "--timestamps"}
	if !since.IsZero() {
		args = append(args, "--since", since.UTC().Format(time.RFC3339Nano))
	}
	var both strings.Builder
	_, err = docker(ctx, callLimit, call{args: append(args, id), out: &both})
	return both.String(), err
}

// routes maps an address that a node may advertise (service, alias or IP, and
// port) to the published address at which this machine reaches it.
type routes map[string]string

// Find returns the containers of a project that is up.
func (p *Project) Find(ctx context.Context) ([]Container, error) {
	all, err := p.Containers(ctx)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%w: project %s is not up", ErrNoContainer, p.cfg.Name)
	}
	return all, err
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

// Outside is the network of a client on this machine, which paces its connections as any
// other client does. It translates dials to the addresses that nodes advertise; other
// addresses are dialled unchanged.
type Outside struct {
	*wire.TCP
	project *Project
}

// Outside returns the network of this project.
func (p *Project) Outside() *Outside { return &Outside{wire.NewTCP(), p} }

// DialContext dials an advertised address at its published port.
func (o *Outside) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	o.project.mu.Lock()
	if published := o.project.routes[address]; published != "" {
		address = published
	}
	o.project.mu.Unlock()
	return o.TCP.DialContext(ctx, network, address)
}
