package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/testbed"
	"conclave/testbed/bench"
	"conclave/testbed/local"
	"conclave/testbed/local/supervisor"
)

func (a *app) benchCommand() *cobra.Command {
	var cfg bench.Config
	var calm time.Duration
	var file string
	var beside []string
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure a new cluster against targets and SOFARegistry", Args: want(),
		Long: `Measure a new cluster in a temporary folder: latencies, rates, costs, and what happens
when a leader, a data node or a session is killed. Each fault is repeated 30 times (ten
minutes in total). Exit with 1 if an invariant was violated or a measurement failed; a
missed target is reported but does not fail the run.

With --full measure how figures grow instead: with registrations, connections, losses of
nodes, and overload. Each size has its own cluster and its own time limit; one that
fails is reported, the next ones are measured, and the exit code is 1.

With --beside compare the cluster with other registries instead, which are measured in turns
with it by the same load; "make beside" starts an etcd for that.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			without := map[bool]string{true: "repeat calm", false: "max-registrations max-connections tls for limit"}[cfg.Full]
			for name := range strings.FieldsSeq(without) {
				switch {
				case !cmd.Flags().Changed(name):
				case cfg.Full:
					return usageError{fmt.Errorf("--%s and --full exclude each other: --full measures growth only", name)}
				default:
					return usageError{fmt.Errorf("--%s needs --full", name)}
				}
			}
			if cfg.KillPeers && len(beside) == 0 {
				return usageError{errors.New("--kill-peers needs --beside")}
			}
			for _, text := range beside {
				name, addresses, _ := strings.Cut(text, "=")
				if !slices.Contains(bench.Others, name) || addresses == "" {
					return usageError{fmt.Errorf("--beside %q: want NAME=ADDR,... (NAME: %s)", text, strings.Join(bench.Others, " or "))}
				}
				cfg.Beside = append(cfg.Beside, bench.Registry{Name: name, Addresses: strings.Split(addresses, ",")})
			}
			cfg.Settle, cfg.Calm = min(calm, time.Minute), calm
			return a.bench(cmd.Context(), cfg, file)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&cfg.Full, "full", false, "measure growth")
	f.DurationVar(&calm, "calm", time.Minute, "how long the idle cluster is observed, after it has settled for as long, for a minute at most")
	of, withFull := bench.Config{}.Names(), bench.Config{Full: true}.Names()
	withBeside := bench.Config{Beside: make([]bench.Registry, 1), KillPeers: true}.Names()
	f.StringSliceVar(&cfg.Only, "only", nil, "run only these measurements: "+strings.Join(of, ", ")+
		"; with --full: "+strings.Join(withFull, ", ")+"; with --beside: "+strings.Join(withBeside, ", "))
	completeFlag(cmd, "only", slices.Concat(of, withFull, withBeside)...)
	f.IntVar(&cfg.N, "repeat", 30, "number of repetitions of each fault; --beside: a third of it are the rounds")
	f.IntVar(&cfg.MaxRegistrations, "max-registrations", 0, "--full: leave out larger numbers of registrations (0: none)")
	f.IntVar(&cfg.MaxConnections, "max-connections", 0, "--full: leave out larger numbers of connections (0: none)")
	f.BoolVar(&cfg.Secured, "tls", false, "--full: use TLS on every port of a node")
	f.DurationVar(&cfg.For, "for", 30*time.Second, "--full: how long each overload lasts")
	f.DurationVar(&cfg.Limit, "limit", 5*time.Minute, "--full: time limit of each size")
	f.StringArrayVar(&beside, "beside", nil, "measure another registry in turns with the cluster, and nothing else: etcd=ADDR,...")
	f.BoolVar(&cfg.KillPeers, "kill-peers", false, "--beside: kill leaders, also those of the others, which must be started again by what runs them")
	f.StringVar(&file, "report", "", "write the report to this file as JSON")
	cmd.MarkFlagsMutuallyExclusive("beside", "full")
	moreThan0(f, "repeat", "for", "limit")
	return cmd
}

// bench measures, and writes the report to a file, if it is named.
func (a *app) bench(ctx context.Context, cfg bench.Config, file string) (err error) {
	cfg.Version, cfg.Progress = version, a.stderr
	if err := cfg.Validate(); err != nil { // before a cluster is started
		return usageError{err}
	}
	if len(cfg.Beside) > 0 {
		_, dir, err := toolPath()
		if err != nil {
			return err
		}
		if cfg.Peers, err = exec.LookPath(filepath.Join(dir, "peers")); err != nil {
			return fmt.Errorf("--beside needs the program peers, which `make peers` builds: %w", err)
		}
	}
	root, err := os.MkdirTemp("", "conclave-bench-")
	if err != nil {
		return err
	}
	interrupted := false
	defer func() { err = closeFolder(root, interrupted, err) }()
	starts := 0
	cfg.Another = func(ctx context.Context, secured bool) (testbed.RealCluster, error) {
		starts++
		return launchOwn(ctx, filepath.Join(root, fmt.Sprint("another-", starts)), secured, false)
	}
	stop := func() error { return nil }
	if !cfg.Full {
		own, err := startOwn(ctx, filepath.Join(root, "cluster"), cfg.KillPeers)
		if err != nil {
			interrupted = ctx.Err() != nil
			return err
		}
		cfg.Cluster, stop = own, func() error { return own.Stop(context.WithoutCancel(ctx)) }
		cfg.Questions = func(ctx context.Context) (uint64, error) { return questions(ctx, own.Supervisor()) }
	}
	figures, err := bench.Run(ctx, cfg)
	interrupted = err != nil && ctx.Err() != nil // a signal while the cluster is being stopped is not an interruption
	err = errors.Join(err, stop())
	if len(figures.Figures) == 0 {
		return err
	}
	err = errors.Join(err, a.show(figures, figures.Write))
	if file != "" {
		err = errors.Join(err, writeReport(file, figures))
	}
	return err
}

// closeFolder removes the temporary folder of a call. If the call has failed,
// was not interrupted and there are logs, it keeps the folder and adds its path
// to the error.
func closeFolder(root string, interrupted bool, err error) error {
	logs, _ := fs.Glob(os.DirFS(root), "*/logs/*.log") // the pattern is well-formed
	if err == nil || interrupted || len(logs) == 0 {
		_ = os.RemoveAll(root) // not a failure of the call: it is in the temporary folder
		return err
	}
	if notReady := (*supervisor.NotReadyError)(nil); errors.As(err, &notReady) {
		return err // it names the folder of the logs
	}
	where := filepath.Dir(logs[0])
	if where != filepath.Dir(logs[len(logs)-1]) {
		where = "" // there are several clusters
	}
	return fmt.Errorf("%w; logs are in %s", err, filepath.Join(root, where))
}

// launchOwn starts the processes of a cluster for this call, with TLS if secured is
// set, and returns when all of them are running. One that ends is started again if again
// is set.
func launchOwn(ctx context.Context, dir string, secured, again bool) (*local.Cluster, error) {
	_, bin, err := toolPath()
	if err != nil {
		return nil, err
	}
	own := local.New(local.Config{Bin: bin, Dir: dir, Direct: true, NoEvents: true, OwnTokens: true, TLS: secured, Settings: func(c *supervisor.Config) {
		if again {
			c.Restart = 100 * time.Millisecond
		}
	}})
	return own, own.Open(ctx, testbed.Size{}, nil)
}

// startOwn also waits until the cluster, which has no TLS, is ready.
func startOwn(ctx context.Context, dir string, again bool) (*local.Cluster, error) {
	own, err := launchOwn(ctx, dir, false, again)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if err := own.AwaitReady(waiting); err != nil {
		return nil, errors.Join(err, own.Close(context.WithoutCancel(ctx)))
	}
	return own, nil
}

// questions returns the number of statements that the cluster's database has executed.
func questions(ctx context.Context, h *supervisor.Handle) (uint64, error) {
	dsn, err := os.ReadFile(filepath.Join(h.Dir(), "dsn"))
	if err != nil {
		return 0, err
	}
	var name string
	var n uint64
	return n, askDatabase(ctx, strings.TrimSpace(string(dsn)), "SHOW GLOBAL STATUS LIKE 'Questions'", &name, &n)
}
