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

// roleCommands are the programs of a cluster as commands of the tool, so that one file
// is enough: with the same flags, environment, signals and exit codes.
func (a *app) roleCommands() []*cobra.Command {
	process := func(p func() cli.Process) func([]string) int {
		return func(args []string) int { return cli.Main(p(), args) }
	}
	devdb := a.roleCommand("devdb", "Run the embedded MySQL server (the program devdb)", devdbcmd.Main)
	devdb.Aliases = []string{"db"} // its name before there was a command for each program
	return []*cobra.Command{
		devdb,
		a.roleCommand("meta", "Run a meta node (the program meta)", process(metacmd.Process)),
		a.roleCommand("data", "Run a data node (the program data)", process(datacmd.Process)),
		a.roleCommand("session", "Run a session node (the program session)", process(sessioncmd.Process)),
	}
}

// roleCommand returns a command whose arguments are those of a program.
func (a *app) roleCommand(name, short string, program func(args []string) int) *cobra.Command {
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
