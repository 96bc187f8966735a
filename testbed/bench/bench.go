package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"conclave/meta/metaclient"
	"conclave/testbed"
)

// Config configures a benchmark.
type Config struct {
	// Cluster is a new, ready cluster that nothing else uses.
	Cluster testbed.RealCluster
	// Fresh starts another cluster and returns as soon as its processes are
	// running, with the function that ends it. It is for the time from start to
	// first push. Nil: not measured.
	Fresh func(ctx context.Context) (testbed.RealCluster, func() error, error)
	// Questions returns the number of statements that the cluster's database
	// has executed, and LogLines the number of lines that its processes have
	// logged. Nil: not measured.
	Questions func(ctx context.Context) (uint64, error)
	LogLines  func() (int, error)

	// Only names the measurements to run, in their usual order; empty: all of
	// Names.
	Only []string
	// N is the number of repetitions of each fault. Default 30.
	N int
	// Full adds the growth curves.
	Full bool
	// Settle is how long the idle cluster is left alone before its memory is
	// read, and Calm how long it is then observed. Default 60 s each.
	Settle, Calm time.Duration

	Version  string
	Progress io.Writer // receives a line per measurement
}

func (c Config) withDefaults() Config {
	if c.N == 0 {
		c.N = 30
	}
	if c.Settle == 0 {
		c.Settle = time.Minute
	}
	if c.Calm == 0 {
		c.Calm = time.Minute
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	return c
}

// run is a benchmark in progress.
type run struct {
	Config
	admin   *metaclient.Admin
	figures []Figure
}

// measurements are run in this order; those that need an idle cluster are
// first.
var measurements = []struct {
	name, what string
	take       func(*run, context.Context) error
}{
	{"calm", "idle cluster: memory, SQL, log lines", (*run).calm},
	{"latency", "publish to push", (*run).latency},
	{"updates", "20 updates a second", (*run).updates},
	{"registrations", "registrations from one client", (*run).registrations},
	{"fan-out", "many publishers to many subscribers", (*run).fanOut},
	{"leader-killed", "leader killed", (*run).leaderKilled},
	{"leader-stopped", "leader stopped", (*run).leaderStopped},
	{"data-killed", "data node killed", (*run).dataKilled},
	{"data-drained", "data node drained", (*run).dataDrained},
	{"session-killed", "session killed", (*run).sessionKilled},
	{"starts", "start to first push", (*run).starts},
}

// Names returns the names of the measurements in their order.
func Names() []string {
	var names []string
	for _, m := range measurements {
		names = append(names, m.name)
	}
	return names
}

// Known returns an error for the first name that is not a measurement's.
func Known(only []string) error {
	for _, name := range only {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("unknown measurement %q (want one of %s)", name, strings.Join(Names(), ", "))
		}
	}
	return nil
}

// Run runs the measurements in their order. If one fails, Run continues with
// the next unless ctx has ended, and returns the joined errors.
func Run(ctx context.Context, cfg Config) (Report, error) {
	cfg = cfg.withDefaults()
	if err := Known(cfg.Only); err != nil {
		return Report{}, err
	}
	start := time.Now()
	report := Report{
		Version: cfg.Version, At: start.UTC().Truncate(time.Millisecond),
		Machine: Machine{CPUs: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()},
	}
	r := &run{Config: cfg}
	metas, err := r.addresses(ctx, "meta")
	if err != nil {
		return report, err
	}
	r.admin = newAdmin(metas)
	defer r.admin.HTTP.CloseIdleConnections()

	var errs []error
	for _, m := range measurements {
		if len(cfg.Only) > 0 && !slices.Contains(cfg.Only, m.name) {
			continue
		}
		began := time.Now()
		fmt.Fprintf(r.Progress, "%-40s ", m.what)
		err := m.take(r, ctx)
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.what, err))
			fmt.Fprintf(r.Progress, "failed: %v\n", err)
			continue
		}
		fmt.Fprintf(r.Progress, "%s\n", time.Since(began).Round(100*time.Millisecond))
	}
	report.Figures, report.TookMs = r.figures, time.Since(start).Milliseconds()
	return report, errors.Join(errs...)
}

// report adds a figure and compares it with its target.
func (r *run) report(f Figure, v Values, l Limit) {
	f.Values, f.Original = v, originals[f.Name]
	if l != (Limit{}) {
		holds := l.holds(v)
		f.Reached = &holds
		if f.Target == "" {
			f.Target = l.words(f.Unit)
		}
	}
	if f.Unit == "" {
		f.Unit = "ms"
	}
	r.figures = append(r.figures, f)
}

// addresses returns the HTTP addresses of a role's processes.
func (r *run) addresses(ctx context.Context, role string) ([]string, error) {
	names, err := r.names(ctx, role)
	var out []string
	all := r.Cluster.Addresses()
	for _, name := range names {
		out = append(out, all[name])
	}
	return out, err
}

// settled waits until every process is ready and no slot is being handed over,
// which is the state in which each repetition begins.
func (r *run) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := r.Cluster.AwaitReady(ctx); err != nil {
		return err
	}
	return await(ctx, 10*time.Millisecond, "stable slots", func() bool {
		s, err := r.admin.Slots(ctx)
		return err == nil && s.Stable
	})
}

// await calls done every tick until it returns true. what names the condition
// in the error.
func await(ctx context.Context, tick time.Duration, what string, done func() bool) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	for !done() {
		select {
		case <-t.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		}
	}
	return nil
}
