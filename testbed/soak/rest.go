package soak

import (
	"context"
	"slices"
	"strings"
	"time"

	"conclave/internal/sleep"
	"conclave/testbed"
)

// rest expects, one after the other, what a healed cluster must reach, each
// within its bound. It returns false if something was not reached, which ends the
// run. Violations in pushes do not end it.
func (r *Runner) rest(ctx context.Context) bool {
	led := r.led(ctx)
	if ctx.Err() != nil {
		return false
	}
	r.oracle.Expect(checkLeader, led, "no leader within %s", leaderBound)
	if !led || !r.served(ctx) || !r.stored(ctx) || !r.agreed(ctx) {
		return false
	}
	if history, err := r.elections(ctx); err == nil {
		r.oracle.Elected(history)
	}
	return sleep.For(ctx, quietTime) == nil
}

// served waits until every node is ready and every slot is served.
func (r *Runner) served(ctx context.Context) bool {
	why := ""
	ok := r.await(ctx, servedBound, func(ctx context.Context) bool {
		why = r.unserved(r.cluster.Observe(ctx))
		return why == ""
	})
	if ctx.Err() != nil {
		return false
	}
	r.oracle.Expect(checkServed, ok, "within %s after healing: %s", servedBound, why)
	return ok
}

// unserved describes why the cluster is not at rest; "": every node is ready, every
// slot is served, and no command of an operator is in effect.
func (r *Runner) unserved(now testbed.Snapshot) string {
	for _, name := range r.size().Nodes() {
		if !slices.Contains(now.Ready, name) {
			return name + " is not ready"
		}
	}
	switch {
	case len(now.Table.Slots) == 0:
		return "there is no slot table"
	case !now.Table.StableAll():
		return "the slot table is not stable"
	case now.Frozen:
		return "the cluster is protected"
	case len(now.Forbid) > 0:
		return "on the blacklist: " + strings.Join(now.Forbid, ", ")
	}
	return ""
}

// stored publishes and reads with new clients.
func (r *Runner) stored(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, storedBound)
	defer cancel()
	where, err := r.load.probe(limited)
	if ctx.Err() != nil {
		return false
	}
	r.oracle.Expect(checkStored, err == nil, "within %s after healing: %s: %v", storedBound, where, err)
	return err == nil
}

// agreed stops the changes of the load and compares what every subscriber sees
// with what is published.
func (r *Runner) agreed(ctx context.Context) bool {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, storedBound)
	defer cancel()
	defer r.load.gate.open()
	left := r.load.gate.close(limited)
	if ctx.Err() != nil {
		return false
	}
	r.oracle.Expect(checkStored, left == 0, "%d clients of the load still wait for an acknowledgement %s after healing", left, storedBound)
	behind := ""
	ok := r.await(ctx, agreeBound, func(context.Context) bool { behind = r.oracle.Behind(); return behind == "" })
	if ctx.Err() != nil {
		return false
	}
	r.oracle.Expect(checkAgree, ok, "%s after healing, without changes: %s", time.Since(began).Round(time.Second), behind)
	return ok && left == 0
}
