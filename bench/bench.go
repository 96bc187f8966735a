package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"conclave/meta/metaclient"
)

// Process is one process of the measured cluster.
type Process struct {
	Name, Role string // role: meta, session, data, db
	PID        int
	Address    string // of its HTTP port
}

// Cluster is what a benchmark needs of the cluster that it measures and breaks.
type Cluster interface {
	// Processes lists what runs, sorted by name.
	Processes(ctx context.Context) ([]Process, error)
	// Kill sends a signal to one; Start starts one that is down.
	Kill(ctx context.Context, name string, sig syscall.Signal) error
	Start(ctx context.Context, name string) error
	// AwaitReady waits until every process is ready.
	AwaitReady(ctx context.Context) error
}

// Config says what to measure on.
type Config struct {
	// Cluster is a fresh, ready one that nobody else uses.
	Cluster Cluster
	// Fresh starts another cluster and returns as soon as its processes run,
	// with the function that ends it: for the time from start to first push.
	Fresh func(ctx context.Context) (Cluster, func() error, error)
	// Questions is how many statements the cluster's database has executed, and
	// LogLines how many lines its processes have written. Nil: not measured.
	Questions func(ctx context.Context) (uint64, error)
	LogLines  func() (int, error)

	// Only names the measurements to take, in their usual order; empty: all. Names
	// lists them.
	Only []string
	// N is the number of repetitions of each breakage. Default 30.
	N int
	// Full adds the growth curves.
	Full bool
	// Settle is how long the calm cluster is left alone before its memory is
	// read, and Calm how long it is then watched. Default 60 s each.
	Settle, Calm time.Duration

	Version  string
	Progress io.Writer // a line per measurement, while it runs
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

// run is one benchmark under way.
type run struct {
	Config
	admin   *metaclient.Admin
	figures []Figure
}

// measurements are what Run does, in this order: what needs a calm cluster is first.
var measurements = []struct {
	name, what string
	take       func(*run, context.Context) error
}{
	{"calm", "a calm cluster: memory, SQL, log lines", (*run).calm},
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

// Names are those of the measurements, in their order.
func Names() []string {
	var names []string
	for _, m := range measurements {
		names = append(names, m.name)
	}
	return names
}

// Known says which of the names is none of a measurement's.
func Known(only []string) error {
	for _, name := range only {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("there is no measurement %q, only %s", name, strings.Join(Names(), ", "))
		}
	}
	return nil
}

// Run takes the measurements in their order. One that fails is noted as an
// error; the rest still run, unless ctx ended.
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

// report adds a figure and judges it.
func (r *run) report(f Figure, v Values, l Limit) {
	f.Values = v
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

func (r *run) addresses(ctx context.Context, role string) ([]string, error) {
	ps, err := r.Cluster.Processes(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range ps {
		if p.Role == role {
			out = append(out, p.Address)
		}
	}
	return out, nil
}

// settled waits until every process is ready and no slot is on its way: the
// state in which each repetition begins.
func (r *run) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := r.Cluster.AwaitReady(ctx); err != nil {
		return err
	}
	return await(ctx, 10*time.Millisecond, "the slots to come to rest", func() bool {
		s, err := r.admin.Slots(ctx)
		return err == nil && s.Stable
	})
}

// await asks every tick until it is so.
func await(ctx context.Context, tick time.Duration, what string, so func() bool) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	for !so() {
		select {
		case <-t.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		}
	}
	return nil
}
