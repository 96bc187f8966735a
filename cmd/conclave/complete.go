package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/internal/cli"
	"conclave/meta/metaclient"
	conclavesql "conclave/sql"
	"conclave/testbed/bench"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/scenario"
)

// completeWait is how long a shell waits for the cluster's answer.
const completeWait = 2 * time.Second

// names returns what a word of a command line may be.
type names func(ctx context.Context) []string

// addCompletions makes the shell complete the names that commands and flags
// take. It asks the local cluster's folder or, with --meta, the metas.
func (a *app) addCompletions(root *cobra.Command) {
	find := func(command string) *cobra.Command {
		cmd, _, err := root.Find(strings.Fields(command))
		if err != nil || commandName(cmd) != command {
			panic("completion of an unknown command: " + command)
		}
		return cmd
	}
	for command, from := range map[string]names{
		"start": a.processNames(), "kill": a.processNames("leader"), "logs": a.processNames("supervisor"),
		"drain": a.nodeNames("meta", "data", "session"), "blacklist add": a.nodeNames("data", "session"), "blacklist remove": a.blacklisted,
		"election observe": a.nodeNames("meta"), "election join": a.nodeNames("meta"), "election force-refresh": a.nodeNames("meta"),
		"slots": a.slotNumbers, "switch get": a.switchKeys, "switch set": a.switchKeys,
		"config get": a.configIDs, "config set": a.configIDs, "config remove": a.configIDs,
		"get": a.serviceNames, "subscribe": a.serviceNames, "describe": a.serviceNames,
	} {
		find(command).ValidArgsFunction = a.complete(from, slices.Contains([]string{"slots", "subscribe"}, command), cobra.ShellCompDirectiveNoFileComp)
	}
	find("scenario check").ValidArgsFunction = a.complete(fixed(scenario.Names()...), true, cobra.ShellCompDirectiveDefault)
	find("chaos run").ValidArgsFunction = a.complete(fixed(append(scenario.Names(), stormName)...), true, cobra.ShellCompDirectiveDefault)
	flag := func(command, flag string, from names) {
		err := find(command).RegisterFlagCompletionFunc(flag, a.complete(from, true, cobra.ShellCompDirectiveNoFileComp))
		if err != nil {
			panic(err)
		}
	}
	lead := find("lead")
	flag("lead", "lock", func(ctx context.Context) []string {
		s := leadOptions{dsn: lead.Flag("dsn").Value.String(), dsnFile: lead.Flag("dsn-file").Value.String()}
		return lockNames(ctx, s)
	})
	for _, command := range []string{"nodes", "roll"} {
		flag(command, "role", fixed("meta", "session", "data"))
	}
	for _, command := range []string{"demo", "chaos run", "soak"} {
		flag(command, "on", fixed("local", "compose"))
	}
	flag("events", "node", a.nodeNames("meta", "data", "session"))
	flag("events", "type", fixed(eventTypes...))
	flag("up", "profile", fixed("conclave", "sofa"))
	flag("up", "takeover", fixed("witness", "lease"))
	flag("bench", "only", fixed(slices.Concat(bench.Names(), bench.CurveNames())...))
	flag("lab elections", "rules", fixed(ruleNames()...))
}

// complete returns the words from names that begin as the user's, without those
// that are on the line. With many the command takes more than one.
func (a *app) complete(from names, many bool, directive cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !many || a.readToken() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWait)
		defer cancel()
		words := slices.DeleteFunc(from(ctx), func(w string) bool { return !strings.HasPrefix(w, begun) || slices.Contains(args, w) })
		slices.Sort(words)
		return slices.Compact(words), directive
	}
}

func fixed(words ...string) names {
	return func(context.Context) []string { return slices.Clone(words) }
}

// processNames returns the names of the local cluster's processes, and more.
func (a *app) processNames(more ...string) names {
	return func(context.Context) []string {
		out := slices.Clone(more)
		if h, err := supervisor.Open(a.dir); err == nil {
			rows, _ := h.Rows() // without an answer there is nothing to complete
			for _, p := range rows {
				out = append(out, p.Name)
			}
		}
		return out
	}
}

// nodeNames returns the names of the cluster's nodes of these roles.
func (a *app) nodeNames(roles ...string) names {
	return func(ctx context.Context) (out []string) {
		nodes, _ := a.nodeAddresses(ctx, roles...)
		for _, n := range nodes {
			out = append(out, n.name)
		}
		return out
	}
}

// fromMetas returns names that the metas know; none without an answer.
func (a *app) fromMetas(f func(*metaclient.Admin) []string) []string {
	admin, err := a.admin()
	if err != nil {
		return nil
	}
	return f(admin)
}

func (a *app) blacklisted(ctx context.Context) []string {
	return a.fromMetas(func(m *metaclient.Admin) (out []string) {
		entries, _ := m.Blacklist(ctx)
		for _, e := range entries {
			out = append(out, e.Name)
		}
		return out
	})
}

func (a *app) switchKeys(ctx context.Context) []string {
	return a.fromMetas(func(m *metaclient.Admin) (out []string) {
		switches, _ := m.Switches(ctx)
		for _, s := range switches {
			out = append(out, s.Key)
		}
		return out
	})
}

func (a *app) configIDs(ctx context.Context) []string {
	return a.fromMetas(func(m *metaclient.Admin) (out []string) {
		values, _ := m.Config(ctx)
		for _, v := range values {
			out = append(out, v.ID)
		}
		return out
	})
}

func (a *app) slotNumbers(ctx context.Context) []string {
	return a.fromMetas(func(m *metaclient.Admin) (out []string) {
		slots, _ := m.Slots(ctx)
		for _, s := range slots.Slots {
			out = append(out, fmt.Sprint(s.ID))
		}
		return out
	})
}

func (a *app) serviceNames(ctx context.Context) (out []string) {
	found, err := a.registrations(ctx)
	if err != nil {
		return nil
	}
	for _, s := range found.services() {
		out = append(out, s.DataID)
	}
	return out
}

// lockNames returns the locks in the database of `lead`.
func lockNames(ctx context.Context, s leadOptions) (out []string) {
	dsn, err := cli.DSN(s.dsn, s.dsnFile)
	if err != nil {
		return nil
	}
	db, err := conclavesql.OpenPool(dsn, nil)
	if err != nil {
		return nil
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, "SELECT DISTINCT lock_name FROM distribute_lock")
	if err != nil {
		return nil
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if rows.Scan(&name) == nil {
			out = append(out, name)
		}
	}
	if rows.Err() != nil {
		return nil
	}
	return out
}
