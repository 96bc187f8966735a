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
		!r.expect(ctx, checkStored, storedBound, healed, r.idle()) || !r.agreed(ctx) {
		return false
	}
	r.checkElections(ctx)
	return sleep.For(ctx, quietTime) == nil
}

// agreed stops the changes of the clients, and expects that each is acknowledged, and
// that then all lists show exactly what is published, at one moment.
func (r *runner) agreed(ctx context.Context) bool {
	pausing, cancel := context.WithTimeout(ctx, storedBound)
	defer cancel()
	err := r.clients.Pause(pausing)
	if err == nil {
		defer r.clients.Resume()
	}
	if ctx.Err() != nil {
		return false
	}
	unheard, since := r.oracle.Unheard(), r.elapsed()
	heard := err == nil && unheard == ""
	r.oracle.Expect(checkHeard, heard, "%s, within %s: %s (clients that still wait: %v)", healed, storedBound, unheard, err)
	return heard && r.expect(ctx, checkAgree, agreeBound, healed, func(context.Context) string { return r.oracle.Behind(since) })
}

// unserved describes why the cluster is not at rest; "": every node is ready, every
// slot is served, and the cluster is neither protected nor has a blacklist.
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
