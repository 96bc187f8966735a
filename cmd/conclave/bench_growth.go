package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"conclave/testbed"
	"conclave/testbed/bench"
	"conclave/testbed/load"
	"conclave/testbed/report"
)

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
		Files: openFiles(), Memory: bench.AvailableMemory(), CPUs: runtime.NumCPU(), For: o.lasts, Limit: o.limit, Version: version, Progress: a.stderr,
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
	return bench.Running{Clients: load.NewPool(cfg), Cluster: c.Cluster, Stop: end}, nil
}

// openFiles returns how many files a process can have open.
func openFiles() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0 // not known
	}
	return int(min(l.Max, 1<<30))
}
