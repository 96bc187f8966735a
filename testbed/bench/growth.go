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

	"conclave/testbed"
)

// curves are measured in this order.
var curves = []struct {
	curve Curve
	sizes func(GrowthConfig) []size
	take  func(*point, context.Context) error
}{
	{registrationsCurve, registrationSizes, (*point).registrations},
	{connectionsCurve, connectionSizes, (*point).connections},
	{providersCurve, providerSizes, (*point).providers},
	{nodesCurve, nodeSizes, (*point).nodes},
	{overloadCurve, overloadSizes, (*point).overload},
}

// size is what a point of a curve is measured with: the values of the curve's
// first columns.
type size map[string]float64

// CurveNames returns the names of the curves in their order.
func CurveNames() []string {
	var names []string
	for _, c := range curves {
		names = append(names, c.curve.Name)
	}
	return names
}

// GrowthConfig configures the growth curves.
type GrowthConfig struct {
	// Targets are measured one after another, at each size.
	Targets []Target
	// Only names the curves to measure, in their usual order; empty: all.
	Only []string
	// MaxRegistrations and MaxConnections leave out larger points. 0: no bound.
	MaxRegistrations, MaxConnections int
	// Huge adds the points that need several processes of clients.
	Huge bool
	// Files is how many files a process can have open, which bounds the
	// connections of a session. 0: no bound.
	Files int
	// For is how long each phase of the overload lasts. Default 30 s.
	For time.Duration
	// Limit is the time for one point, including the start of its cluster. A
	// point that takes longer has failed. Default 5 min.
	Limit time.Duration
	// Settle is how long connections are idle before memory is read. Default 5 s.
	Settle time.Duration

	Version  string
	Progress io.Writer // receives a line per point
}

func (c GrowthConfig) withDefaults() GrowthConfig {
	for _, d := range []struct {
		of    *time.Duration
		value time.Duration
	}{{&c.For, 30 * time.Second}, {&c.Limit, 5 * time.Minute}, {&c.Settle, 5 * time.Second}} {
		if *d.of == 0 {
			*d.of = d.value
		}
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	return c
}

// Validate returns an error that names the first invalid field.
func (c GrowthConfig) Validate() error {
	for _, name := range c.Only {
		if !slices.Contains(CurveNames(), name) {
			return fmt.Errorf("unknown curve %q (want one of %s)", name, strings.Join(CurveNames(), ", "))
		}
	}
	if least := leastRegistrations; c.MaxRegistrations != 0 && c.MaxRegistrations < least {
		return fmt.Errorf("at most %d registrations: want at least %d", c.MaxRegistrations, least)
	}
	return nil
}

// point is one point that is being measured.
type point struct {
	Running
	GrowthConfig
	size   size
	values map[string]float64 // of the result
	watch  *watcher           // nil without a Cluster
}

// Grow measures the growth curves. Each point has its own registry, so that a
// point that fails does not affect the next. Grow returns what was measured, with
// an error if it was ended by ctx or if the configuration is invalid; a failed
// point is only recorded.
func Grow(ctx context.Context, cfg GrowthConfig) (Growth, error) {
	if err := cfg.Validate(); err != nil {
		return Growth{}, err
	}
	cfg = cfg.withDefaults()
	start := time.Now()
	out := Growth{
		Version: cfg.Version, At: start.UTC().Truncate(time.Millisecond),
		Machine: Machine{CPUs: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()},
	}
	for _, c := range curves {
		if len(cfg.Only) > 0 && !slices.Contains(cfg.Only, c.curve.Name) {
			continue
		}
		curve := c.curve
		curve.Points = []Point{}
		for _, s := range c.sizes(cfg) {
			for _, target := range cfg.Targets {
				fmt.Fprintf(cfg.Progress, "%-14s %-44s ", curve.Name, curve.words(s))
				p := measure(ctx, cfg, target, s, c.take)
				if ctx.Err() != nil {
					fmt.Fprintln(cfg.Progress, "interrupted")
					out.Curves, out.TookMs = append(out.Curves, curve), time.Since(start).Milliseconds()
					return out, ctx.Err()
				}
				curve.Points = append(curve.Points, p)
				took := (time.Duration(p.TookMs) * time.Millisecond).Round(100 * time.Millisecond)
				if p.Error != "" {
					fmt.Fprintf(cfg.Progress, "failed after %s: %s\n", took, p.Error)
				} else {
					fmt.Fprintf(cfg.Progress, "%s\n", took)
				}
			}
		}
		if slices.Contains(curve.Columns, columnRatio) {
			ratios(curve.Points)
		}
		out.Curves = append(out.Curves, curve)
	}
	out.TookMs = time.Since(start).Milliseconds()
	return out, nil
}

// measure measures one point on a new registry.
func measure(ctx context.Context, cfg GrowthConfig, target Target, s size, take func(*point, context.Context) error) Point {
	start := time.Now()
	p := &point{GrowthConfig: cfg, size: s, values: map[string]float64{}}
	for name, v := range s {
		p.values[name] = v
	}
	limited, cancel := context.WithTimeoutCause(ctx, cfg.Limit, fmt.Errorf("more than the limit of %s for a point", cfg.Limit))
	defer cancel()
	err := p.run(limited, target, take)
	out := Point{Target: target.Name, Values: p.values, TookMs: time.Since(start).Milliseconds()}
	if err != nil {
		if cause := context.Cause(limited); cause != nil && errors.Is(err, limited.Err()) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		out.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return out
}

func (p *point) run(ctx context.Context, target Target, take func(*point, context.Context) error) (err error) {
	if p.Running, err = target.Start(ctx, p.cluster()); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	if p.Cluster != nil {
		if p.watch, err = watch(ctx, p.Cluster); err != nil {
			return err
		}
		defer p.watch.close()
	}
	return take(p, ctx)
}

// cluster returns the size of the cluster that a point needs.
func (p *point) cluster() testbed.Size {
	return testbed.Size{Datas: int(p.size[columnDatas.Name]), Sessions: int(p.size[columnSessions.Name])}
}

// of returns one of the point's sizes.
func (p *point) of(c Column) int { return int(p.size[c.Name]) }

// set sets one of the point's figures.
func (p *point) set(c Column, v float64) { p.values[c.Name] = v }

// setDist sets figures of a distribution.
func (p *point) setDist(d *Dist, p50, p99 Column) {
	if v := d.Values(); v.N > 0 {
		p.set(p50, v.P50)
		p.set(p99, v.P99)
	}
}

// words returns a size as text: "registrations 10,000, connections 20".
func (c Curve) words(s size) string {
	var parts []string
	for _, col := range c.Columns {
		if v, ok := s[col.Name]; ok {
			parts = append(parts, col.What+" "+number(v))
		}
	}
	return strings.ToLower(strings.Join(parts, ", "))
}
