package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completeWait is how long a shell waits for the cluster's answer.
const completeWait = 2 * time.Second

// The roles of nodes, and of the other processes of a local cluster.
var (
	nodeRoles    = []string{"meta", "data", "session"}
	processRoles = append([]string{"db", "client"}, nodeRoles...)
)

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

// completeFlag makes the shell complete the values of a flag.
func completeFlag(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}

// choice is the value of a flag that takes one of a few words.
type choice struct {
	value *string
	words []string
	empty bool // none, if that is the default
}

// addChoice adds such a flag, whose default is the present value.
func addChoice(cmd *cobra.Command, value *string, name, usage string, words ...string) {
	cmd.Flags().Var(choice{value, words, *value == ""}, name, usage)
	completeFlag(cmd, name, words...)
}

func (c choice) String() string { return *c.value }

// Type is the type that a help shows.
func (c choice) Type() string { return "string" }

// Set refuses other words.
func (c choice) Set(word string) error {
	if !slices.Contains(c.words, word) && !(c.empty && word == "") {
		last := len(c.words) - 1
		return fmt.Errorf("want %s or %s", strings.Join(c.words[:last], ", "), c.words[last])
	}
	*c.value = word
	return nil
}
