package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"conclave/meta/metaclient"
)

// manner is how an operator's act is asked for: forced, or only to see its effect.
type manner struct {
	force, dryRun bool
	effect        metaclient.Effect // filled in by a dry run
}

// flags adds --force and --dry-run to a command.
func (m *manner) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&m.force, "force", false, "do it although the cluster would not serve afterwards")
	cmd.Flags().BoolVar(&m.dryRun, "dry-run", false, "change nothing, and print what it would do")
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
			fmt.Fprintf(w, "refused (%s) unless it is forced: %s\n", e.Code, e.Effect)
			return
		}
		fmt.Fprintln(w, e.Effect)
	})
}
