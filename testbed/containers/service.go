package containers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"conclave/internal/sleep"
)

// Signal sends the named signal. After KILL the engine has recorded the end when it
// returns; after others it returns at once.
func (p *Project) Signal(ctx context.Context, service, signal string) error {
	return p.act(ctx, callLimit, service, "kill", "--signal", signal)
}

// Stop stops a service gracefully, and kills it after the grace time. Its
// Container has the exit code.
func (p *Project) Stop(ctx context.Context, service string, grace time.Duration) error {
	return p.act(ctx, callLimit+grace, service, "stop", "--time", fmt.Sprintf("%.0f", grace.Seconds()))
}

// Start starts a service that is down. The service keeps its files and may get
// other ports, and stays cut off from the networks of which Cut has disconnected it:
// the engine connects a service without any network when it starts. Start does not wait
// until it is ready.
func (p *Project) Start(ctx context.Context, service string) error {
	if err := p.act(ctx, callLimit, service, "start"); err != nil {
		return err
	}
	if _, err := p.Containers(ctx); err != nil { // it may have other ports now
		return err
	}
	for _, l := range p.links() {
		if l.service == service {
			if err := p.Cut(ctx, service, l.network); err != nil {
				return err
			}
		}
	}
	return nil
}

// Pause suspends a service: its processes do not run, and its connections stay
// open but are not answered.
//
// The kernel may need several attempts to suspend busy processes, and the
// engine makes only one, so Pause repeats it.
func (p *Project) Pause(ctx context.Context, service string) error {
	for try := 1; ; try++ {
		err := p.act(ctx, callLimit, service, "pause")
		if err == nil || try == pauseTries || !strings.Contains(err.Error(), "unable to freeze") {
			return err
		}
		if err := sleep.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

const pauseTries = 10

// Unpause continues a paused service.
func (p *Project) Unpause(ctx context.Context, service string) error {
	return p.act(ctx, callLimit, service, "unpause")
}

func (p *Project) act(ctx context.Context, limit time.Duration, service string, command ...string) error {
	id, err := p.id(ctx, service)
	if err != nil {
		return fmt.Errorf("%s %s: %w", command[0], service, err)
	}
	if _, err := docker(ctx, limit, call{args: append(command, id)}); err != nil {
		return fmt.Errorf("%s %s: %w", command[0], service, err)
	}
	return nil
}

// Network returns the full name of a network of the project's file.
func (p *Project) Network(name string) string { return p.cfg.Name + "_" + name }

// links returns those that are cut.
func (p *Project) links() []link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.cuts))
}

// Cut disconnects a service from a network: its connections stay open, and
// nothing arrives on them. If it is cut off already, that is no error.
func (p *Project) Cut(ctx context.Context, service, network string) error {
	c, err := p.Container(ctx, service)
	if err != nil {
		return fmt.Errorf("cut %s from %s: %w", service, network, err)
	}
	member, there := c.Networks[p.Network(network)]
	p.mu.Lock()
	was, again := p.cuts[link{service, network}]
	p.mu.Unlock()
	switch {
	case !there && again:
		return nil
	case !there:
		return fmt.Errorf("cut %s from %s: not connected to that network", service, network)
	case again:
		member = was // the engine has not given its names back
	}
	if _, err := docker(ctx, callLimit, call{args: []string{"network", "disconnect", p.Network(network), c.ID}}); err != nil {
		return fmt.Errorf("cut %s from %s: %w", service, network, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cuts == nil {
		p.cuts = map[link]NetworkMember{}
	}
	p.cuts[link{service, network}] = member
	return nil
}

// Join connects a service again to the network from which Cut disconnected it. It gets
// its old names, which the engine does not remember, and its old address if the project
// chose the network's subnet. If it is not cut off, that is no error.
func (p *Project) Join(ctx context.Context, service, network string) error {
	p.mu.Lock()
	member, isCut := p.cuts[link{service, network}]
	p.mu.Unlock()
	if !isCut {
		return nil
	}
	full := p.Network(network)
	c, err := p.Container(ctx, service)
	if err == nil {
		if _, there := c.Networks[full]; !there {
			err = connect(ctx, full, c.ID, service, member)
		}
	}
	if err != nil {
		return fmt.Errorf("join %s to %s: %w", service, network, err)
	}
	p.mu.Lock()
	delete(p.cuts, link{service, network})
	p.mu.Unlock()
	_, err = p.Containers(ctx)
	return err
}

// connect connects a container to a network, with the names and the address that its
// service had there.
func connect(ctx context.Context, network, id, service string, was NetworkMember) error {
	var aliases []string
	names := append([]string{service}, was.Aliases...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !strings.HasPrefix(id, name) { // not the alias that the engine adds by itself
			aliases = append(aliases, "--alias", name)
		}
	}
	with := func(more ...string) error {
		_, err := docker(ctx, callLimit, call{args: slices.Concat([]string{"network", "connect"}, more, aliases, []string{network, id})})
		return err
	}
	if was.IP == "" {
		return with()
	}
	err := with("--ip", was.IP)
	if err != nil && strings.Contains(err.Error(), "user configured subnets") {
		err = with() // the engine chose the subnet, so it also chooses the address
	}
	return err
}

// Reconnect ends all cuts: no other process knows them. Containers that have been
// removed have none.
func (p *Project) Reconnect(ctx context.Context) error {
	cut := p.links()
	if len(cut) == 0 {
		return nil
	}
	all, err := p.Find(ctx)
	if errors.Is(err, ErrNoContainer) {
		return nil
	}
	for _, l := range cut {
		if slices.ContainsFunc(all, func(c Container) bool { return c.Service == l.service }) {
			err = errors.Join(err, p.Join(ctx, l.service, l.network))
		}
	}
	return err
}
