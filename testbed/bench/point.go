package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"conclave/testbed"
)

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
	// Memory is how much memory in bytes the machine has available. 0: not known.
	Memory int64
	// CPUs is how many processors the machine has. 0: not known.
	CPUs int
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

// size is what a point of a curve is measured with: the values of the curve's
// first columns.
type size map[string]float64

// point is one point that is being measured.
type point struct {
	Running
	GrowthConfig
	size   size
	values map[string]float64 // of the result
	watch  *watcher           // nil without a Cluster
}

func (p *point) run(ctx context.Context, target Target, take func(*point, context.Context) error) (err error) {
	if err := p.fits(p.of(columnConnections)); err != nil {
		return err
	}
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

// conclude sets what was counted since the start of the point, and the memory of
// each role. It returns err.
func (p *point) conclude(ctx context.Context, err error) error {
	p.set(columnLost, float64(p.Driver.Lost()))
	if p.watch == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second) // also after the limit of the point
	defer cancel()
	p.setEvents(p.watch.events(ctx))
	for role, c := range map[string]Column{"meta": columnMetaMiB, "session": columnSessionMiB, "data": columnDataMiB} {
		if mib, err := p.watch.memory(ctx, role); err == nil { // the point's figures count without it
			p.set(c, mib)
		}
	}
	return err
}

// setEvents sets the columns of what was counted at the cluster. What could not be
// read has no value.
func (p *point) setEvents(n counts) {
	for c, v := range map[Column]int{columnGone: n.gone, columnElections: n.elections, columnEvictions: n.evictions} {
		if v >= 0 {
			p.set(c, float64(v))
		}
	}
}

// bounded returns the sizes up to a bound, or the bound alone if all are larger.
// 0 is no bound.
func bounded(sizes []int, bound int) (out []int) {
	for _, n := range sizes {
		if bound == 0 || n <= bound {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		out = []int{bound}
	}
	return out
}
