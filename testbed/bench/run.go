package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"conclave/client"
	"conclave/testbed"
	"conclave/testbed/load"
)

// Config configures a benchmark.
type Config struct {
	// Cluster is a new, ready cluster that nothing else uses; nil with Full.
	Cluster testbed.RealCluster
	// Another starts another cluster, with or without TLS, and returns as soon as its
	// processes are running.
	Another func(ctx context.Context, secured bool) (testbed.RealCluster, error)
	// Questions returns the number of statements that the cluster's database
	// has executed.
	Questions func(ctx context.Context) (uint64, error)

	// Only names the measurements to run, in their usual order; empty: all of
	// Names.
	Only []string
	// N is the number of repetitions of each fault. Default 30.
	N int
	// Settle is how long the idle cluster is left alone before its memory is
	// read, and Calm how long it is then observed. Default 60 s each.
	Settle, Calm time.Duration

	// Beside are registries that are measured in turns with the cluster, instead of all
	// else, by the program Peers. KillPeers is whether their leaders are killed, too, which
	// what has started them must start again.
	Beside    []Registry
	Peers     string
	KillPeers bool

	// Full chooses the measurements with sizes, which start a cluster for each size.
	Full bool
	// MaxRegistrations and MaxConnections leave out larger sizes. 0: no bound.
	MaxRegistrations, MaxConnections int
	// Secured is whether the clusters of Full use TLS.
	Secured bool
	// For is how long each overload lasts. Default 30 s.
	For time.Duration
	// Limit is the time for one size, including the start of its cluster. What takes
	// longer has failed. Default 5 min.
	Limit time.Duration

	Version  string
	Progress io.Writer // receives a line per measurement

	newPool func(client.Config) *load.Pool // nil: load.NewPool
}

// Others are the names of the registries that Conclave can be compared with.
var Others = []string{"etcd", "zookeeper", "nacos"}

// Registry is one that is compared.
type Registry struct {
	Name      string   // conclave, or one of Others
	Addresses []string // where clients connect
	Metas     []string // of Conclave
	PIDs      []int    // of processes that listen at none of these
	Token     string
}

func (c Config) withDefaults() Config {
	c.N, c.Settle, c.Calm = cmp.Or(c.N, 30), cmp.Or(c.Settle, time.Minute), cmp.Or(c.Calm, time.Minute)
	c.For, c.Limit = cmp.Or(c.For, 30*time.Second), cmp.Or(c.Limit, 5*time.Minute)
	c.Progress = cmp.Or(c.Progress, io.Discard)
	if c.newPool == nil {
		c.newPool = load.NewPool
	}
	return c
}

// run is a benchmark in progress, or one size of it.
type run struct {
	Config
	*cluster
	figures *[]Figure
	rates   map[int]float64 // of ratioTo registrations, by the number of connections

	// Of a size:
	of     string // the name of the measurement
	size   size
	pool   *load.Pool
	before map[string]float64 // what is counted
}

// report adds a figure and compares it with its target.
func (r *run) report(f Figure, v load.Values, l Limit) {
	if r.of != "" {
		f.Name, f.What = r.of+"-"+f.Name+r.size.suffix(), r.size.String()+": "+f.What
	}
	f.Values, f.Original = v, originals[f.Name]
	if l != (Limit{}) {
		holds := l.holds(v)
		f.Reached = &holds
		if f.Target == "" {
			f.Target = l.words(f.Unit)
		}
	}
	f.Unit = cmp.Or(f.Unit, "ms")
	*r.figures = append(*r.figures, f)
}

// repeat calls do N times, each time on a settled and complete cluster and with a
// minute for it, and then starts the process again that do has ended and named.
func (r *run) repeat(ctx context.Context, do func(ctx context.Context, i int) (ended string, err error)) error {
	for i := range r.N {
		if err := r.settled(ctx); err != nil {
			return err
		}
		one, cancel := context.WithTimeout(ctx, time.Minute)
		name, err := do(one, i)
		cancel()
		if err == nil {
			err = r.restart(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("%s, repetition %d: %w", name, i+1, err)
		}
	}
	return nil
}

// one returns the figure of a time that was measured once.
func one(d time.Duration) load.Values { return load.One(float64(d.Microseconds()) / 1000) }
