package compose

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kill sends SIGKILL to a service's process and returns when the engine knows that
// it is dead.
func (p *Project) Kill(ctx context.Context, service string) error {
	return p.Signal(ctx, service, "KILL")
}

// Signal sends a signal by its name, TERM for instance, and returns at once.
func (p *Project) Signal(ctx context.Context, service, signal string) error {
	return p.act(ctx, service, "kill", "--signal", signal)
}

// Stop has a service stop gracefully, and kills it after the grace. Its exit code is
// in its Container.
func (p *Project) Stop(ctx context.Context, service string, grace time.Duration) error {
	return p.actWithin(ctx, callLimit+grace, service, "stop", "--time", seconds(grace))
}

// Start starts a service that is down; it keeps its files, and may get other ports.
// It does not wait until the service is ready.
func (p *Project) Start(ctx context.Context, service string) error {
	if err := p.act(ctx, service, "start"); err != nil {
		return err
	}
	return p.refresh(ctx)
}

// Restart is Stop and Start.
func (p *Project) Restart(ctx context.Context, service string, grace time.Duration) error {
	if err := p.actWithin(ctx, callLimit+grace, service, "restart", "--time", seconds(grace)); err != nil {
		return err
	}
	return p.refresh(ctx)
}

// Pause freezes a service: its processes do not run, its connections stay open and
// nobody answers on them.
//
// The kernel may need more than one try to freeze processes that are busy, and the
// engine gives up at the first.
func (p *Project) Pause(ctx context.Context, service string) error {
	for try := 1; ; try++ {
		err := p.act(ctx, service, "pause")
		if err == nil || try == pauseTries || !strings.Contains(err.Error(), "unable to freeze") {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

const pauseTries = 10

// Unpause thaws it.
func (p *Project) Unpause(ctx context.Context, service string) error {
	return p.act(ctx, service, "unpause")
}

func (p *Project) act(ctx context.Context, service string, command ...string) error {
	return p.actWithin(ctx, callLimit, service, command...)
}

func (p *Project) actWithin(ctx context.Context, limit time.Duration, service string, command ...string) error {
	id, err := p.id(ctx, service)
	if err != nil {
		return fmt.Errorf("%s %s: %w", command[0], service, err)
	}
	if _, err := docker(ctx, limit, call{args: append(command, id)}); err != nil {
		return fmt.Errorf("%s %s: %w", command[0], service, err)
	}
	return nil
}

func seconds(d time.Duration) string { return fmt.Sprint(int(d.Round(time.Second) / time.Second)) }

// Network is the full name of a network of the project's file.
func (p *Project) Network(name string) string { return p.cfg.Name + "_" + name }

// Membership is a service's place in a network from which it was cut, for Join.
type Membership struct {
	service, network, ip string
	aliases              []string
}

// Cut takes a service's cable to a network out: nothing is closed, nothing arrives.
// What it returns puts the cable back.
func (p *Project) Cut(ctx context.Context, service, network string) (Membership, error) {
	full := p.Network(network)
	c, err := p.Container(ctx, service)
	if err != nil {
		return Membership{}, fmt.Errorf("cut %s from %s: %w", service, network, err)
	}
	member, there := c.Networks[full]
	if !there {
		return Membership{}, fmt.Errorf("cut %s from %s: it is not in that network", service, network)
	}
	m := Membership{service: service, network: network, ip: member.IP, aliases: member.Aliases}
	if _, err := docker(ctx, callLimit, call{args: []string{"network", "disconnect", full, c.ID}}); err != nil {
		return Membership{}, fmt.Errorf("cut %s from %s: %w", service, network, err)
	}
	return m, nil
}

// CutAgain takes a cable out that somebody has put back: the engine does, when a
// service starts that has no network at all. Not being in it is no error.
func (p *Project) CutAgain(ctx context.Context, m Membership) error {
	c, err := p.Container(ctx, m.service)
	if err == nil {
		if _, there := c.Networks[p.Network(m.network)]; !there {
			return nil
		}
		_, err = docker(ctx, callLimit, call{args: []string{"network", "disconnect", p.Network(m.network), c.ID}})
	}
	if err != nil {
		return fmt.Errorf("cut %s from %s: %w", m.service, m.network, err)
	}
	return nil
}

// Join puts a service back into the network from which it was cut: under its old
// address, where the project chose the network's subnet, and under its names, which
// the engine does not remember. Being in it already is no error.
func (p *Project) Join(ctx context.Context, m Membership) error {
	full := p.Network(m.network)
	c, err := p.Container(ctx, m.service)
	if err != nil {
		return fmt.Errorf("join %s to %s: %w", m.service, m.network, err)
	}
	if _, there := c.Networks[full]; there {
		return nil
	}
	var aliases []string
	names := append([]string{m.service}, m.aliases...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !strings.HasPrefix(c.ID, name) { // the engine's own alias, made anew by itself
			aliases = append(aliases, "--alias", name)
		}
	}
	connect := func(more ...string) error {
		args := slices.Concat([]string{"network", "connect"}, more, aliases, []string{full, c.ID})
		_, err := docker(ctx, callLimit, call{args: args})
		return err
	}
	if m.ip == "" {
		err = connect()
	} else if err = connect("--ip", m.ip); err != nil && strings.Contains(err.Error(), "user configured subnets") {
		err = connect() // the engine chose the subnet, and chooses the address
	}
	if err != nil {
		return fmt.Errorf("join %s to %s: %w", m.service, m.network, err)
	}
	return p.refresh(ctx)
}
