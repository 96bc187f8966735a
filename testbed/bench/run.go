package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
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
	// Secured starts another cluster, with TLS, and returns when it is ready, with
	// the function that ends it. It is for the cost of TLS. Nil: not measured.
	Secured func(ctx context.Context) (testbed.RealCluster, func() error, error)
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
	// Sizes also measures latency, registrations and fan-out with other numbers.
	Sizes bool
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

// newAdmin returns a client with short timeouts, so that a slow meta does not
// distort a figure.
func newAdmin(metas []string, c testbed.RealCluster) *metaclient.Admin {
	dialer := &net.Dialer{Timeout: 500 * time.Millisecond}
	return metaclient.NewAdmin(metaclient.AdminConfig{Metas: metas, TokenFor: func(string) string { return c.Token() }, HTTP: &http.Client{
		Timeout: 15 * time.Second, Transport: c.Secure(&http.Transport{DialContext: dialer.DialContext}),
	}})
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

// do kills, stops or starts a process.
func (r *run) do(ctx context.Context, verb testbed.Verb, name string) error {
	return r.Cluster.Do(ctx, testbed.Action{Verb: verb, Node: name})
}

func (r *run) names(ctx context.Context, role string) ([]string, error) {
	ps, err := r.Cluster.Processes(ctx)
	var out []string
	for _, p := range ps {
		if p.Role() == role {
			out = append(out, p.Name)
		}
	}
	return out, err
}
