package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // to read the database's statement counter
	"github.com/spf13/cobra"

	"conclave/internal/cli"
	"conclave/testbed"
	"conclave/testbed/bench"
	"conclave/testbed/load"
	"conclave/testbed/local"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/report"
)

func (a *app) benchCommand() *cobra.Command {
	var full, sizes bool
	var n int
	var calm time.Duration
	var o growthOptions
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure a new cluster against targets and SOFARegistry", Args: want(),
		Long: `Measure a new cluster in a temporary folder: latencies, rates, costs, and what happens
when a leader, a data node or a session is killed. Each fault is repeated 30 times (ten
minutes in total). Exit with 1 if an invariant was violated or a measurement failed; a
missed target is reported but does not fail the run.

With --full measure the growth curves instead: registrations, connections, providers of one
dataId, data nodes, losses of nodes, and overload. Each point has its own cluster and its own time limit; a
point that fails is reported, the next ones are measured, and the exit code is 1.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if full {
				for _, name := range []string{"repeat", "calm", "sizes"} {
					if cmd.Flags().Changed(name) {
						return usageError{fmt.Errorf("--%s and --full exclude each other: --full measures the growth curves only", name)}
					}
				}
				return a.growth(cmd.Context(), o)
			}
			for _, name := range growthFlags {
				if cmd.Flags().Changed(name) {
					return usageError{fmt.Errorf("--%s needs --full", name)}
				}
			}
			if n == 0 {
				return usageError{errors.New("--repeat 0: want at least 1")}
			}
			if err := o.check(); err != nil {
				return err
			}
			return a.bench(cmd.Context(), n, sizes, calm, o.only, o.html)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&full, "full", false, "measure the growth curves")
	f.DurationVar(&calm, "calm", time.Minute, "how long the idle cluster is observed, after it has settled for as long, for a minute at most")
	f.StringSliceVar(&o.only, "only", nil, "run only these measurements: "+strings.Join(bench.Names(), ", ")+
		"; with --full only these curves: "+strings.Join(bench.CurveNames(), ", "))
	f.IntVar(&n, "repeat", 30, "number of repetitions of each fault")
	f.BoolVar(&sizes, "sizes", false, "measure latency, registrations and fan-out with other numbers, too")
	f.IntVar(&o.maxRegistrations, "max-registrations", 0, "--full: leave out points with more registrations (0: none)")
	f.IntVar(&o.maxConnections, "max-connections", 0, "--full: leave out points with more connections (0: none)")
	f.BoolVar(&o.huge, "huge", false, "--full: add 100,000 connections")
	f.BoolVar(&o.tls, "tls", false, "--full: use TLS on every port of a node")
	f.DurationVar(&o.lasts, "for", 30*time.Second, "--full: how long each overload lasts")
	f.DurationVar(&o.limit, "limit", 5*time.Minute, "--full: time limit of each point")
	f.StringVar(&o.html, "html", "", "write the report to this file as one HTML page")
	f.StringVar(&o.report, "report", "", "--full: write the report to this file as JSON")
	return cmd
}

func (a *app) bench(ctx context.Context, n int, sizes bool, calm time.Duration, only []string, html string) (err error) {
	if err := bench.Known(only); err != nil { // before a cluster is started
		return usageError{err}
	}
	root, err := os.MkdirTemp("", "conclave-bench-")
	if err != nil {
		return err
	}
	interrupted := false
	defer func() { err = closeFolder(root, interrupted, err) }()
	own, err := startOwn(ctx, filepath.Join(root, "cluster"), testbed.Size{}, false)
	if err != nil {
		interrupted = ctx.Err() != nil
		return err
	}
	starts := 0
	figures, err := bench.Run(ctx, bench.Config{
		Cluster: own, N: n, Sizes: sizes, Only: only, Settle: min(calm, time.Minute), Calm: calm, Version: version, Progress: a.stderr,
		Questions: func(ctx context.Context) (uint64, error) { return questions(ctx, own.Supervisor()) },
		Another: func(ctx context.Context, secured bool) (testbed.RealCluster, error) {
			starts++
			return launchOwn(ctx, filepath.Join(root, fmt.Sprint("another-", starts)), testbed.Size{}, secured)
		},
	})
	interrupted = err != nil && ctx.Err() != nil // a signal while the cluster is being stopped is not an interruption
	err = errors.Join(err, own.Stop(context.WithoutCancel(ctx)))
	if len(figures.Figures) > 0 {
		err = errors.Join(err, a.show(figures, figures.Write))
		if html != "" {
			err = errors.Join(err, writePage(html, func(w io.Writer) error { return report.WriteBench(w, figures) }))
		}
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
	if namesLogs(err) {
		return err
	}
	where := filepath.Dir(logs[0])
	if where != filepath.Dir(logs[len(logs)-1]) {
		where = "" // there are several clusters
	}
	return fmt.Errorf("%w; logs are in %s", err, filepath.Join(root, where))
}

// namesLogs reports whether the error itself names the folder of the logs.
func namesLogs(err error) bool {
	var notReady *supervisor.NotReadyError
	return errors.As(err, &notReady)
}

// launchOwn starts the processes of a cluster for this call, with TLS if secured is
// set, and returns when all of them are running.
func launchOwn(ctx context.Context, dir string, size testbed.Size, secured bool) (*local.Cluster, error) {
	_, bin, err := toolPath()
	if err != nil {
		return nil, err
	}
	own := local.New(local.Config{Bin: bin, Dir: dir, Direct: true, NoEvents: true, OwnTokens: true, TLS: secured})
	return own, own.Open(ctx, size, nil)
}

// startOwn also waits until the cluster is ready.
func startOwn(ctx context.Context, dir string, size testbed.Size, secured bool) (*local.Cluster, error) {
	own, err := launchOwn(ctx, dir, size, secured)
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
	db, err := sql.Open("mysql", strings.TrimSpace(string(dsn))+"?interpolateParams=true&timeout=2s")
	if err != nil {
		return 0, err
	}
	defer db.Close()
	var name string
	var n uint64
	if err := db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n); err != nil {
		return 0, fmt.Errorf("read the number of statements: %w", err)
	}
	return n, nil
}

// growthOptions are the flags of `bench --full`.
type growthOptions struct {
	only             []string
	maxRegistrations int
	maxConnections   int
	huge, tls        bool
	lasts, limit     time.Duration
	html, report     string
}

// growthFlags are the flags that need --full.
var growthFlags = []string{"max-registrations", "max-connections", "huge", "tls", "for", "limit", "report"}

// growth measures the growth curves, each point on a cluster of its own.
func (a *app) growth(ctx context.Context, o growthOptions) (err error) {
	cfg := bench.GrowthConfig{
		Only: o.only, MaxRegistrations: o.maxRegistrations, MaxConnections: o.maxConnections, Huge: o.huge,
		Files: cli.OpenFiles(), Memory: bench.AvailableMemory(), CPUs: runtime.NumCPU(), For: o.lasts, Limit: o.limit, Version: version, Progress: a.stderr,
	}
	if err := cfg.Validate(); err != nil { // before a cluster is started
		return usageError{err}
	}
	if err := o.check(); err != nil {
		return err
	}
	root, err := os.MkdirTemp("", "conclave-bench-")
	if err != nil {
		return err
	}
	interrupted := false
	defer func() { err = closeFolder(root, interrupted, err) }()
	starts := 0
	cfg.Start = func(ctx context.Context, size testbed.Size) (bench.Running, error) {
		starts++
		return startPoint(ctx, filepath.Join(root, fmt.Sprint("point-", starts)), size, o.tls)
	}
	g, err := bench.Grow(ctx, cfg)
	interrupted = err != nil && ctx.Err() != nil
	if len(g.Curves) == 0 {
		return err
	}
	err = errors.Join(err, a.show(g, g.Write))
	if o.report != "" {
		err = errors.Join(err, writePage(o.report, g.WriteJSON))
	}
	if o.html != "" {
		err = errors.Join(err, writePage(o.html, func(w io.Writer) error { return report.WriteGrowth(w, g) }))
	}
	if n := g.Failed(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%s failed", plural(n, "point")))
	}
	return err
}

// check returns an error for a flag that would fail after the measurements.
func (o growthOptions) check() error {
	for name, d := range map[string]time.Duration{"for": o.lasts, "limit": o.limit} {
		if d <= 0 {
			return usageError{fmt.Errorf("--%s %s: want more than 0", name, d)}
		}
	}
	return nil
}

// startPoint starts a cluster for one point, with TLS if secured is set, and returns
// when it is ready.
func startPoint(ctx context.Context, dir string, size testbed.Size, secured bool) (bench.Running, error) {
	c, err := startOwn(ctx, dir, size, secured)
	if err != nil {
		return bench.Running{}, err
	}
	end := func() error { return c.Close(context.WithoutCancel(ctx)) }
	cfg, err := c.ClientConfig("growth")
	if err != nil {
		return bench.Running{}, errors.Join(err, end())
	}
	return bench.Running{Clients: load.NewPool(cfg), Cluster: c, Stop: end}, nil
}
