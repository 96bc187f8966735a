package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/testbed/bench"
	"conclave/testbed/scenario"
)

// completeWait is how long a shell waits for the cluster's answer.
const completeWait = 2 * time.Second

// addCompletions makes the shell complete the names of processes, nodes and scenarios,
// and what flags accept.
func (a *app) addCompletions(root *cobra.Command) {
	find := func(command string) *cobra.Command {
		cmd, _, err := root.Find(strings.Fields(command))
		if err != nil || commandName(cmd) != command {
			panic("completion of an unknown command: " + command)
		}
		return cmd
	}
	nodes := []string{"meta", "data", "session"}
	processes := append([]string{"db", "client"}, nodes...)
	for command, names := range map[string]cobra.CompletionFunc{
		"start": a.completeNames(processes), "kill": a.completeNames(processes, "leader"), "logs": a.completeNames(processes, "supervisor"),
		"drain": a.completeNames(nodes), "blacklist add": a.completeNames(nodes[1:]),
		"election observe": a.completeNames(nodes[:1]), "election join": a.completeNames(nodes[:1]), "election force-refresh": a.completeNames(nodes[:1]),
		"scenario check": cobra.FixedCompletions(scenario.Names(), cobra.ShellCompDirectiveDefault),
		"chaos run":      cobra.FixedCompletions(append(scenario.Names(), stormName), cobra.ShellCompDirectiveDefault),
	} {
		find(command).ValidArgsFunction = names
	}
	flag := func(command, flag string, words ...string) {
		err := find(command).RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		if err != nil {
			panic(err)
		}
	}
	for _, command := range []string{"nodes", "roll"} {
		flag(command, "role", nodes...)
	}
	for _, command := range []string{"demo", "chaos run", "soak"} {
		flag(command, "on", "local", "compose")
	}
	flag("events", "type", eventTypes...)
	flag("up", "profile", "conclave", "sofa")
	flag("up", "takeover", "witness", "lease")
	flag("bench", "only", slices.Concat(bench.Names(false), bench.Names(true))...)
	flag("lab elections", "rules", ruleNames()...)
}

// completeNames returns the names of the cluster's processes of these roles, and more,
// for the one argument of a command. It asks the local cluster's folder or, with
// --meta, the metas; without an answer there is nothing to complete.
func (a *app) completeNames(roles []string, more ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 || a.readToken() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWait)
		defer cancel()
		found, _ := a.nodeAddresses(ctx, roles...)
		words := slices.Clone(more)
		for _, n := range found {
			words = append(words, n.name)
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}
