package soak

import (
	"context"
	"slices"
	"strings"

	"conclave/internal/sleep"
	"conclave/testbed"
)

const healed = "after healing"

// rest expects, one after the other, what a healed cluster must reach, each within its
// bound. It returns false if something was not reached, which ends the run. Violations
// in pushes do not end it.
func (r *runner) rest(ctx context.Context) bool {
	served := func(ctx context.Context) string { return unserved(r.cluster.Observe(ctx), r.size().Nodes()) }
	if !r.expect(ctx, checkLeader, leaderBound, healed, r.leaderMissing) || !r.expect(ctx, checkServed, servedBound, healed, served) ||
		!r.expect(ctx, checkStored, storedBound, healed, r.idle()) {
		return false
	}
	since := r.elapsed()
	if !r.expect(ctx, checkAgree, agreeBound, healed, func(context.Context) string { return r.oracle.Behind(since) }) {
		return false
	}
	r.checkElections(ctx)
	return sleep.For(ctx, quietTime) == nil
}

// unserved describes why the cluster is not at rest; "": every node is ready, every
// slot is served, and no command of an operator is in effect.
func unserved(now testbed.Snapshot, nodes []string) string {
	for _, name := range nodes {
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
