package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"conclave/meta/metaclient"
)

// manner holds the flags --force and --dry-run of an operator's command.
type manner struct {
	force, dryRun bool
	effect        metaclient.Effect // filled in by a dry run
}

// flags adds the flags to a command.
func (m *manner) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&m.force, "force", false, "do it even if the cluster cannot serve afterwards")
	cmd.Flags().BoolVar(&m.dryRun, "dry-run", false, "print the effect without changing anything")
	cmd.MarkFlagsMutuallyExclusive("force", "dry-run")
}

func (m *manner) options() []metaclient.Option {
	var out []metaclient.Option
	if m.force {
		out = append(out, metaclient.Force())
	}
	if m.dryRun {
		out = append(out, metaclient.DryRun(&m.effect))
	}
	return out
}

// showEffect prints the answer to a dry run.
func (a *app) showEffect(e metaclient.Effect) error {
	return a.show(e, func(w io.Writer) {
		if e.Refused {
			fmt.Fprintf(w, "refused without --force: %s\n", e.Effect)
			return
		}
		fmt.Fprintln(w, e.Effect)
	})
}
