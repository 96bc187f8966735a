package main

import (
	"os"
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
	return []*cobra.Command{
		a.roleCommand("meta", "Run a meta node (the program meta)", process(metacmd.Process)),
		a.roleCommand("data", "Run a data node (the program data)", process(datacmd.Process)),
		a.roleCommand("session", "Run a session node (the program session)", process(sessioncmd.Process)),
		a.roleCommand("devdb", "Run the embedded MySQL server (the program devdb)", devdbcmd.Main),
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

// dbCommand is devdb with fewer flags, which ends with the tool.
func (a *app) dbCommand() *cobra.Command {
	var listen, file string
	cmd := &cobra.Command{
		Use: "db", Short: "Run the embedded MySQL server", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if code := devdbcmd.Run(cmd.Context(), []string{"--listen", listen, "--file", file}, os.Stdin, a.stdout, a.stderr); code != exitDone {
				return exitError{code}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:3306", "address to listen on")
	cmd.Flags().StringVar(&file, "file", "", "file to keep the tables in (default: only in memory)")
	return cmd
}
