package compose

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"conclave/internal/sleep"
)

// Kill sends SIGKILL to a service's process and returns when the engine has
// recorded its end.
func (p *Project) Kill(ctx context.Context, service string) error {
	return p.Signal(ctx, service, "KILL")
}

// Signal sends the named signal (TERM, for instance) and returns at once.
func (p *Project) Signal(ctx context.Context, service, signal string) error {
	return p.act(ctx, service, "kill", "--signal", signal)
}

// Stop stops a service gracefully, and kills it after the grace time. Its
// Container has the exit code.
func (p *Project) Stop(ctx context.Context, service string, grace time.Duration) error {
	return p.actWithin(ctx, callLimit+grace, service, "stop", "--time", seconds(grace))
}

// Start starts a service that is down. The service keeps its files and may get
// other ports. Start does not wait until it is ready.
func (p *Project) Start(ctx context.Context, service string) error {
	if err := p.act(ctx, service, "start"); err != nil {
		return err
	}
	return p.refresh(ctx)
}

// Pause suspends a service: its processes do not run, and its connections stay
// open but are not answered.
//
// The kernel may need several attempts to suspend busy processes, and the
// engine makes only one, so Pause repeats it.
func (p *Project) Pause(ctx context.Context, service string) error {
	for try := 1; ; try++ {
		err := p.act(ctx, service, "pause")
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

// Network returns the full name of a network of the project's file.
func (p *Project) Network(name string) string { return p.cfg.Name + "_" + name }

// Membership is a service's place in a network from which it was disconnected,
// for Join.
type Membership struct {
	service, network, ip string
	aliases              []string
}

// Cut disconnects a service from a network: its connections stay open, and
// nothing arrives on them. Join needs the result to connect it again.
func (p *Project) Cut(ctx context.Context, service, network string) (Membership, error) {
	full := p.Network(network)
	c, err := p.Container(ctx, service)
	if err != nil {
		return Membership{}, fmt.Errorf("cut %s from %s: %w", service, network, err)
	}
	member, there := c.Networks[full]
	if !there {
		return Membership{}, fmt.Errorf("cut %s from %s: not connected to that network", service, network)
	}
	if _, err := docker(ctx, callLimit, call{args: []string{"network", "disconnect", full, c.ID}}); err != nil {
		return Membership{}, fmt.Errorf("cut %s from %s: %w", service, network, err)
	}
	return Membership{service: service, network: network, ip: member.IP, aliases: member.Aliases}, nil
}

// CutAgain disconnects a service that was connected again, which the engine
// does when it starts a service without any network. If it is not connected,
// that is no error.
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

// Join connects a service again to the network from which Cut disconnected it.
// It gets its old names, which the engine does not remember, and its old
// address if the project chose the network's subnet. If it is connected, that
// is no error.
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
		if !strings.HasPrefix(c.ID, name) { // not the alias that the engine adds by itself
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
		err = connect() // the engine chose the subnet, so it also chooses the address
	}
	if err != nil {
		return fmt.Errorf("join %s to %s: %w", m.service, m.network, err)
	}
	return p.refresh(ctx)
}
