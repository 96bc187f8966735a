package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/meta/metaclient"
	"conclave/testbed/bench"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/scenario"
	"conclave/wire"
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
	blacklisted := fromMetas(a, (*metaclient.Admin).Blacklist, func(e metaclient.BlacklistInfo) string { return e.Name })
	switches := fromMetas(a, (*metaclient.Admin).Switches, func(s wire.Switch) string { return s.Key })
	slots := fromMetas(a, func(m *metaclient.Admin, ctx context.Context) ([]metaclient.SlotInfo, error) {
		s, err := m.Slots(ctx)
		return s.Slots, err
	}, func(s metaclient.SlotInfo) string { return fmt.Sprint(s.ID) })
	configured := fromMetas(a, (*metaclient.Admin).Config, func(v wire.ConfigValue) string { return v.ID })
	for command, from := range map[string]names{
		"start": a.processNames(), "kill": a.processNames("leader"), "logs": a.processNames("supervisor"),
		"drain": a.nodeNames("meta", "data", "session"), "blacklist add": a.nodeNames("data", "session"), "blacklist remove": blacklisted,
		"election observe": a.nodeNames("meta"), "election join": a.nodeNames("meta"), "election force-refresh": a.nodeNames("meta"),
		"slots": slots, "switch get": switches, "switch set": switches,
		"config get": configured, "config set": configured, "config remove": configured,
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
	flag("bench", "only", fixed(slices.Concat(bench.Names(false), bench.Names(true))...))
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
func fromMetas[T any](a *app, get func(*metaclient.Admin, context.Context) ([]T, error), name func(T) string) names {
	return func(ctx context.Context) (out []string) {
		admin, err := a.admin()
		if err != nil {
			return nil
		}
		all, _ := get(admin, ctx)
		for _, one := range all {
			out = append(out, name(one))
		}
		return out
	}
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
