package soak

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"conclave/meta/metaclient"
	"conclave/testbed"
)

// Config describes a run.
type Config struct {
	Cluster testbed.RealCluster
	Size    testbed.Size // of the cluster to open
	Load    Load
	Seed    uint64
	Only    string        // only themes of storms whose names contain this; "": all
	For     time.Duration // no episode begins later than this after the first
	Raced   bool          // the programs were built with the race detector
	Dir     string        // of the event log
	Say     func(line string)
}

// Runner plays lossless storms on a cluster under load.
type Runner struct {
	cfg     Config
	cluster testbed.RealCluster
	oracle  *Oracle
	load    *load
	states  *states
	memory  *memory
	logs    logs
	began   time.Time
	report  Report
}

// New returns a runner for one run.
func New(cfg Config) *Runner {
	r := &Runner{cfg: cfg, cluster: cfg.Cluster, states: newStates(), memory: newMemory(), began: time.Now()}
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

// size returns the size of the cluster, which containers determine themselves.
func (r *Runner) size() testbed.Size { return r.cluster.Capabilities().Fit(r.cfg.Size) }

// led waits until a node leads.
func (r *Runner) led(ctx context.Context) bool {
	return r.await(ctx, leaderBound, func(ctx context.Context) bool { return r.cluster.Observe(ctx).Leader != "" })
}

// admin returns a client that asks these metas, without keeping connections: an old
// one may lead to a process that has ended.
func (r *Runner) admin(metas ...string) *metaclient.Admin {
	web := &http.Client{Transport: r.cluster.Secure(&http.Transport{DisableKeepAlives: true, DialContext: r.cluster.Dial})}
	return metaclient.NewAdmin(metaclient.AdminConfig{Metas: metas, HTTP: web, TokenFor: func(string) string { return r.cluster.Token() }})
}

// elections returns the election history, newest first.
func (r *Runner) elections(ctx context.Context) (out []term, err error) {
	var metas []string
	for name, address := range r.cluster.Addresses() {
		if testbed.Selector(name).IsMeta() {
			metas = append(metas, address)
		}
	}
	all, err := r.admin(metas...).Elections(ctx)
	for _, e := range all {
		out = append(out, term{e.Term, e.Owner})
	}
	return out, err
}
