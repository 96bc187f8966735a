package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/outside"
	"conclave/wire"
)

func (a *app) rollCommand() *cobra.Command {
	var role string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "roll", Short: "Restart the local nodes one by one, draining each", Args: want(),
		Long: `Restart the local cluster's nodes one by one. Each node gets SIGTERM, hands over all
its work and ends, and is started again. The next node follows when the whole cluster
is ready and no slot is being handed over.`,
		RunE: a.onLocal(func(ctx context.Context, h *supervisor.Handle, _ []string) error {
			limited, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			err := a.roll(limited, h, role)
			if limited.Err() != nil && ctx.Err() == nil {
				return fmt.Errorf("%w after %s: %w", errTimedOut, timeout, err)
			}
			return err
		}),
	}
	addChoice(cmd, &role, "role", "only this role: meta, session or data", nodeRoles...)
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "give up after this long")
	return cmd
}

// rolled is the result of roll for one node.
type rolled struct {
	Name    string `json:"name"`
	StopMs  int64  `json:"stopMs"`  // from SIGTERM to the end of the process
	ReadyMs int64  `json:"readyMs"` // from the start until the cluster is ready and the slots are stable
}

// roll restarts the nodes of one role or all: data nodes, sessions, metas, and
// the leader last, so that there is one election.
func (a *app) roll(ctx context.Context, h *supervisor.Handle, role string) error {
	admin, err := a.admin()
	if err != nil {
		return err
	}
	ps, err := h.Processes(ctx)
	if err != nil {
		return err
	}
	order := map[string]int{"data": 1, "session": 2, "meta": 3}
	ps = slices.DeleteFunc(ps, func(p supervisor.Process) bool { return order[p.Role] == 0 || role != "" && p.Role != role })
	for len(ps) > 0 {
		if err := a.awaitWhole(ctx, h); err != nil {
			return err
		}
		leader, err := admin.Leader(ctx)
		if err != nil {
			return err
		}
		place := func(p supervisor.Process) int {
			if p.Name == leader.Leader {
				return len(order) + 1
			}
			return order[p.Role]
		}
		slices.SortStableFunc(ps, func(x, y supervisor.Process) int { return cmp.Compare(place(x), place(y)) })
		r, err := a.rollOne(ctx, h, admin, ps[0].Name)
		if err != nil {
			return err
		}
		err = a.show(r, func(w io.Writer) {
			line(w, "%-10s stopped in %s, ready again in %s", r.Name, ms(r.StopMs), ms(r.ReadyMs))
		})
		if err != nil {
			return err
		}
		ps = ps[1:]
	}
	return nil
}

// awaitWhole waits until every process is ready, so that the next one can be stopped.
// It returns an error if one is suspended, or down and not started again by the
// supervisor.
func (a *app) awaitWhole(ctx context.Context, h *supervisor.Handle) error {
	cfg, err := h.Config()
	if err != nil {
		return err
	}
	if err := h.MayStart(); err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		ps, err := h.Processes(ctx)
		if err != nil {
			return false, err
		}
		if err = a.checkRunning(ps); err == nil {
			err = h.AwaitReady(ctx)
		}
		suspended := slices.ContainsFunc(ps, func(p supervisor.Process) bool { return p.State == "suspended" })
		if err != nil && cfg.Restart > 0 && !suspended {
			return false, wire.Errorf(wire.CodeUnavailable, "%v", err) // the reason, if the time limit comes first
		}
		return err == nil, err
	})
}

// checkRunning returns an error that names the processes that are down or suspended,
// with what makes them ready.
func (a *app) checkRunning(ps []supervisor.Process) error {
	var down []string
	for _, p := range ps {
		switch p.State {
		case "exited", "killed":
			down = append(down, fmt.Sprintf("%s is down (%s), start it with %s", p.Name, p.State, a.hint("start "+p.Name)))
		case "suspended":
			down = append(down, fmt.Sprintf("%s is suspended, continue it with %s", p.Name, a.hint("kill "+p.Name+" -CONT")))
		}
	}
	if len(down) == 0 {
		return nil
	}
	return fmt.Errorf("roll requires that every process is ready: %s", strings.Join(down, "; "))
}

// rollOne restarts one node of a cluster whose processes are all ready.
func (a *app) rollOne(ctx context.Context, h *supervisor.Handle, admin *metaclient.Admin, name string) (rolled, error) {
	r := rolled{Name: name}
	start := time.Now()
	id, err := h.Terminate(name)
	if err != nil {
		return r, err
	}
	ended, err := h.AwaitEnd(ctx, name, id)
	if err != nil {
		return r, err
	}
	r.StopMs = time.Since(start).Milliseconds()
	if ended.Code != 0 {
		return r, fmt.Errorf("%s stopped with exit code %d, roll aborted; see %s", name, ended.Code, a.hint("logs "+name))
	}
	start = time.Now()
	if err := h.Start(ctx, name); err != nil && !errors.Is(err, supervisor.ErrRunning) { // with --restart the supervisor may have started it
		return r, err
	}
	if err := a.awaitWhole(ctx, h); err != nil {
		return r, err
	}
	err = poll(ctx, func() (bool, error) {
		slots, err := admin.Slots(ctx)
		return err == nil && slots.Stable, err
	})
	r.ReadyMs = time.Since(start).Milliseconds()
	return r, err
}

// drained is the result of a drain.
type drained struct {
	Name         string `json:"name"`
	TookMs       int64  `json:"tookMs"`
	MovedSlots   int    `json:"movedSlots"`
	MovedClients int    `json:"movedClients"`
	Observes     bool   `json:"observes,omitempty"` // a meta: it takes part in no election any more
}

func (a *app) drainCommand() *cobra.Command {
	var timeout time.Duration
	var how manner
	cmd := &cobra.Command{
		Use: "drain NAME", Short: "Move all work off a node and wait until it has none", Args: want("NAME"), ValidArgsFunction: a.completeNames(nodeRoles),
		RunE: func(cmd *cobra.Command, args []string) error {
			admin, err := a.admin()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			progress, done := a.progress()
			d, err := drain(ctx, admin, args[0], &how, progress)
			done()
			if err != nil {
				if ctx.Err() != nil && cmd.Context().Err() == nil {
					return fmt.Errorf("%w: %s still has work after %s: %w", errTimedOut, args[0], timeout, err)
				}
				return err
			}
			if how.dryRun {
				return a.showEffect(how.effect)
			}
			return a.show(d, func(w io.Writer) {
				if d.Observes {
					line(w, "%s drained in %s: it only observes elections now; %s ends that", d.Name, ms(d.TookMs), a.hint("election join "+d.Name))
					return
				}
				line(w, "%s drained in %s: moved %s and %s",
					d.Name, ms(d.TookMs), plural(d.MovedSlots, "slot"), plural(d.MovedClients, "client"))
			})
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "give up after this long; the node stays on the blacklist")
	how.flags(cmd)
	return cmd
}

// drain moves all work off a node of any role and waits until it has none,
// which it reports to progress meanwhile. A dry run only fills in the effect.
func drain(ctx context.Context, admin *metaclient.Admin, name string, how *manner, progress func(string)) (drained, error) {
	start := time.Now()
	d := drained{Name: name}
	node, err := findNode(ctx, admin, name)
	if err != nil {
		return d, err
	}
	give := func() error { return admin.Forbid(ctx, name, "drain", operator(), how.options()...) }
	var gone func() (bool, error) // reports whether it has no work left
	switch node.Role {
	case conclave.RoleData:
		slots, err := admin.Slots(ctx)
		if err != nil {
			return d, err
		}
		d.MovedSlots = ledBy(slots, name)
		gone = func() (bool, error) {
			slots, err := admin.Slots(ctx)
			progress(fmt.Sprintf("%s still leads %s of %d", name, plural(ledBy(slots, name), "slot"), d.MovedSlots))
			return err == nil && holdsNothing(slots, name), err
		}
	case conclave.RoleSession:
		d.MovedClients = int(node.Load)
		gone = func() (bool, error) {
			node, err := findNode(ctx, admin, name)
			progress(fmt.Sprintf("%s still has %s of %d", name, plural(int(node.Load), "client"), d.MovedClients))
			return err == nil && node.Load == 0, err
		}
	default:
		d.Observes = true
		give = func() error { return admin.Quit(ctx, name, how.options()...) }
		gone = func() (bool, error) {
			leader, err := admin.Leader(ctx)
			return err == nil && leader.Leader != name, err
		}
	}
	if err := give(); err != nil || how.dryRun {
		return d, err
	}
	err = poll(ctx, gone)
	d.TookMs = time.Since(start).Milliseconds()
	return d, err
}

// poll calls done until it returns true. It ignores errors that there is no
// leader, and returns the last one if ctx ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	var last error
	err := outside.Until(ctx, 5*time.Millisecond, func() (bool, error) {
		yes, err := done()
		if code := wire.CodeOf(err); code == wire.CodeNoLeader || code == wire.CodeUnavailable {
			last, err = err, nil
		} else {
			last = nil
		}
		return yes, err
	})
	return cmp.Or(last, err)
}

func findNode(ctx context.Context, admin *metaclient.Admin, name string) (metaclient.NodeInfo, error) {
	nodes, err := admin.Nodes(ctx, "")
	if err != nil {
		return metaclient.NodeInfo{}, err
	}
	i := slices.IndexFunc(nodes, func(n metaclient.NodeInfo) bool { return n.Name == name })
	if i < 0 {
		return metaclient.NodeInfo{}, wire.Errorf(wire.CodeNotFound, "unknown node %q", name)
	}
	return nodes[i], nil
}

func ledBy(s metaclient.SlotsInfo, name string) int {
	n := 0
	for _, x := range s.Slots {
		if x.Leader == name {
			n++
		}
	}
	return n
}

// holdsNothing reports whether a node leads no slot and no slot is being handed
// over from or to it.
func holdsNothing(s metaclient.SlotsInfo, name string) bool {
	return !slices.ContainsFunc(s.Slots, func(x metaclient.SlotInfo) bool {
		return x.Leader == name || x.Source == name || x.Successor == name
	})
}
