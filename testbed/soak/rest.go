package soak

import (
	"context"
	"strings"
	"time"

	"conclave/internal/sleep"
)

// rest expects, one after the other, what a healed cluster must reach, each
// within its bound. It returns false if something was not reached, which ends the
// run. Violations in pushes do not end it.
func (r *Runner) rest(ctx context.Context) bool {
	if !r.served(ctx) || !r.stored(ctx) || !r.agreed(ctx) {
		return false
	}
	if history, err := r.operator.elections(ctx); err == nil {
		r.oracle.Elected(history)
	}
	return sleep.For(ctx, quietTime) == nil
}

// served waits until every node is ready and every slot is served.
func (r *Runner) served(ctx context.Context) bool {
	why := ""
	ok := r.await(ctx, servedBound, func(ctx context.Context) bool {
		if not := r.operator.notReady(ctx); len(not) > 0 {
			why = "not ready: " + strings.Join(not, ", ")
			return false
		}
		slots, err := r.operator.slots(ctx)
		if err != nil {
			why = err.Error()
			return false
		}
		why = slots.unserved()
		return why == ""
	})
	if ctx.Err() != nil {
		return false
	}
	r.oracle.Expect(checkServed, ok, "within %s after healing: %s", servedBound, why)
	return ok
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
