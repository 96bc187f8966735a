package containers

import (
	"context"
	"fmt"
	"strings"

	"conclave/chaos"
)

// Can says which acts are possible here at all; Cut and Mend only from the
// database or from everybody.
func Can(v chaos.Verb) bool {
	switch v {
	case chaos.Kill, chaos.Stop, chaos.Start, chaos.Pause, chaos.Resume, chaos.Cut, chaos.Mend, chaos.HealAll,
		chaos.Resign, chaos.Quit, chaos.Join, chaos.Forbid, chaos.Allow, chaos.Freeze, chaos.Unfreeze:
		return true
	}
	return false
}

// Do does one act.
func (d *Driver) Do(ctx context.Context, a chaos.Act) error {
	if done, err := d.view.Operate(ctx, a); done {
		return err
	}
	switch a.Verb {
	case chaos.Kill, chaos.Stop:
		return d.end(ctx, a)
	case chaos.Start:
		return unless(d.is(ctx, a.Node, "running"), func() error { return d.project.Start(ctx, a.Node) })
	case chaos.Pause:
		return unless(!d.is(ctx, a.Node, "running"), func() error { return d.project.Pause(ctx, a.Node) })
	case chaos.Resume:
		return unless(!d.is(ctx, a.Node, "paused"), func() error { return d.project.Unpause(ctx, a.Node) })
	case chaos.Cut:
		return d.cut(ctx, a)
	case chaos.Mend:
		return d.mend(ctx, a.Node)
	}
	return fmt.Errorf("%s: %w", a.Verb, chaos.ErrUnsupported)
}

func unless(already bool, do func() error) error {
	if already {
		return nil
	}
	return do()
}

func (d *Driver) is(ctx context.Context, service, state string) bool {
	c, err := d.project.Container(ctx, service)
	return err == nil && c.State == state
}

// end kills, or begins a graceful stop and does not wait for it.
func (d *Driver) end(ctx context.Context, a chaos.Act) error {
	d.mu.Lock()
	c := d.clients[a.Node]
	d.mu.Unlock()
	if c != nil {
		c.Kill()
		return nil
	}
	if !d.is(ctx, a.Node, "running") && !d.is(ctx, a.Node, "paused") {
		return nil
	}
	if a.Verb == chaos.Kill {
		return d.project.Kill(ctx, a.Node)
	}
	return d.project.Signal(ctx, a.Node, "TERM")
}

// cut takes cables out: the one to the database, or all of them.
func (d *Driver) cut(ctx context.Context, a chaos.Act) error {
	networks := []string{"cluster"}
	switch meta := strings.HasPrefix(a.Node, "meta-"); {
	case meta && a.Peer == chaos.Database:
		networks = []string{"database"}
	case a.Peer != "" || a.Node == chaos.Database:
		return fmt.Errorf("cut %s from %s: %w", a.Node, a.Peer, chaos.ErrUnsupported)
	case meta:
		networks = append(networks, "database")
	}
	for _, n := range networks {
		if _, out := d.cables[cable{a.Node, n}]; out {
			continue
		}
		m, err := d.project.Cut(ctx, a.Node, n)
		if err != nil {
			return err
		}
		d.cables[cable{a.Node, n}] = m
	}
	return nil
}

// mend puts every cable of a service back.
func (d *Driver) mend(ctx context.Context, service string) error {
	for c, m := range d.cables {
		if c.service != service {
			continue
		}
		if err := d.project.Join(ctx, m); err != nil {
			return err
		}
		delete(d.cables, c)
	}
	return nil
}
