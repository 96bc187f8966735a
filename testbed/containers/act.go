package containers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"conclave/testbed"
	"conclave/testbed/outside"
)

// Capabilities describes what is possible on containers. A cut disconnects a
// container from a network: a meta from the database's, or a host from all its
// networks. A mend connects it again in the same way.
func Capabilities() *testbed.Capabilities {
	return &testbed.Capabilities{Can: can, Size: size, ProcessesEvery: 2 * time.Second, ByHTTP: new(outside.Clients).StartHTTP}
}

// Capabilities returns what is possible here.
func (d *Cluster) Capabilities() *testbed.Capabilities {
	can := Capabilities()
	can.Size, can.EffectTime, can.ByHTTP = d.size, d.effectTime, d.clients.StartHTTP
	return can
}

func can(d testbed.Step) error {
	switch d.Verb {
	case testbed.Kill, testbed.Stop, testbed.Start, testbed.Pause, testbed.Resume,
		testbed.Burst, testbed.EndBurst,
		testbed.Resign, testbed.Quit, testbed.Join, testbed.Forbid, testbed.Allow, testbed.Freeze, testbed.Unfreeze, testbed.Switch:
		return nil
	case testbed.Cut, testbed.Mend:
		if d.Whom.Everyone() || d.Who.IsMeta() && d.Whom == testbed.Database || d.Who == testbed.Database && d.Whom.IsMeta() {
			return nil
		}
		return fmt.Errorf("%s %s from %s (containers can only be cut off as a meta from db, or as a host from everyone): %w", d.Verb, d.Who, d.Whom, testbed.ErrUnsupported)
	case testbed.Refuse, testbed.Accept:
		return fmt.Errorf("%s (only the simulated database can be told to): %w", d.Verb, testbed.ErrUnsupported)
	}
	return fmt.Errorf("%s: %w", d.Verb, testbed.ErrUnsupported)
}

// Do carries out one act.
func (d *Cluster) Do(ctx context.Context, a testbed.Action) error {
	if done, err := d.view.Operate(ctx, a); done {
		return err
	}
	d.doing.Lock()
	defer d.doing.Unlock()
	switch a.Verb {
	case testbed.Kill, testbed.Stop:
		return d.end(ctx, a)
	case testbed.Start:
		return d.start(ctx, a.Node)
	case testbed.Pause, testbed.Resume:
		switch c, _ := d.project.Container(ctx, a.Node); { // there is nothing to do for one that is not there
		case a.Verb == testbed.Pause && c.State == "running":
			return d.project.Pause(ctx, a.Node)
		case a.Verb == testbed.Resume && c.State == "paused":
			return d.project.Unpause(ctx, a.Node)
		}
		return nil
	case testbed.Cut:
		return along(ctx, a, d.project.Cut)
	case testbed.Mend:
		return along(ctx, a, d.project.Join)
	}
	return fmt.Errorf("%s: %w", a.Verb, testbed.ErrUnsupported)
}

// lives reports whether a service has not ended, in that it runs or is paused, and
// returns the id of its process.
func (d *Cluster) lives(ctx context.Context, service string) (pid int, yes bool) {
	c, err := d.project.Container(ctx, service)
	return c.PID, err == nil && c.Up()
}

// end kills a container or a client, or asks a container to stop without
// waiting for its end.
func (d *Cluster) end(ctx context.Context, a testbed.Action) error {
	if d.clients.Kill(a.Node) {
		return nil
	}
	pid, lives := d.lives(ctx, a.Node)
	if !lives {
		return nil
	}
	if a.Verb == testbed.Kill {
		return d.project.Signal(ctx, a.Node, "KILL")
	}
	d.stopping[a.Node] = pid
	return d.project.Signal(ctx, a.Node, "TERM")
}

// start starts a new incarnation. A node that is still stopping is killed
// first, as an orchestrator does after its timeout.
func (d *Cluster) start(ctx context.Context, service string) error {
	if pid, lives := d.lives(ctx, service); lives {
		if asked, stopping := d.stopping[service]; !stopping || pid != asked {
			return nil
		}
		if err := d.project.Signal(ctx, service, "KILL"); err != nil {
			if _, lives := d.lives(ctx, service); lives {
				return err
			}
		}
	}
	began := time.Now()
	if err := d.project.Start(ctx, service); err != nil {
		return err
	}
	delete(d.stopping, service)
	if service == testbed.Database {
		return d.answers(ctx, began)
	}
	return nil
}

// dbWait is how long a database may take to start.
const dbWait = time.Minute

// answers waits until the database accepts connections. Before that, faults
// would have no effect.
func (d *Cluster) answers(ctx context.Context, since time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, dbWait)
	defer cancel()
	err := outside.Until(ctx, 100*time.Millisecond, func() (bool, error) {
		log, err := d.project.Logs(ctx, testbed.Database, since)
		return strings.Contains(log, "ready for connections"), err // both MySQL and MariaDB log this
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%s does not accept connections: %w", testbed.Database, ctx.Err())
	}
	return err
}

// effectTime returns when an action that was carried out between began and now took
// effect. The engine takes its time, and reports when it has sent a signal.
func (d *Cluster) effectTime(_ context.Context, a testbed.Action, began time.Time) time.Time {
	if a.Verb == testbed.Kill {
		d.mu.Lock()
		defer d.mu.Unlock()
		if at := d.killed[a.Node]; at.After(began) {
			return at
		}
	}
	return began
}

// lines returns the service and the networks that an act disconnects or
// connects.
func lines(a testbed.Action) (service string, networks []string, err error) {
	node, peer := a.Node, a.Peer
	if node == testbed.Database && peer != "" {
		node, peer = peer, node
	}
	meta := strings.HasPrefix(node, "meta-")
	switch {
	case peer == testbed.Database && meta, node == testbed.Database:
		return node, []string{"database"}, nil
	case peer != "":
		return "", nil, fmt.Errorf("%s %s from %s: %w", a.Verb, a.Node, a.Peer, testbed.ErrUnsupported)
	case meta:
		return node, []string{"cluster", "database"}, nil
	}
	return node, []string{"cluster"}, nil
}

// along calls do for each network that an act disconnects or connects.
func along(ctx context.Context, a testbed.Action, do func(ctx context.Context, service, network string) error) error {
	service, networks, err := lines(a)
	for _, n := range networks {
		if err == nil {
			err = do(ctx, service, n)
		}
	}
	return err
}
