package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// measurements are run in this order; those that need an idle cluster are
// first.
var measurements = []struct {
	name, what string
	take       func(*run, context.Context) error
}{
	{"calm", "idle cluster: memory, SQL, log lines", (*run).calm},
	{"latency", "publish to push", (*run).latency},
	{"updates", "20 updates a second", (*run).updates},
	{"registrations", "registrations from one client", (*run).registrations},
	{"tls", "the cost of TLS", (*run).tls},
	{"fan-out", "many publishers to many subscribers", (*run).fanOut},
	{"leader-killed", "leader killed", (*run).leaderKilled},
	{"leader-stopped", "leader stopped", (*run).leaderStopped},
	{"data-killed", "data node killed", (*run).dataKilled},
	{"data-drained", "data node drained", (*run).dataDrained},
	{"session-killed", "session killed", (*run).sessionKilled},
	{"session-killed-moving", "session killed while slots move", (*run).sessionKilledMoving},
	{"starts", "start to first push", (*run).starts},
}

// Names returns the names of the measurements in their order.
func Names() []string {
	var names []string
	for _, m := range measurements {
		names = append(names, m.name)
	}
	return names
}

// Known returns an error for the first name that is not a measurement's.
func Known(only []string) error {
	for _, name := range only {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("unknown measurement %q (want one of %s)", name, strings.Join(Names(), ", "))
		}
	}
	return nil
}

// Run runs the measurements in their order. If one fails, Run continues with
// the next unless ctx has ended, and returns the joined errors.
func Run(ctx context.Context, cfg Config) (Report, error) {
	defer fewerCollections()()
	cfg = cfg.withDefaults()
	if err := Known(cfg.Only); err != nil {
		return Report{}, err
	}
	start := time.Now()
	report := Report{Version: cfg.Version, At: start.UTC().Truncate(time.Millisecond), Machine: thisMachine()}
	r := &run{Config: cfg, cluster: newCluster(cfg.Cluster)}
	defer r.close()

	var errs []error
	for _, m := range measurements {
		if len(cfg.Only) > 0 && !slices.Contains(cfg.Only, m.name) {
			continue
		}
		began := time.Now()
		fmt.Fprintf(r.Progress, "%-40s ", m.what)
		err := m.take(r, ctx)
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.what, err))
			fmt.Fprintf(r.Progress, "failed: %v\n", err)
			continue
		}
		fmt.Fprintf(r.Progress, "%s\n", time.Since(began).Round(100*time.Millisecond))
	}
	report.Figures, report.TookMs = r.figures, time.Since(start).Milliseconds()
	return report, errors.Join(errs...)
}
