package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Growth is the result of the growth curves.
type Growth struct {
	Version string    `json:"version"`
	At      time.Time `json:"at"`
	TookMs  int64     `json:"tookMs"`
	Machine Machine   `json:"machine"`
	Curves  []Curve   `json:"curves"`
}

// CurveNames returns the names of the curves in their order.
func CurveNames() []string {
	var names []string
	for _, c := range curves {
		names = append(names, c.Name)
	}
	return names
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

// Grow measures the growth curves. Each point has its own cluster, so that a
// point that fails does not affect the next. Grow returns what was measured, with
// an error if it was ended by ctx or if the configuration is invalid; a failed
// point is only recorded.
func Grow(ctx context.Context, cfg GrowthConfig) (Growth, error) {
	defer fewerCollections()()
	if err := cfg.Validate(); err != nil {
		return Growth{}, err
	}
	cfg = cfg.withDefaults()
	start := time.Now()
	out := Growth{Version: cfg.Version, At: start.UTC().Truncate(time.Millisecond), Machine: thisMachine()}
	for _, c := range curves {
		if len(cfg.Only) > 0 && !slices.Contains(cfg.Only, c.Name) {
			continue
		}
		curve := c.Curve
		curve.Points = []Point{}
		for _, s := range c.sizes(cfg) {
			fmt.Fprintf(cfg.Progress, "%-14s %-44s ", curve.Name, curve.words(s))
			p := c.measure(ctx, cfg, s)
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
		if curve.has("ratio") {
			ratios(curve.Points)
		}
		out.Curves = append(out.Curves, curve)
	}
	out.TookMs = time.Since(start).Milliseconds()
	return out, nil
}

// measure measures one point on a new cluster.
func (c curve) measure(ctx context.Context, cfg GrowthConfig, s size) Point {
	start := time.Now()
	p := &point{GrowthConfig: cfg, curve: c, size: s, values: map[string]float64{}}
	for name, v := range s {
		p.set(name, v)
	}
	limited, cancel := context.WithTimeoutCause(ctx, cfg.Limit, fmt.Errorf("more than the limit of %s for a point", cfg.Limit))
	defer cancel()
	err := p.measure(limited)
	out := Point{Target: "conclave", Values: p.values, TookMs: time.Since(start).Milliseconds()}
	if err != nil {
		if cause := context.Cause(limited); cause != nil && errors.Is(err, limited.Err()) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		out.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return out
}

// Write prints a table for each curve.
func (g Growth) Write(w io.Writer) {
	for i, c := range g.Curves {
		if i > 0 {
			fmt.Fprintln(w)
		}
		c.write(w)
	}
	writeMachine(w, g.Machine, g.Version, g.At, g.TookMs)
}

// WriteJSON writes the curves as one document.
func (g Growth) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(g)
}

// Failed returns how many points failed.
func (g Growth) Failed() (n int) {
	for _, c := range g.Curves {
		for _, p := range c.Points {
			if p.Error != "" {
				n++
			}
		}
	}
	return n
}
