package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"conclave/meta/metaclient"
)

// query asks the metas, and prints the answer as JSON or by write.
func query[T any](a *app, cmd *cobra.Command, get func(*metaclient.Admin, context.Context) (T, error), write func(io.Writer, T)) error {
	return a.ask(cmd, func(ctx context.Context, admin *metaclient.Admin) error {
		v, err := get(admin, ctx)
		if err != nil {
			return err
		}
		return a.show(v, func(w io.Writer) { write(w, v) })
	})
}

// lister makes a command without arguments that prints what the metas answer.
func lister[T any](a *app, cmd *cobra.Command, get func(*metaclient.Admin, context.Context) (T, error), write func(io.Writer, T)) *cobra.Command {
	cmd.Args, cmd.RunE = want(), func(cmd *cobra.Command, _ []string) error { return query(a, cmd, get, write) }
	return cmd
}

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

// operation makes a command that changes the cluster, with --force and --dry-run: it
// calls do and then done, or prints the effect of a dry run.
func (a *app) operation(cmd *cobra.Command, do func(context.Context, *metaclient.Admin, []string, ...metaclient.Option) error, done func(*cobra.Command, []string) error) *cobra.Command {
	var how manner
	how.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := a.ask(cmd, func(ctx context.Context, admin *metaclient.Admin) error {
			return do(ctx, admin, args, how.options()...)
		})
		switch {
		case err != nil:
			return err
		case how.dryRun:
			return a.showEffect(how.effect)
		}
		return done(cmd, args)
	}
	return cmd
}

// showEffect prints the answer to a dry run.
func (a *app) showEffect(e metaclient.Effect) error {
	return a.show(e, func(w io.Writer) {
		if e.Refused {
			line(w, "refused without --force: %s", e.Effect)
			return
		}
		line(w, "%s", e.Effect)
	})
}
