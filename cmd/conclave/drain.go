package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"conclave"
	"conclave/internal/supervisor"
	"conclave/meta/metaclient"
	"conclave/wire"
)

// drained is the result of a drain.
type drained struct {
	Name         string `json:"name"`
	TookMs       int64  `json:"tookMs"`
	MovedSlots   int    `json:"movedSlots"`
	MovedClients int    `json:"movedClients"`
}

func (a *app) drainCommand() *cobra.Command {
	var timeout time.Duration
	var how manner
	cmd := &cobra.Command{
		Use: "drain NAME", Short: "Move all work off a node and wait until it has none", Args: want("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			admin, err := a.admin()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			d, err := drain(ctx, admin, args[0], &how)
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
				fmt.Fprintf(w, "%s drained in %s: moved %s and %s\n",
					d.Name, ms(d.TookMs), plural(d.MovedSlots, "slot"), plural(d.MovedClients, "client"))
			})
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "give up after this long; the node stays on the blacklist")
	how.flags(cmd)
	return cmd
}

// drain moves all work off a node of any role and waits until it has none. A
// dry run only fills in the effect.
func drain(ctx context.Context, admin *metaclient.Admin, name string, how *manner) (drained, error) {
	start := time.Now()
	d := drained{Name: name}
	node, err := findNode(ctx, admin, name)
	if err != nil {
		return d, err
	}
	switch node.Role {
	case conclave.RoleData:
		slots, err := admin.Slots(ctx)
		if err != nil {
			return d, err
		}
		d.MovedSlots = ledBy(slots, name)
		if err := admin.Forbid(ctx, name, "drain", operator(), how.options()...); err != nil || how.dryRun {
			return d, err
		}
		err = poll(ctx, func() (bool, error) {
			slots, err := admin.Slots(ctx)
			return err == nil && holdsNothing(slots, name), err
		})
		if err != nil {
			return d, err
		}
	case conclave.RoleSession:
		d.MovedClients = int(node.Load)
		if err := admin.Forbid(ctx, name, "drain", operator(), how.options()...); err != nil || how.dryRun {
			return d, err
		}
		err = poll(ctx, func() (bool, error) {
			node, err := findNode(ctx, admin, name)
			return err == nil && node.Load == 0, err
		})
		if err != nil {
			return d, err
		}
	case conclave.RoleMeta:
		if err := admin.Quit(ctx, name, how.options()...); err != nil || how.dryRun {
			return d, err
		}
		err = poll(ctx, func() (bool, error) {
			leader, err := admin.Leader(ctx)
			return err == nil && leader.Leader != name, err
		})
		if err != nil {
			return d, err
		}
	}
	d.TookMs = time.Since(start).Milliseconds()
	return d, nil
}

// poll calls done until it returns true. It ignores errors that there is no
// leader.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, err := done()
		switch code := wire.CodeOf(err); {
		case yes:
			return nil
		case err != nil && code != wire.CodeNoLeader && code != wire.CodeUnavailable:
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if err != nil {
				return err
			}
			return ctx.Err()
		}
	}
}

func findNode(ctx context.Context, admin *metaclient.Admin, name string) (metaclient.NodeInfo, error) {
	nodes, err := admin.Nodes(ctx, "")
	if err != nil {
		return metaclient.NodeInfo{}, err
	}
	i := slices.IndexFunc(nodes, func(n metaclient.NodeInfo) bool { return n.Name == name })
	if i < 0 {
		return metaclient.NodeInfo{}, wire.Errorf(wire.CodeNotFound, "unknown node %q; list the nodes with `conclave nodes`", name)
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

func (a *app) rollCommand() *cobra.Command {
	var role string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "roll", Short: "Restart the local nodes one by one, draining each", Args: want(),
		Long: `Restart the local cluster's nodes one by one. Each node gets SIGTERM, hands over all
its work and ends, and is started again. The next node follows when the whole cluster
is ready and no slot is being handed over.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if role != "" {
				if _, err := conclave.ParseRole(role); err != nil {
					return usageError{err}
				}
			}
			h, err := a.local()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			err = a.roll(ctx, h, role)
			if ctx.Err() != nil && cmd.Context().Err() == nil {
				return fmt.Errorf("%w after %s: %w", errTimedOut, timeout, err)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "only this role: meta, session or data")
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
	if err := h.AwaitReady(ctx); err != nil {
		return fmt.Errorf("not every process is ready, as roll requires: %w", err)
	}
	ps, err := h.Processes(ctx)
	if err != nil {
		return err
	}
	leader, err := admin.Leader(ctx)
	if err != nil {
		return err
	}
	order := map[string]int{"data": 1, "session": 2, "meta": 3}
	ps = slices.DeleteFunc(ps, func(p supervisor.Process) bool { return order[p.Role] == 0 || role != "" && p.Role != role })
	slices.SortStableFunc(ps, func(x, y supervisor.Process) int {
		if x.Role != y.Role {
			return order[x.Role] - order[y.Role]
		}
		return btoi(x.Name == leader.Leader) - btoi(y.Name == leader.Leader)
	})
	for _, p := range ps {
		r, err := a.rollOne(ctx, h, admin, p)
		if err != nil {
			return err
		}
		err = a.show(r, func(w io.Writer) {
			fmt.Fprintf(w, "%-10s stopped in %s, ready again in %s\n", r.Name, ms(r.StopMs), ms(r.ReadyMs))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) rollOne(ctx context.Context, h *supervisor.Handle, admin *metaclient.Admin, p supervisor.Process) (rolled, error) {
	r := rolled{Name: p.Name}
	start := time.Now()
	if err := h.Kill(ctx, p.Name, syscall.SIGTERM); err != nil {
		return r, err
	}
	ended, err := h.AwaitEnd(ctx, p.Name, p.PID)
	if err != nil {
		return r, err
	}
	r.StopMs = time.Since(start).Milliseconds()
	if ended.Code != 0 {
		return r, fmt.Errorf("%s stopped with exit code %d, roll aborted; see `conclave logs %s`", p.Name, ended.Code, p.Name)
	}
	start = time.Now()
	if ended.PID == 0 { // with --restart the supervisor starts it
		if err := h.Start(ctx, p.Name); err != nil {
			return r, err
		}
	}
	if err := h.AwaitReady(ctx); err != nil {
		return r, err
	}
	err = poll(ctx, func() (bool, error) {
		slots, err := admin.Slots(ctx)
		return err == nil && slots.Stable, err
	})
	r.ReadyMs = time.Since(start).Milliseconds()
	return r, err
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
