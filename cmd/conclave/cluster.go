package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/wire"
)

func (a *app) slotsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "slots [SLOT...]", Short: "Show the slot table, or some of its slots", Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			some := func(admin *metaclient.Admin, ctx context.Context) (metaclient.SlotsInfo, error) {
				slots, err := admin.Slots(ctx)
				if err != nil || len(args) == 0 {
					return slots, err
				}
				chosen := []metaclient.SlotInfo{}
				for _, arg := range args {
					i := slices.IndexFunc(slots.Slots, func(s metaclient.SlotInfo) bool { return fmt.Sprint(s.ID) == arg })
					if i < 0 {
						return slots, fmt.Errorf("unknown slot %q: want 0 to %d", arg, len(slots.Slots)-1)
					}
					chosen = append(chosen, slots.Slots[i])
				}
				slots.Slots = chosen
				return slots, nil
			}
			return query(a, cmd, some, writeSlots)
		},
	}
}

// writeSlots prints one row for all slots in the same state, because 256 rows
// would be hard to read.
func writeSlots(w io.Writer, s metaclient.SlotsInfo) {
	line(w, "table %s, %s, %s%s", s.Epoch, plural(len(s.Slots), "slot"), either(s.Stable, "stable", "slots are moving"), either(s.Protected, ", protected: "+s.Reason, ""))
	fmt.Fprintln(w)
	type row struct{ leader, followers, state, way string }
	count := make(map[row][]int)
	var order []row
	for _, x := range s.Slots {
		r := row{x.Leader, strings.Join(x.Followers, ","), x.State, ""}
		if x.Successor != "" {
			r.way = "to " + x.Successor
		} else if x.Source != "" {
			r.way = "from " + x.Source
		}
		if count[r] == nil {
			order = append(order, r)
		}
		count[r] = append(count[r], x.ID)
	}
	slices.SortStableFunc(order, func(x, y row) int {
		return strings.Compare(x.leader+" "+x.followers+" "+x.state, y.leader+" "+y.followers+" "+y.state)
	})
	t := newTable("LEADER", "FOLLOWERS", "STATE", "HAND-OVER", "SLOTS", "WHICH")
	for _, r := range order {
		t.add(r.leader, r.followers, r.state, r.way, len(count[r]), ranges(count[r]))
	}
	t.write(w)
}

// ranges formats sorted numbers as 0-3,7,9-12, and cuts long lists.
func ranges(ids []int) string {
	var parts []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, fmt.Sprint(ids[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", ids[i], ids[j]))
		}
		i = j + 1
	}
	if len(parts) > 8 {
		parts = append(parts[:8], "...")
	}
	return strings.Join(parts, ",")
}

func (a *app) nodesCommand() *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use: "nodes", Short: "List the cluster's nodes", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if role != "" {
				if _, err := conclave.ParseRole(role); err != nil {
					return usageError{err}
				}
			}
			nodes := func(admin *metaclient.Admin, ctx context.Context) ([]metaclient.NodeInfo, error) {
				return admin.Nodes(ctx, conclave.Role(role))
			}
			return query(a, cmd, nodes, writeNodes)
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "only this role: meta, session or data")
	return cmd
}

func writeNodes(w io.Writer, nodes []metaclient.NodeInfo) {
	t := newTable("NAME", "ROLE", "ADDRESS", "INCARNATION", "STATE", "LEASE", "LOAD")
	for _, n := range nodes {
		state := string(n.State)
		if n.Leading {
			state += ", leads"
		}
		if n.Last {
			state += ", last of its role"
		}
		if n.Observer {
			state += ", observes"
		}
		lease := "" // only the leader's and the members' are known
		if n.LeaseRemainingMs > 0 {
			lease = ms(n.LeaseRemainingMs)
		}
		t.add(n.Name, n.Role, n.Address, n.Incarnation, state, lease, n.Load)
	}
	t.write(w)
}

func (a *app) blacklistCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "blacklist", Short: "Exclude servers from the cluster and readmit them",
		Args: cobra.OnlyValidArgs, ValidArgs: []string{"list", "add", "remove"},
		RunE: needsSubcommand,
	}
	list := func(cmd *cobra.Command) error { return query(a, cmd, (*metaclient.Admin).Blacklist, writeBlacklist) }
	var reason string
	var how manner
	add := &cobra.Command{
		Use: "add NAME", Short: "Exclude a server: it gets no slots and no clients", Args: want("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			forbid := func(ctx context.Context, admin *metaclient.Admin, options ...metaclient.Option) error {
				return admin.Forbid(ctx, args[0], reason, operator(), options...)
			}
			return a.act(cmd, &how, forbid, func() error { return list(cmd) })
		},
	}
	add.Flags().StringVar(&reason, "reason", "", "reason to show in the list")
	how.flags(add)
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List the excluded servers", Args: want(),
			RunE: func(cmd *cobra.Command, _ []string) error { return list(cmd) },
		},
		add,
		&cobra.Command{
			Use: "remove NAME", Short: "Readmit a server", Args: want("NAME"),
			RunE: func(cmd *cobra.Command, args []string) error {
				err := a.ask(cmd, func(ctx context.Context, admin *metaclient.Admin) error { return admin.Allow(ctx, args[0]) })
				if err != nil {
					return err
				}
				if !a.asJSON {
					line(a.stdout, "%s is readmitted", args[0])
				}
				return list(cmd)
			},
		},
	)
	return cmd
}

func writeBlacklist(w io.Writer, entries []metaclient.BlacklistInfo) {
	if len(entries) == 0 {
		fmt.Fprintln(w, "the blacklist is empty")
		return
	}
	t := newTable("NAME", "ROLE", "REASON", "SINCE", "BY")
	for _, e := range entries {
		t.add(e.Name, e.Role, e.Reason, clock(e.Since), e.By)
	}
	t.write(w)
}

func writeSwitches(w io.Writer, switches []wire.Switch) {
	t := newTable("KEY", "VALUE", "VERSION")
	for _, s := range switches {
		t.add(s.Key, s.Value, s.Version)
	}
	t.write(w)
}

func writeSwitch(w io.Writer, s wire.Switch) { writeSwitches(w, []wire.Switch{s}) }

func (a *app) switchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "switch", Short: "Read and change the cluster-wide settings",
		Args: cobra.OnlyValidArgs, ValidArgs: []string{"list", "get", "set"},
		RunE: needsSubcommand,
	}
	var how manner
	set := &cobra.Command{
		Use: "set KEY VALUE", Short: "Change one setting", Args: want("KEY", "VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var s wire.Switch
			set := func(ctx context.Context, admin *metaclient.Admin, options ...metaclient.Option) (err error) {
				s, err = admin.SetSwitch(ctx, args[0], args[1], options...)
				return err
			}
			return a.act(cmd, &how, set, func() error { return a.show(s, func(w io.Writer) { writeSwitch(w, s) }) })
		},
	}
	how.flags(set)
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List the settings", Args: want(),
			RunE: func(cmd *cobra.Command, _ []string) error {
				return query(a, cmd, (*metaclient.Admin).Switches, writeSwitches)
			},
		},
		&cobra.Command{
			Use: "get KEY", Short: "Print one setting", Args: want("KEY"),
			RunE: func(cmd *cobra.Command, args []string) error {
				one := func(admin *metaclient.Admin, ctx context.Context) (wire.Switch, error) {
					switches, err := admin.Switches(ctx)
					if i := slices.IndexFunc(switches, func(s wire.Switch) bool { return s.Key == args[0] }); i >= 0 {
						return switches[i], nil
					}
					if err == nil {
						err = fmt.Errorf("unknown switch %q; list them with %s", args[0], a.hint("switch list"))
					}
					return wire.Switch{}, err
				}
				return query(a, cmd, one, writeSwitch)
			},
		},
		set,
	)
	return cmd
}
