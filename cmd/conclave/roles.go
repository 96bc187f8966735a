package main

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"conclave/data/datacmd"
	"conclave/internal/cli"
	"conclave/internal/devdb/devdbcmd"
	"conclave/meta/metacmd"
	"conclave/session/sessioncmd"
)

// roles are the programs of a cluster as commands of the tool, so that one file is enough:
// with the same flags, environment, signals and exit codes. A program handles its own
// signals, so main runs it before it prepares the tool.
var roles = map[string]func(args []string) int{
	"devdb":   devdbcmd.Main,
	"db":      devdbcmd.Main, // its name before there was a command for each program
	"meta":    process(metacmd.Process),
	"data":    process(datacmd.Process),
	"session": process(sessioncmd.Process),
}

func process(p func() cli.Process) func(args []string) int {
	return func(args []string) int { return cli.Main(p(), args) }
}

func (a *app) roleCommands() []*cobra.Command {
	devdb := a.roleCommand("devdb", "Run the embedded MySQL server (the program devdb)")
	devdb.Aliases = []string{"db"}
	return []*cobra.Command{
		devdb,
		a.roleCommand("meta", "Run a meta node (the program meta)"),
		a.roleCommand("data", "Run a data node (the program data)"),
		a.roleCommand("session", "Run a session node (the program session)"),
	}
}

// roleCommand returns a command whose arguments are those of a program, for the help and for
// a call with global flags before its name.
func (a *app) roleCommand(name, short string) *cobra.Command {
	program := roles[name]
	cmd := &cobra.Command{
		Use: name + " [flags]", Short: short, DisableFlagParsing: true,
		PersistentPreRunE: func(*cobra.Command, []string) error { // the global flags are not the program's
			a.entered = true
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			// The tool's own handlers would keep a program alive that these signals end.
			signal.Reset(syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGINT, syscall.SIGTERM)
			if code := program(args); code != exitDone {
				return exitError{code}
			}
			return nil
		},
	}
	cmd.SetHelpFunc(func(*cobra.Command, []string) { program([]string{"--help"}) })
	return cmd
}
