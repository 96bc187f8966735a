package soak

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"conclave/testbed"
)

// Config describes a run.
type Config struct {
	Cluster testbed.RealCluster
	Size    testbed.Size // of the cluster to open
	Load    Load
	Seed    uint64
	Only    string        // only shapes whose names contain this; "": all
	For     time.Duration // no episode begins later than this after the first
	Raced   bool          // the programs were built with the race detector
	Dir     string        // of the event log
	Say     func(line string)
}

// Runner plays the episodes of a plan on a cluster under load.
type Runner struct {
	cfg      Config
	cluster  testbed.RealCluster
	operator *operator
	oracle   *Oracle
	load     *load
	states   *states
	memory   *memory
	logs     logs
	began    time.Time
	report   Report
}

// New returns a runner for one run.
func New(cfg Config) *Runner {
	r := &Runner{cfg: cfg, cluster: cfg.Cluster, operator: newOperator(cfg.Cluster), states: newStates(), memory: newMemory(), began: time.Now()}
	r.logs.read = map[string]int64{}
	r.oracle = NewOracle(r.elapsed)
	r.load = newLoad(cfg.Load, cfg.Cluster, r.oracle, cfg.Seed)
	return r
}

func (r *Runner) elapsed() time.Duration { return time.Since(r.began) }

func (r *Runner) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.oracle.Note("%s", text)
	r.cfg.Say(fmt.Sprintf("%7.1f s  %s", r.elapsed().Seconds(), text))
}

// await calls so until it returns true. It returns false if the bound has
// passed or ctx has ended.
func (r *Runner) await(ctx context.Context, bound time.Duration, so func(context.Context) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if so(ctx) {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// isMeta reports whether the name is that of a meta node.
func isMeta(name string) bool { return strings.HasPrefix(name, "meta-") }

// sorted returns a sorted copy.
func sorted(names []string) []string {
	out := slices.Clone(names)
	slices.Sort(out)
	return out
}
