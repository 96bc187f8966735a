package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"conclave/meta/metaclient"
	"conclave/wire"
)

func writeConfig(w io.Writer, values []wire.ConfigValue) {
	if len(values) == 0 {
		fmt.Fprintln(w, "no configuration value is set")
		return
	}
	t := newTable("ID", "VALUE", "EPOCH")
	for _, v := range values {
		t.add(v.ID, shortened(v.Value), v.Epoch)
	}
	t.write(w)
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
	cmd := &cobra.Command{
		Use: "config", Short: "Publish configuration values to clients",
		Args: cobra.OnlyValidArgs, ValidArgs: []string{"list", "get", "set", "remove"},
		RunE: needsSubcommand,
	}
	var setting, removing manner
	set := &cobra.Command{
		Use: "set ID VALUE", Short: "Set a value and send it to the clients that watch it", Args: want("ID", "VALUE"),
		Long: `Set a value of at most 16 KiB; all values together have at most 1 MiB. An ID has 1 to
128 letters, digits, dots, hyphens and underscores. The value is kept in MySQL, and each
session sends it to the clients that watch the ID (client.Watch in the Go SDK), which
needs no token. It is not for secrets.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !utf8.ValidString(args[1]) {
				return usageError{errors.New("VALUE: want valid UTF-8")}
			}
			var v wire.ConfigValue
			set := func(ctx context.Context, admin *metaclient.Admin, options ...metaclient.Option) (err error) {
				v, err = admin.SetConfig(ctx, args[0], args[1], options...)
				return err
			}
			return a.act(cmd, &setting, set, func() error { return a.show(v, func(w io.Writer) { writeConfig(w, []wire.ConfigValue{v}) }) })
		},
	}
	setting.flags(set)
	remove := &cobra.Command{
		Use: "remove ID", Short: "Remove a value", Args: want("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			remove := func(ctx context.Context, admin *metaclient.Admin, options ...metaclient.Option) error {
				return admin.RemoveConfig(ctx, args[0], options...)
			}
			return a.act(cmd, &removing, remove, func() error {
				return a.show(map[string]string{"id": args[0]}, func(w io.Writer) { line(w, "removed %s", args[0]) })
			})
		},
	}
	removing.flags(remove)
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List the values", Args: want(),
			RunE: func(cmd *cobra.Command, _ []string) error {
				return query(a, cmd, (*metaclient.Admin).Config, writeConfig)
			},
		},
		&cobra.Command{
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
		},
		set, remove,
	)
	return cmd
}
