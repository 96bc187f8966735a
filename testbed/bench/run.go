package bench

import (
	"cmp"
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
	// Another starts another cluster, with or without TLS, and returns as soon as its
	// processes are running. It is for the time from start to first push, and for the
	// cost of TLS.
	Another func(ctx context.Context, secured bool) (testbed.RealCluster, error)
	// Questions returns the number of statements that the cluster's database
	// has executed.
	Questions func(ctx context.Context) (uint64, error)

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
	c.N, c.Settle, c.Calm = cmp.Or(c.N, 30), cmp.Or(c.Settle, time.Minute), cmp.Or(c.Calm, time.Minute)
	c.Progress = cmp.Or(c.Progress, io.Discard)
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
