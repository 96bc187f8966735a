package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// measurement is a row of the table of what can be measured.
type measurement struct {
	name, what string
	// sizes returns those that it is measured with, on a new cluster each; nil: it is
	// measured once, on the cluster of the run.
	sizes func(Config) []size
	take  func(*run, context.Context) error
}

// measurements are run in this order; those that need an idle cluster are
// first.
var measurements = []measurement{
	{"calm", "idle cluster: memory, SQL, log lines", nil, (*run).calm},
	{"latency", "publish to push", nil, (*run).latency},
	{"updates", "20 updates a second", nil, (*run).updates},
	{"registrations", "registrations from one client", nil, (*run).registrations},
	{"tls", "the cost of TLS", nil, (*run).tls},
	{"fan-out", "many publishers to many subscribers", nil, (*run).fanOut},
	{"leader-killed", "leader killed", nil, (*run).leaderKilled},
	{"leader-stopped", "leader stopped", nil, (*run).leaderStopped},
	{"data-killed", "data node killed", nil, (*run).dataKilled},
	{"data-drained", "data node drained", nil, (*run).dataDrained},
	{"session-killed", "session killed", nil, (*run).sessionKilled},
	{"session-killed-moving", "session killed while slots move", nil, (*run).sessionKilledMoving},
	{"starts", "start to first push", nil, (*run).starts},

	{"registrations", "registrations", manyRegistrations, counted((*run).store)},
	{"connections", "clients at once", manyConnections, (*run).growConnections},
	{"losses", "nodes lost", moreRegistrations, counted((*run).growLosses)},
	{"overload", "overload", overloads, counted((*run).overload)},
}

// besides are the measurements that are taken of each registry in turns, as the program
// peers has them. The last one kills leaders, which what has started them starts again.
var besides = []measurement{
	beside("rest", "at rest"),
	beside("update-1", "update to watcher, 1 watcher"),
	beside("update-100", "update to watcher, 100 watchers"),
	beside("update-of-10000", "one of 10,000 instances changes, 20 watchers"),
	beside("registrations", "20,000 registrations over 20 connections"),
	beside("leader-killed", "leader killed to first write"),
}

func beside(name, what string) measurement {
	return measurement{name, what, nil, func(r *run, ctx context.Context) error { return r.beside(ctx, name, what) }}
}

// measurements returns those that Only chooses from.
func (c Config) measurements() []measurement {
	switch {
	case len(c.Beside) > 0 && c.KillPeers:
		return besides
	case len(c.Beside) > 0:
		return besides[:len(besides)-1]
	}
	return slices.DeleteFunc(slices.Clone(measurements), func(m measurement) bool { return c.Full != (m.sizes != nil) })
}

// Names returns the names of the measurements that Only chooses from, in their order.
func (c Config) Names() (names []string) {
	for _, m := range c.measurements() {
		names = append(names, m.name)
	}
	return names
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	names := c.Names()
	for _, name := range c.Only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("unknown measurement %q (want one of %s)", name, strings.Join(names, ", "))
		}
	}
	if least := leastRegistrations; c.MaxRegistrations != 0 && c.MaxRegistrations < least {
		return fmt.Errorf("at most %d registrations: want at least %d", c.MaxRegistrations, least)
	}
	return nil
}

// Run runs the measurements in their order. If one fails, what it has measured until
// then stays, and Run continues with the next unless ctx has ended. It returns the
// joined errors.
func Run(ctx context.Context, cfg Config) (Report, error) {
	// The collector of this process, which is the load and not what is measured, leaves
	// more of the machine to the cluster.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	start := time.Now()
	report := Report{Version: cfg.Version, At: start.UTC().Truncate(time.Millisecond), Machine: thisMachine()}
	r := &run{Config: cfg, figures: &report.Figures, rates: map[int]float64{}}
	if cfg.Cluster != nil {
		r.cluster = newCluster(cfg.Cluster)
		defer r.close()
	}
	var errs []error
	for _, m := range cfg.measurements() {
		if len(cfg.Only) > 0 && !slices.Contains(cfg.Only, m.name) {
			continue
		}
		sizes := []size{{}}
		if m.sizes != nil {
			sizes = m.sizes(cfg)
		}
		for _, s := range sizes {
			what := strings.TrimSpace(m.what + "  " + s.String())
			began := time.Now()
			fmt.Fprintf(r.Progress, "%-60s ", what)
			err := r.measure(ctx, m, s)
			report.TookMs = time.Since(start).Milliseconds()
			if ctx.Err() != nil {
				fmt.Fprintln(r.Progress, "interrupted")
				return report, ctx.Err()
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", what, err))
				fmt.Fprintf(r.Progress, "failed: %v\n", err)
				if len(cfg.Beside) > 0 && len(report.Figures) == 0 {
					return report, errs[0] // a registry does not answer
				}
				continue
			}
			fmt.Fprintf(r.Progress, "%s\n", time.Since(began).Round(100*time.Millisecond))
		}
	}
	return report, errors.Join(errs...)
}
