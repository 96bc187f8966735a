package bench

import (
	"context"
	"io"
	"time"

	"conclave/testbed"
	"conclave/testbed/load"
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
	*cluster
	figures []Figure
}

// report adds a figure and compares it with its target.
func (r *run) report(f Figure, v load.Values, l Limit) {
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
