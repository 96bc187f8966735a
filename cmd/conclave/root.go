package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
)

// run is the program without signal handling and exit. ctx ends at the first
// signal.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr}
	a.http = a.newHTTPClient()
	defer a.http.CloseIdleConnections()
	root := a.root()
	root.SetArgs(signalFlags(args))
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetContext(ctx)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !a.entered {
		err = usageError{err}
		a.asJSON = a.asJSON || slices.Contains(args, "--json") // what follows a bad flag was not parsed
	}
	return a.report(cmd, err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "conclave",
		Short: "Run, operate, break and measure a service registry",
		Long: `Start a local cluster of the registry, query and operate any cluster, publish and
subscribe, inject faults and measure.

Exit codes: 0 success; 1 failure, also if the cluster has no node, slot or value of that
name; 2 invalid usage, which is wrong on every cluster, such as an unknown flag or
scenario; 3 no leader; 4 timeout.`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.entered = true
			if err := cmd.ValidateFlagGroups(); err != nil {
				return usageError{err}
			}
			if err := refuseNegative(cmd.Flags()); err != nil {
				return err
			}
			if err := refuseUnwritable(cmd.Flags()); err != nil {
				return err
			}
			if top := topCommand(cmd); len(a.metas) > 0 && (top.GroupID == "local" || top.GroupID == "break") {
				return usageError{fmt.Errorf("--meta does not apply to %s, which works on %s", commandName(cmd), either(top.GroupID == "local", "the cluster in --dir", "a cluster of its own"))}
			}
			return errors.Join(a.readToken(), a.readTLS())
		},
	}
	root.InitDefaultVersionFlag() // now, so that a flag after it is not taken for its value
	a.addGlobals(root)
	root.AddGroup(
		&cobra.Group{ID: "local", Title: "The local cluster:"},
		&cobra.Group{ID: "cluster", Title: "Any cluster:"},
		&cobra.Group{ID: "registry", Title: "The registry:"},
		&cobra.Group{ID: "break", Title: "Break and measure:"},
		&cobra.Group{ID: "roles", Title: "The programs of a cluster:"},
		&cobra.Group{ID: "tool", Title: "The tool:"},
	)
	group := func(id string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	group("local", a.upCommand(), a.devCommand(), a.downCommand(), a.psCommand(), a.startCommand(), a.killCommand(), a.rollCommand(), a.logsCommand())
	group("cluster", a.leaderCommand(), a.electionCommand(), a.electionListCommand("elections"), a.resignCommand(), a.slotsCommand(), a.nodesCommand(),
		a.blacklistCommand(), a.protectionCommand(), a.drainCommand(), a.switchCommand(), a.configCommand(), a.eventsCommand(), a.consoleCommand())
	group("registry", a.publishCommand(), a.subscribeCommand(), a.getCommand(), a.servicesCommand(), a.describeCommand(), a.clientsCommand())
	group("break", a.demoCommand(), a.playgroundCommand(), a.chaosCommand(), a.scenarioCommand(), a.soakCommand(), a.benchCommand(), a.labCommand())
	group("roles", a.roleCommands()...)
	group("tool", a.leadCommand(), a.migrateCommand(), a.certsCommand(), a.versionCommand())
	root.AddCommand(a.superviseCommand(), a.healthCommand(), a.secretsCommand()) // hidden: called by programs and in containers
	root.SetHelpCommandGroupID("tool")
	root.SetCompletionCommandGroupID("tool")
	a.refuseUnknownTopics(root)
	showPlainFlags(root)
	addExamples(root)
	return root
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: want(),
		RunE: func(*cobra.Command, []string) error {
			return a.show(map[string]string{"version": version}, func(w io.Writer) { fmt.Fprintln(w, version) })
		},
	}
}

var signalFlag = regexp.MustCompile(`^-([0-9]{1,2}|[A-Z]{2,})$`)

// signalFlags translates the usual `kill NAME -9` and `-STOP` to the flag
// --signal.
func signalFlags(args []string) []string {
	out := append([]string(nil), args...)
	kill := false
	for i, arg := range out {
		if arg == "--" { // what follows are arguments of another command
			break
		}
		if m := signalFlag.FindStringSubmatch(arg); kill && m != nil {
			out[i] = "--signal=" + m[1]
		}
		kill = kill || arg == "kill"
	}
	return out
}
