package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/internal/supervisor"
	"conclave/meta/metaclient"
)

// app is one call of the tool: its global flags and output streams.
type app struct {
	stdout, stderr io.Writer

	dir        string
	metas      []string
	asJSON     bool
	token      string
	tokenFile  string
	sessionsAt []string // of --session

	entered bool // a command's own code was reached; later errors are not usage errors
	http    *http.Client
}

// run is the program without signal handling and exit. ctx ends at the first
// signal.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr, http: newHTTPClient()}
	defer a.http.CloseIdleConnections()
	root := a.root()
	root.SetArgs(signalFlags(args))
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetContext(ctx)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !a.entered {
		err = usageError{err}
	}
	return a.report(cmd, err)
}

// newHTTPClient returns a client with short timeouts, so that the next meta is
// asked if one does not answer.
func newHTTPClient() *http.Client {
	dialer := &net.Dialer{Timeout: time.Second}
	return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, ResponseHeaderTimeout: 10 * time.Second}}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "conclave",
		Short: "Run, operate, break and measure a service registry",
		Long: `Start a local cluster of the registry, query and operate any cluster, publish and
subscribe, inject faults and measure.

Exit codes: 0 success, 1 failure, 2 invalid usage, 3 no leader, 4 timeout.`,
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
			return a.readToken()
		},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.dir, "dir", ".conclave", "folder of the local cluster")
	flags.StringSliceVar(&a.metas, "meta", nil, "addresses of the cluster's metas, instead of the local cluster (ADDR,...)")
	flags.BoolVar(&a.asJSON, "json", false, "print JSON: one document, or one per line for streams")
	flags.StringVar(&a.token, "token", "", "token of the cluster (default: CONCLAVE_TOKEN)")
	flags.StringVar(&a.tokenFile, "token-file", "", "file that contains the token")

	root.AddGroup(
		&cobra.Group{ID: "local", Title: "The local cluster:"},
		&cobra.Group{ID: "cluster", Title: "Any cluster:"},
		&cobra.Group{ID: "registry", Title: "The registry:"},
		&cobra.Group{ID: "tool", Title: "The tool:"},
	)
	group := func(id string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	group("local", a.upCommand(), a.downCommand(), a.psCommand(), a.startCommand(), a.killCommand(), a.rollCommand(), a.logsCommand())
	group("cluster", a.leaderCommand(), a.electionsCommand(), a.resignCommand(), a.electionCommand(), a.slotsCommand(), a.nodesCommand(),
		a.blacklistCommand(), a.drainCommand(), a.switchCommand(), a.eventsCommand())
	group("registry", a.publishCommand(), a.subscribeCommand(), a.getCommand())
	group("tool", a.demoCommand(), a.leadCommand(), a.chaosCommand(), a.soakCommand(), a.benchCommand(), a.labCommand(), a.dbCommand(), a.versionCommand())
	root.AddCommand(a.superviseCommand(), a.healthCommand(), a.secretsCommand(), a.clientsCommand()) // hidden: called by programs and in containers
	root.SetHelpCommandGroupID("tool")
	root.SetCompletionCommandGroupID("tool")
	return root
}

// want returns the check of a command's arguments, given their names.
func want(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == len(names):
			return nil
		case len(names) == 0:
			return fmt.Errorf("%s takes no arguments, got %q", strings.TrimPrefix(cmd.CommandPath(), "conclave "), args)
		}
		return fmt.Errorf("%s takes %s, got %s", strings.TrimPrefix(cmd.CommandPath(), "conclave "), strings.Join(names, " "), plural(len(args), "argument"))
	}
}

// needsSubcommand is run when no subcommand was given.
func needsSubcommand(cmd *cobra.Command, _ []string) error {
	return usageError{fmt.Errorf("%s needs a subcommand (one of %s)", strings.TrimPrefix(cmd.CommandPath(), "conclave "), strings.Join(cmd.ValidArgs, ", "))}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: want(),
		RunE: func(*cobra.Command, []string) error {
			if a.asJSON {
				return a.printJSON(map[string]string{"version": version})
			}
			_, err := fmt.Fprintln(a.stdout, version)
			return err
		},
	}
}

// readToken sets the token from the flag, the file or the environment.
func (a *app) readToken() error {
	if a.token != "" && a.tokenFile != "" {
		return usageError{errors.New("--token and --token-file exclude each other")}
	}
	if a.tokenFile != "" {
		body, err := os.ReadFile(a.tokenFile)
		if err != nil {
			return fmt.Errorf("read token: %w", err)
		}
		a.token = strings.TrimSpace(string(body))
	}
	if a.token == "" {
		a.token = os.Getenv("CONCLAVE_TOKEN")
	}
	return nil
}

// local returns the cluster in --dir.
func (a *app) local() (*supervisor.Handle, error) {
	h, err := supervisor.Open(a.dir)
	if errors.Is(err, supervisor.ErrNone) {
		return nil, fmt.Errorf("no cluster in %s: start one with `conclave up`, or choose another --dir", a.dir)
	}
	return h, err
}

// metaAddresses returns the addresses of --meta, or of the local cluster's
// metas.
func (a *app) metaAddresses() ([]string, error) {
	if len(a.metas) > 0 {
		for _, m := range a.metas {
			if _, _, err := net.SplitHostPort(m); err != nil {
				return nil, usageError{fmt.Errorf("--meta %q: want HOST:PORT", m)}
			}
		}
		return a.metas, nil
	}
	h, err := supervisor.Open(a.dir)
	if errors.Is(err, supervisor.ErrNone) || err == nil && !h.Running() {
		return nil, fmt.Errorf("no cluster is running in %s: start one with `conclave up`, or name the metas of another with --meta", a.dir)
	}
	if err != nil {
		return nil, err
	}
	if a.token == "" {
		a.token = h.Token()
	}
	return h.Addresses("meta")
}

// admin returns a client for the metas' API.
func (a *app) admin() (*metaclient.Admin, error) {
	metas, err := a.metaAddresses()
	if err != nil {
		return nil, err
	}
	return a.adminAt(metas), nil
}

func (a *app) adminAt(metas []string) *metaclient.Admin {
	return metaclient.NewAdmin(metaclient.AdminConfig{Metas: metas, HTTP: a.http, Token: a.token})
}

// requestWait is the time limit of one request to the cluster.
const requestWait = 15 * time.Second

// ask calls f with the admin client and a context that ends after requestWait.
func (a *app) ask(cmd *cobra.Command, f func(context.Context, *metaclient.Admin) error) error {
	admin, err := a.admin()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), requestWait)
	defer cancel()
	return f(ctx, admin)
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

// toolPath returns the path of this program and the folder of the other
// programs.
func toolPath() (path, dir string, err error) {
	path, err = os.Executable()
	if err != nil {
		return "", "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil && os.Getenv(binEnv) == "" {
		path = real
	}
	if dir = os.Getenv(binEnv); dir == "" {
		dir = filepath.Dir(path)
	}
	return path, dir, nil
}

// binEnv is the environment variable that names another folder of programs, for
// tests.
const binEnv = "CONCLAVE_BIN"
