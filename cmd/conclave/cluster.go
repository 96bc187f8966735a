package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

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
	writeRows(w, order, "LEADER FOLLOWERS STATE HAND-OVER SLOTS WHICH", func(r row) []any {
		return []any{r.leader, r.followers, r.state, r.way, len(count[r]), ranges(count[r])}
	})
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
	nodes := func(admin *metaclient.Admin, ctx context.Context) ([]metaclient.NodeInfo, error) {
		return admin.Nodes(ctx, conclave.Role(role))
	}
	cmd := lister(a, &cobra.Command{Use: "nodes", Short: "List the cluster's nodes"}, nodes, writeNodes)
	addChoice(cmd, &role, "role", "only this role: meta, session or data", nodeRoles...)
	return cmd
}

func writeNodes(w io.Writer, nodes []metaclient.NodeInfo) {
	writeRows(w, nodes, "NAME ROLE ADDRESS INCARNATION STATE LEASE LOAD", func(n metaclient.NodeInfo) []any {
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
		return []any{n.Name, n.Role, n.Address, n.Incarnation, state, lease, n.Load}
	})
}

func (a *app) blacklistCommand() *cobra.Command {
	list := lister(a, &cobra.Command{Use: "list", Short: "List the excluded servers"}, (*metaclient.Admin).Blacklist, writeBlacklist)
	var reason string
	add := a.operation(
		&cobra.Command{Use: "add NAME", Short: "Exclude a server: it gets no slots and no clients", Args: want("NAME"), ValidArgsFunction: a.completeNames(nodeRoles[1:])},
		func(ctx context.Context, admin *metaclient.Admin, args []string, options ...metaclient.Option) error {
			return admin.Forbid(ctx, args[0], reason, operator(), options...)
		}, list.RunE)
	add.Flags().StringVar(&reason, "reason", "", "reason to show in the list")
	remove := &cobra.Command{
		Use: "remove NAME", Short: "Readmit a server", Args: want("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := a.ask(cmd, func(ctx context.Context, admin *metaclient.Admin) error { return admin.Allow(ctx, args[0]) })
			if err != nil {
				return err
			}
			if !a.asJSON {
				line(a.stdout, "%s is readmitted", args[0])
			}
			return list.RunE(cmd, nil)
		},
	}
	return group("blacklist", "Exclude servers from the cluster and readmit them", list, add, remove)
}

// protectionCommand ends what `slots` shows when many data nodes were lost at once.
func (a *app) protectionCommand() *cobra.Command {
	return group("protection", "End protection, in which no slot moves", &cobra.Command{
		Use: "end", Short: "End protection by hand, so that slots move again", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := a.ask(cmd, func(ctx context.Context, admin *metaclient.Admin) error { return admin.EndProtection(ctx) })
			if err != nil {
				return err
			}
			return a.show(map[string]bool{"protected": false}, func(w io.Writer) { line(w, "protection has ended: slots move again") })
		},
	})
}

func writeBlacklist(w io.Writer, entries []metaclient.BlacklistInfo) {
	if len(entries) == 0 {
		fmt.Fprintln(w, "the blacklist is empty")
		return
	}
	writeRows(w, entries, "NAME ROLE REASON SINCE BY", func(e metaclient.BlacklistInfo) []any {
		return []any{e.Name, e.Role, e.Reason, clock(e.Since), e.By}
	})
}

func writeSwitches(w io.Writer, switches []wire.Switch) {
	writeRows(w, switches, "KEY VALUE VERSION", func(s wire.Switch) []any { return []any{s.Key, s.Value, s.Version} })
}

func writeSwitch(w io.Writer, s wire.Switch) { writeSwitches(w, []wire.Switch{s}) }

func (a *app) switchCommand() *cobra.Command {
	list := lister(a, &cobra.Command{Use: "list", Short: "List the settings"}, (*metaclient.Admin).Switches, writeSwitches)
	get := &cobra.Command{
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
	}
	var s wire.Switch
	set := a.operation(
		&cobra.Command{Use: "set KEY VALUE", Short: "Change one setting", Args: want("KEY", "VALUE")},
		func(ctx context.Context, admin *metaclient.Admin, args []string, options ...metaclient.Option) (err error) {
			s, err = admin.SetSwitch(ctx, args[0], args[1], options...)
			return err
		}, func(*cobra.Command, []string) error { return a.show(s, func(w io.Writer) { writeSwitch(w, s) }) })
	return group("switch", "Read and change the cluster-wide settings", list, get, set)
}

func writeConfig(w io.Writer, values []wire.ConfigValue) {
	if len(values) == 0 {
		fmt.Fprintln(w, "no configuration value is set")
		return
	}
	writeRows(w, values, "ID VALUE EPOCH", func(v wire.ConfigValue) []any { return []any{v.ID, shortened(v.Value), v.Epoch} })
}

// shortened returns the beginning of a value in one line, for a table.
func shortened(value string) string {
	line := []rune(strings.Join(strings.Fields(value), " "))
	if len(line) > 60 {
		return string(line[:57]) + "..."
	}
	return string(line)
}

// configCommand publishes values to the clients of the cluster, which watch them
// with client.Watch.
func (a *app) configCommand() *cobra.Command {
	list := lister(a, &cobra.Command{Use: "list", Short: "List the values"}, (*metaclient.Admin).Config, writeConfig)
	get := &cobra.Command{
		Use: "get ID", Short: "Print one value", Args: want("ID"),
		Long: `Print one value as it was set. Control characters are escaped on a terminal only.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd, func(ctx context.Context, admin *metaclient.Admin) error {
				values, err := admin.Config(ctx)
				if err != nil {
					return err
				}
				v, found := wire.ConfigValues{List: values}.Find(args[0])
				switch {
				case !found:
					return fmt.Errorf("%s has no value; list those that have with %s", args[0], a.hint("config list"))
				case a.asJSON || isTerminal(a.stdout):
					return a.show(v, func(w io.Writer) { fmt.Fprintln(w, v.Value) })
				}
				_, err = fmt.Fprintln(a.stdout, v.Value)
				return err
			})
		},
	}
	var v wire.ConfigValue
	set := a.operation(
		&cobra.Command{
			Use: "set ID VALUE", Short: "Set a value and send it to the clients that watch it", Args: want("ID", "VALUE"),
			Long: `Set a value of at most 16 KiB; all values together have at most 1 MiB. An ID has 1 to
128 letters, digits, dots, hyphens and underscores. The value is kept in MySQL, and each
session sends it to the clients that watch the ID (client.Watch in the Go SDK), which
needs no token. It is not for secrets.`,
		},
		func(ctx context.Context, admin *metaclient.Admin, args []string, options ...metaclient.Option) (err error) {
			if !utf8.ValidString(args[1]) {
				return usageError{errors.New("VALUE: want valid UTF-8")}
			}
			v, err = admin.SetConfig(ctx, args[0], args[1], options...)
			return err
		}, func(*cobra.Command, []string) error {
			return a.show(v, func(w io.Writer) { writeConfig(w, []wire.ConfigValue{v}) })
		})
	remove := a.operation(
		&cobra.Command{Use: "remove ID", Short: "Remove a value", Args: want("ID")},
		func(ctx context.Context, admin *metaclient.Admin, args []string, options ...metaclient.Option) error {
			return admin.RemoveConfig(ctx, args[0], options...)
		}, func(_ *cobra.Command, args []string) error {
			return a.show(map[string]string{"id": args[0]}, func(w io.Writer) { line(w, "removed %s", args[0]) })
		})
	return group("config", "Publish configuration values to clients", list, get, set, remove)
}
