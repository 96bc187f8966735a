package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"conclave/testbed"
	"conclave/testbed/load"
)

// Curve shows how figures change with a size.
type Curve struct {
	Name    string   `json:"name"` // one of CurveNames
	What    string   `json:"what"`
	Columns []Column `json:"columns"`
	Plots   []Plot   `json:"plots"`
	Points  []Point  `json:"points"`
}

// Column is a figure that points of a curve have.
type Column struct {
	Name string `json:"name"` // the key in Point.Values
	What string `json:"what"` // the head of the column
	Unit string `json:"unit,omitempty"`
}

// Plot is a graph of columns of a curve. It has a line for each value of By.
type Plot struct {
	What string `json:"what"`
	X    string `json:"x"`
	Y    string `json:"y"`
	By   string `json:"by,omitempty"` // the column that separates the lines; "": there is one line
}

// Point is one measurement: the sizes and figures of its curve by column. What
// could not be measured has no value.
type Point struct {
	Target string             `json:"target"` // conclave
	Values map[string]float64 `json:"values"`
	TookMs int64              `json:"tookMs"`
	Error  string             `json:"error,omitempty"` // why the point failed; Values has what was measured before
}

// GrowthConfig configures the growth curves.
type GrowthConfig struct {
	// Start starts a new cluster, and returns when it is ready.
	Start func(ctx context.Context, size testbed.Size) (Running, error)
	// Only names the curves to measure, in their usual order; empty: all.
	Only []string
	// MaxRegistrations and MaxConnections leave out larger points. 0: no bound.
	MaxRegistrations, MaxConnections int
	// Huge adds the point of hugeConnections.
	Huge bool
	// Files is how many files a process can have open. 0: not known.
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

// Running is a cluster that was started for one point of a curve.
type Running struct {
	Clients *load.Pool
	// Cluster has the processes. Nil: only what clients can see is measured.
	Cluster testbed.RealCluster
	// Stop ends the cluster at once.
	Stop func() error
}

func (c GrowthConfig) withDefaults() GrowthConfig {
	c.For, c.Limit, c.Settle = cmp.Or(c.For, 30*time.Second), cmp.Or(c.Limit, 5*time.Minute), cmp.Or(c.Settle, 5*time.Second)
	c.Progress = cmp.Or(c.Progress, io.Discard)
	return c
}

// curve is how a Curve is measured: at each size, the load is put on a new cluster,
// the probe does something to it, and then everything is counted.
type curve struct {
	Curve
	axes  []axis
	load  func(*point, context.Context) error
	probe func(*point, context.Context) error // nil: none
	then  func(*point, context.Context) error // after the count; nil: nothing
}

// axis is one of a curve's sizes, which are combined, the last axis fastest.
type axis struct {
	name   string
	values []int
	bound  func(GrowthConfig) int // larger values are left out; nil: none is
}

// size is what a point of a curve is measured with. What is not a column of the curve
// is the same for all its points.
type size map[string]float64

// point is one point that is being measured.
type point struct {
	Running
	GrowthConfig
	curve  curve
	size   size
	values map[string]float64 // of the result

	on      *cluster // nil without processes
	before  map[string]float64
	clients load.Clients
}

func (p *point) measure(ctx context.Context) (err error) {
	if err := p.fits(p.of("connections")); err != nil {
		return err
	}
	if p.Running, err = p.Start(ctx, testbed.Size{Datas: p.of("datas")}); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	if p.Cluster != nil {
		p.on = newCluster(p.Cluster)
		defer p.on.close()
		p.before = p.on.counts(ctx)
	}
	defer func() { p.clients.Kill() }()
	err = p.curve.load(p, ctx)
	if err == nil && p.on != nil && p.curve.probe != nil {
		err = p.curve.probe(p, ctx)
	}
	p.count(ctx)
	if err == nil && p.on != nil && p.curve.then != nil {
		err = p.curve.then(p, ctx)
	}
	return err
}

// of returns one of the point's sizes.
func (p *point) of(name string) int { return int(p.size[name]) }

// set sets one of the point's figures, if the curve has it.
func (p *point) set(column string, v float64) {
	if p.curve.has(column) {
		p.values[column] = v
	}
}

func (p *point) setMs(column string, d time.Duration) { p.set(column, float64(d.Microseconds())/1000) }

// setDist sets figures of a distribution.
func (p *point) setDist(d *load.Dist, p50, p99 string) {
	if v := d.Values(); v.N > 0 {
		p.set(p50, v.P50)
		p.set(p99, v.P99)
	}
}

// count sets what was counted since before, and the memory of each role.
func (p *point) count(ctx context.Context) {
	p.set("lost", float64(p.Clients.Lost()))
	if p.on == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second) // also after the limit of the point
	defer cancel()
	for column, now := range p.on.counts(ctx) {
		if before, known := p.before[column]; known {
			p.set(column, now-before)
		}
	}
	for _, role := range []string{"meta", "session", "data"} {
		if mib, err := p.on.memory(ctx, role); err == nil { // the point's figures count without it
			p.set(role+"MiB", mib)
		}
	}
}

func (c Curve) write(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", c.Name, c.What)
	head := []string{"TARGET"}
	for _, col := range c.Columns {
		head = append(head, col.Head())
	}
	rows := [][]string{append(head, "")}
	for _, p := range c.Points {
		row := []string{p.Target}
		for _, col := range c.Columns {
			row = append(row, p.Cell(col))
		}
		if p.Error != "" {
			p.Error = "FAILED: " + p.Error
		}
		rows = append(rows, append(row, p.Error))
	}
	writeColumns(w, rows, func(column int) bool { return column >= 1 && column <= len(c.Columns) })
}

// has reports whether the curve has a column.
func (c Curve) has(name string) bool {
	return slices.ContainsFunc(c.Columns, func(col Column) bool { return col.Name == name })
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

// Head returns the head of the column, with its unit.
func (c Column) Head() string {
	if c.Unit == "" {
		return c.What
	}
	return c.What + " " + c.Unit
}

// Cell returns the value of a column, "-" if the point has none.
func (p Point) Cell(c Column) string {
	v, ok := p.Values[c.Name]
	if !ok {
		return "-"
	}
	return number(v)
}
