package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"conclave/testbed/local/supervisor"
)

func (a *app) upCommand() *cobra.Command {
	cfg := supervisor.DefaultConfig()
	var detach, insecure bool
	var dbWait time.Duration
	var page string
	cmd := &cobra.Command{
		Use: "up", Short: "Start a local cluster of processes", Args: want(),
		Long: `Start a local cluster of processes in the folder --dir and print the table of "ps"
when every node is ready. Ctrl-C stops the cluster; with --detach the command returns
and "conclave down" stops the cluster. A process that was killed stays down until
"conclave start NAME"; with --restart it is started again automatically.

The cluster draws tokens, into the file "tokens" of its folder: one for each right. The
commands find them there. Applications read the one in the file "app-token".`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Dir, cfg.Token, cfg.OwnTokens = a.dir, a.token, !insecure
			var err error
			if cfg.Dir, err = filepath.Abs(a.dir); err != nil {
				return err
			}
			if cfg.Tool, cfg.Bin, err = toolPath(); err != nil {
				return err
			}
			if err := cfg.Validate(); err != nil {
				return err
			}
			if err := checkUp(cmd.Flags(), cfg); err != nil {
				return err
			}
			switch {
			case insecure && a.token != "":
				return usageError{errors.New("--insecure and a token exclude each other")}
			case insecure:
				fmt.Fprintln(a.stderr, "conclave: WARNING: --insecure: the cluster asks for no token: every process and user of this machine may read and change it")
			}
			if err := a.keepTLS(cmd.Flags(), &cfg); err != nil {
				return err
			}
			if page != "" && (detach || cfg.Restart > 0) {
				return usageError{errors.New("--console excludes --detach and --restart")}
			}
			if err := a.reachDatabase(cmd.Context(), cfg.DB, dbWait); err != nil {
				return err
			}
			switch {
			case page != "":
				return a.upWithConsole(cmd.Context(), cfg, page)
			case detach:
				return a.upDetached(cmd.Context(), cfg)
			}
			return a.upHere(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Metas, "meta-nodes", cfg.Metas, "number of metas")
	f.IntVar(&cfg.Sessions, "session-nodes", cfg.Sessions, "number of sessions; 0, with --data-nodes 0, for metas only")
	f.IntVar(&cfg.Datas, "data-nodes", cfg.Datas, "number of data nodes")
	f.IntVar(&cfg.Slots, "slots", 0, "number of slots, a power of two (default 256)")
	f.IntVar(&cfg.Replicas, "replicas", 0, "copies of each slot including the leader's, 1 to 16 (default 2); fewer while there are fewer data nodes")
	f.IntVar(&cfg.Ports, "ports", 0, "first port of the cluster; 9600 gives sessions 9603, metas 9615, data nodes 9622 (default: those that the folder had, or free ones)")
	f.StringVar(&cfg.Profile, "profile", "", "conclave, or sofa for the timings and statements of SOFARegistry (default conclave)")
	f.DurationVar(&cfg.Lease, "lease", 0, "how long a leader without renewals keeps its term (default 3s)")
	f.DurationVar(&cfg.NodeLease, "node-lease", 0, "how long a node without heartbeats stays a member (default 3s)")
	f.StringVar(&cfg.Takeover, "takeover", "", "how a dead leader is detected: witness (its connection breaks) or lease (time only) (default witness)")
	f.StringVar(&cfg.DB, "db", cfg.DB, "embedded or the DSN of a MySQL server")
	f.DurationVar(&dbWait, "db-wait", 5*time.Second, "how long to wait for the database of --db DSN before anything is started")
	f.DurationVar(&cfg.Restart, "restart", 0, "start processes that have ended again after this time")
	f.BoolVar(&cfg.TLS, "tls", false, "use TLS, with certificates of a development CA in the folder")
	f.BoolVar(&cfg.Sofa, "sofa", false, "serve clients of SOFARegistry, too (docs/sofa.md)")
	f.BoolVar(&detach, "detach", false, "return when the cluster is ready")
	f.BoolVar(&insecure, "insecure", false, "run without tokens: every local process may do everything")
	f.StringVar(&page, "console", "", "show the cluster in a browser, at this address (default "+consoleAddress+")")
	f.Lookup("console").NoOptDefVal = consoleAddress
	f.IntVar(&cfg.Clients, "clients", 0, "number of publishers, and also of subscribers, to run")
	completeFlag(cmd, "profile", "conclave", "sofa")
	completeFlag(cmd, "takeover", "witness", "lease")
	return cmd
}

// keepTLS makes a cluster that was started with TLS use it again: a flag that was
// forgotten must not send its tokens and values in the clear.
func (a *app) keepTLS(flags *pflag.FlagSet, cfg *supervisor.Config) error {
	h, err := supervisor.Open(cfg.Dir)
	if err != nil || cfg.TLS || h.TLSDir() == "" {
		return nil //nolint:nilerr // there is no cluster, or the start says what is wrong with it
	}
	if flags.Changed("tls") {
		return usageError{fmt.Errorf("--tls=false: the cluster in %s uses TLS; choose another --dir, or remove the folder", a.dir)}
	}
	cfg.TLS = true
	a.warn(failure{Code: "tls", Message: fmt.Sprintf("the cluster in %s uses TLS, as when it was made", a.dir)})
	return nil
}

// upHere runs the supervisor in this process until a signal or `down`.
func (a *app) upHere(ctx context.Context, cfg supervisor.Config) error {
	cfg.Logger = a.logger("supervisor")
	c, err := supervisor.New(cfg)
	if err != nil {
		return err
	}
	return a.superviseHere(ctx, c, cfg.Logger, func() error {
		if err := a.showStarted(ctx, c.Handle()); err != nil || a.asJSON {
			return err
		}
		a.showAppToken(cfg)
		fmt.Fprintf(a.stdout, "\nThe cluster is running. Try %s, %s, %s. Ctrl-C stops it.\n", a.hint("kill leader"), a.hint("election list"), a.hint("events -f"))
		return nil
	})
}

// superviseHere runs a supervisor in this process until a signal or `down`, and calls
// started when every node is ready.
func (a *app) superviseHere(ctx context.Context, c *supervisor.Cluster, log hclog.Logger, started func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }() // joined on every return
	stopWatching := hurryOnSignal(ctx, c, log)
	defer stopWatching()

	ready, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if err := c.Handle().AwaitReady(ready); err != nil && ctx.Err() == nil {
		c.Stop(true)
		if stopped := <-ended; stopped != nil {
			log.Debug("stopped", "error", stopped) // err is the reason for the stop
		}
		return err
	}
	if ctx.Err() == nil {
		if err := started(); err != nil {
			c.Stop(false)
			return errors.Join(err, <-ended)
		}
	}
	return <-ended
}

// logger returns a logger that writes to standard error.
func (a *app) logger(name string) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: name, Output: a.stderr, Level: hclog.Info, TimeFormat: "15:04:05.000"})
}

// showStarted prints the processes of a cluster that has just become ready, and says so
// if a new one did not get the ports that clients try first.
func (a *app) showStarted(ctx context.Context, h *supervisor.Handle) error {
	if cfg, err := h.Config(); err == nil && cfg.Moved != "" {
		a.warn(failure{Code: "ports", Message: cfg.Moved + ": this cluster has other ports than the default ones, and keeps them; --ports chooses them"})
	}
	return a.printProcesses(ctx, h)
}

// stopping is logged at the first signal.
const stopping = "stopping the cluster; a second Ctrl-C kills what is still running"

// hurryOnSignal kills the remaining processes at the second signal. The first
// one has ended ctx, which it logs.
func hurryOnSignal(ctx context.Context, c *supervisor.Cluster, log hclog.Logger) (stop func()) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		log.Info(stopping)
		again, cancel := signal.NotifyContext(life, os.Interrupt, syscall.SIGTERM)
		defer cancel()
		if <-again.Done(); life.Err() == nil {
			c.Stop(true)
		}
	})
	return func() { forget(); end() }
}

// upDetached starts the supervisor as a separate process in its own session and
// returns when the cluster is ready.
func (a *app) upDetached(ctx context.Context, cfg supervisor.Config) error {
	logs := filepath.Join(cfg.Dir, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(logs, "supervisor.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	// On this pipe the new supervisor reports whether it has locked the folder.
	result, report, err := os.Pipe()
	if err != nil {
		return err
	}
	defer result.Close()
	cmd := exec.Command(cfg.Tool, "supervise")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{report}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	report.Close()
	if err != nil {
		return fmt.Errorf("start supervisor: %w", err)
	}
	err = json.NewEncoder(stdin).Encode(cfg)
	stdin.Close()
	answer, readErr := io.ReadAll(result)
	if err := errors.Join(err, readErr); err != nil {
		return fmt.Errorf("communicate with supervisor: %w", err)
	}
	if string(answer) != supervising {
		_ = cmd.Wait() // the reason is in answer
		if len(answer) == 0 {
			answer = []byte("supervisor ended at once; see " + log.Name())
		}
		return errors.New(string(answer))
	}
	_ = cmd.Process.Release() // it outlives this tool

	h, err := supervisor.Open(cfg.Dir)
	if err != nil {
		return err
	}
	if err := a.awaitReady(ctx, h); err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if down := h.Down(undo, true); down != nil && !errors.Is(down, supervisor.ErrNone) && down.Error() != err.Error() {
			err = errors.Join(err, down)
		}
		return err
	}
	if err := a.showStarted(ctx, h); err != nil {
		return err
	}
	a.showAppToken(cfg)
	return nil
}

// showAppToken prints how an application gets its token, if the cluster has drawn some.
func (a *app) showAppToken(cfg supervisor.Config) {
	if !a.asJSON && cfg.Token == "" && cfg.OwnTokens {
		fmt.Fprintf(a.stdout, "\nApplications need a token: export CONCLAVE_TOKEN=$(cat %s)\n", quoted(supervisor.AppTokenPath(cfg.Dir)))
	}
}

// awaitReady waits until every process is ready, or those named, for readyWait, and shows
// which are not.
func (a *app) awaitReady(ctx context.Context, h *supervisor.Handle, names ...string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	show, done := a.progress()
	defer done()
	return h.AwaitAll(ctx, func(ctx context.Context) ([]supervisor.Process, error) {
		ps, err := h.Processes(ctx)
		ps = slices.DeleteFunc(ps, func(p supervisor.Process) bool { return len(names) > 0 && !slices.Contains(names, p.Name) })
		waiting := []string{}
		for _, p := range ps {
			if p.State != "ready" {
				waiting = append(waiting, p.Name)
			}
		}
		if err == nil {
			show(fmt.Sprintf("%d of %s ready; waiting for %s", len(ps)-len(waiting), plural(len(ps), "process"), strings.Join(waiting, ", ")))
		}
		return ps, err
	})
}

// supervising is the report of a new supervisor that has locked the folder.
const supervising = "supervising"

// superviseCommand is the supervisor process of `up --detach`. It reads its
// configuration from stdin and writes its report to descriptor 3.
func (a *app) superviseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "supervise", Hidden: true, Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			report := os.NewFile(3, "report")
			if report == nil {
				return usageError{errors.New("supervise can only be started by `up --detach`")}
			}
			syscall.CloseOnExec(3) // if the nodes kept it open, `up` would wait for its end
			var cfg supervisor.Config
			if err := json.NewDecoder(os.Stdin).Decode(&cfg); err != nil {
				return fmt.Errorf("read configuration: %w", err)
			}
			cfg.Logger = hclog.New(&hclog.LoggerOptions{Name: "supervisor", Output: a.stderr, Level: hclog.Info})
			c, err := supervisor.New(cfg)
			if err != nil {
				fmt.Fprint(report, err)
				report.Close()
				return err
			}
			stopWatching := hurryOnSignal(cmd.Context(), c, cfg.Logger)
			defer stopWatching()
			fmt.Fprint(report, supervising)
			report.Close()
			return c.Run(cmd.Context())
		},
	}
}

func (a *app) downCommand() *cobra.Command {
	var now bool
	cmd := &cobra.Command{
		Use: "down", Short: "Stop the local cluster", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			began := time.Now()
			h, err := supervisor.Open(a.dir)
			if err == nil {
				show, done := a.progress()
				show("stopping the cluster in " + a.dir)
				err = h.Down(cmd.Context(), now)
				done()
			}
			switch {
			case errors.Is(err, supervisor.ErrNone):
				fmt.Fprintf(a.stderr, "conclave: no cluster is running in %s\n", a.dir)
				return nil
			case err == nil && !a.asJSON && h.OneProcess():
				fmt.Fprintf(a.stdout, "the cluster in %s stopped in %s\n", a.dir, ms(since(began)))
			case err == nil && !a.asJSON:
				fmt.Fprintf(a.stdout, "the cluster in %s stopped in %s; its folder stays, and %s continues its terms\n", a.dir, ms(since(began)), a.hint("up"))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "kill all processes instead of stopping them gracefully")
	return cmd
}
