package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/wire"
)

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
		Use: "drain NAME", Short: "Move all work off a node and wait until it has none", Args: want("NAME"),
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
