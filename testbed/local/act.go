package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"conclave/internal/faultnet"
	"conclave/testbed"
	"conclave/testbed/local/supervisor"
)

// Capabilities describes what is possible on processes that a Cluster has started:
// all actions except setting clocks, holding nodes at points of their code, starting
// them at a wrong address, taking out the guard of writes, and statements that the
// database refuses.
func Capabilities() *testbed.Capabilities {
	any := &Cluster{net: &faultnet.Net{}}
	return &testbed.Capabilities{ProcessesEvery: 250 * time.Millisecond, Can: any.can, ByHTTP: any.clients.StartHTTP}
}

// Capabilities returns what is possible here. A cluster that was running already
// has its own size, and no proxies between its processes.
func (d *Cluster) Capabilities() *testbed.Capabilities {
	all := &testbed.Capabilities{
		Can:     d.can,
		ByHTTP:  d.clients.StartHTTP,
		Partial: func(ctx context.Context) int { return d.view.Partial(ctx) },
		EffectTime: func(_ context.Context, a testbed.Action, began time.Time) time.Time {
			if a.Verb == testbed.Kill { // the signal is sent at once; then its end is waited for
				return began
			}
			return time.Now()
		},
	}
	if d.net != nil {
		all.ProcessesEvery = 250 * time.Millisecond
	} else {
		all.Size = d.size
	}
	return all
}

func (d *Cluster) can(x testbed.Step) error {
	why := ""
	switch x.Verb {
	case testbed.Skew, testbed.Hold, testbed.HoldOne, testbed.Release, testbed.StartWrong, testbed.Unguard:
		return fmt.Errorf("%s: %w", x.Verb, testbed.ErrUnsupported)
	case testbed.Refuse, testbed.Accept:
		why = "only the simulated database can be told to"
	case testbed.Cut, testbed.CutOne, testbed.Mend, testbed.Slow, testbed.Reset, testbed.HalfOpen, testbed.LoseNext, testbed.ClosePort, testbed.OpenPort:
		if d.net == nil {
			why = "without proxies between the processes"
		}
	}
	if d.nodes != nil && d.nodes.OneProcess() && slices.Contains([]testbed.Verb{testbed.Pause, testbed.Resume, testbed.Twin}, x.Verb) {
		why = "all nodes run inside one process"
	}
	if why != "" {
		return fmt.Errorf("%s (%s): %w", x.Verb, why, testbed.ErrUnsupported)
	}
	return nil
}

// Do carries out one act.
func (d *Cluster) Do(ctx context.Context, a testbed.Action) error {
	if done, err := d.view.Operate(ctx, a); done {
		return err
	}
	if err := d.can(testbed.Step{Verb: a.Verb}); err != nil {
		return err
	}
	d.doing.Lock()
	defer d.doing.Unlock()
	switch a.Verb {
	case testbed.Kill:
		if d.clients.Kill(a.Node) {
			return nil
		}
		return d.signal(ctx, a.Node, syscall.SIGKILL)
	case testbed.Stop:
		return d.stop(a.Node)
	case testbed.Pause:
		return d.signal(ctx, a.Node, syscall.SIGSTOP)
	case testbed.Resume:
		return d.signal(ctx, a.Node, syscall.SIGCONT)
	case testbed.Start:
		return d.start(ctx, a.Node)
	case testbed.Twin:
		return d.twin(a.Node)
	}
	return d.disturb(a)
}

// disturb carries out the acts on the network.
func (d *Cluster) disturb(a testbed.Action) error {
	switch a.Verb {
	case testbed.Cut:
		d.between(a, func(from, to string) { d.net.Cut(from, to); d.net.Cut(to, from) })
	case testbed.CutOne:
		d.between(a, d.net.Cut)
	case testbed.Mend:
		d.between(a, func(from, to string) { d.net.Mend(from, to); d.net.Mend(to, from) })
	case testbed.Slow:
		d.between(a, func(from, to string) {
			d.net.Slow(from, to, a.By, a.Jitter, a.Rate)
			d.net.Slow(to, from, a.By, a.Jitter, a.Rate)
		})
	case testbed.Reset:
		d.between(a, d.net.Reset)
	case testbed.HalfOpen:
		d.between(a, d.net.HalfOpen)
	case testbed.ClosePort:
		return d.net.ClosePort(a.Node)
	case testbed.OpenPort:
		return d.net.OpenPort(a.Node)
	case testbed.LoseNext:
		d.between(a, func(from, to string) { d.net.LoseNext(to, from) })
	default:
		return fmt.Errorf("%s: %w", a.Verb, testbed.ErrUnsupported)
	}
	return nil
}

// between calls do for the act's node and its peer, or each of the other hosts.
func (d *Cluster) between(a testbed.Action, do func(node, peer string)) {
	if a.Peer != "" {
		do(a.Node, a.Peer)
		return
	}
	d.mu.Lock()
	hosts := slices.AppendSeq(d.clients.Names(), maps.Keys(d.advertised))
	d.mu.Unlock()
	for _, peer := range hosts {
		if peer != a.Node {
			do(a.Node, peer)
		}
	}
}

// stop asks a node to stop and does not wait until it has ended.
func (d *Cluster) stop(name string) error {
	id, err := d.nodes.Terminate(name)
	switch {
	case err == nil:
		d.stopping[name] = id
	case errors.Is(err, supervisor.ErrDown):
		return nil
	}
	return err
}

// start starts a new incarnation. A node that is still stopping is killed
// first, as a service manager does after its timeout.
func (d *Cluster) start(ctx context.Context, name string) error {
	if id, asked := d.stopping[name]; asked && d.nodes.Runs(name, id) {
		if err := d.signal(ctx, name, syscall.SIGKILL); err != nil {
			return err
		}
		if _, err := d.nodes.AwaitEnd(ctx, name, id); err != nil { // it may have ended by itself, and not be recorded yet
			return err
		}
	}
	if err := d.nodes.Start(ctx, name); err != nil {
		if errors.Is(err, supervisor.ErrRunning) {
			return nil
		}
		return err
	}
	delete(d.stopping, name)
	return nil
}

// signal sends a signal to a process. It is no error if the process is down.
func (d *Cluster) signal(ctx context.Context, name string, sig syscall.Signal) error {
	err := d.nodes.Kill(ctx, name, sig)
	if errors.Is(err, supervisor.ErrDown) {
		return nil
	}
	return err
}

// twin starts a second process with the node's name, at another address. Its log is
// called NAME-twin.log.
func (d *Cluster) twin(name string) error {
	if name == testbed.Database {
		return fmt.Errorf("a twin of %s: not a node", name)
	}
	program, args, err := d.nodes.Command(name)
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(d.cfg.Dir, name+"-twin.log"))
	if err != nil {
		return err
	}
	defer out.Close() // the process has its own descriptor
	// Of a repeated flag the last one counts.
	cmd := exec.Command(program, append(args, "--listen", "127.0.0.1:0", "--advertise", "")...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.twins = append(d.twins, cmd)
	return nil
}
