package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"conclave/testbed"
	"conclave/testbed/bench"
	"conclave/testbed/local"
)

// growthOptions are the flags of `bench --full`.
type growthOptions struct {
	only             []string
	maxRegistrations int
	maxConnections   int
	huge             bool
	lasts, limit     time.Duration
	html, report     string
}

// growthFlags are the flags that need --full.
var growthFlags = []string{"max-registrations", "max-connections", "huge", "for", "limit", "html", "report"}

// growth measures the growth curves, each point on a cluster of its own.
func (a *app) growth(ctx context.Context, o growthOptions) (err error) {
	cfg := bench.GrowthConfig{
		Only: o.only, MaxRegistrations: o.maxRegistrations, MaxConnections: o.maxConnections, Huge: o.huge,
		For: o.lasts, Limit: o.limit, Version: version, Progress: a.stderr,
	}
	if err := cfg.Validate(); err != nil { // before a cluster is started
		return usageError{err}
	}
	_, bin, err := toolPath()
	if err != nil {
		return err
	}
	root, err := os.MkdirTemp("", "conclave-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	starts := 0
	cfg.Targets = []bench.Target{{Name: "conclave", Start: func(ctx context.Context, size testbed.Size) (bench.Running, error) {
		starts++
		return startTarget(ctx, bin, filepath.Join(root, fmt.Sprint("point-", starts)), size)
	}}}
	g, err := bench.Grow(ctx, cfg)
	if len(g.Curves) == 0 {
		return err
	}
	err = errors.Join(err, a.show(g, g.Write))
	if o.report != "" {
		err = errors.Join(err, writePage(o.report, g.WriteJSON))
	}
	if n := g.Failed(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%s failed", plural(n, "point")))
	}
	return err
}

// startTarget starts a cluster for one point, and returns when it is ready.
func startTarget(ctx context.Context, bin, dir string, size testbed.Size) (bench.Running, error) {
	c := local.New(local.Config{Bin: bin, Dir: dir, Direct: true, NoEvents: true})
	end := func() error { return errors.Join(c.Close(context.WithoutCancel(ctx)), os.RemoveAll(dir)) }
	if err := c.Open(ctx, size, nil); err != nil {
		return bench.Running{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if err := c.AwaitReady(waiting); err != nil {
		return bench.Running{}, errors.Join(err, end())
	}
	cfg, err := c.ClientConfig("growth")
	if err != nil {
		return bench.Running{}, errors.Join(err, end())
	}
	return bench.Running{Driver: bench.NewSDK(nil, cfg.Sessions...), Cluster: c, Stop: end}, nil
}
