package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
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
	{lossesCurve, lossSizes, (*point).losses},
	{overloadCurve, overloadSizes, (*point).overload},
}

// CurveNames returns the names of the curves in their order.
func CurveNames() []string {
	var names []string
	for _, c := range curves {
		names = append(names, c.curve.Name)
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

// Grow measures the growth curves. Each point has its own registry, so that a
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
