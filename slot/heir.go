package slot

import (
	"cmp"
	"slices"

	"conclave"
)

// Which node leads a slot whose leader has died.

// heir returns the node that gets the slot of a dead leader, or the zero NodeID
// if the slot has to wait:
//
//  1. one of the complete copies in the row, see best. A forbidden node gets the
//     slot if, and only if, no allowed node has such a copy; drain hands it on as
//     soon as it serves.
//  2. Nobody, while a holder is silent: its first report is on its way, or its
//     lease ends, and it may have the copy that is missing.
//  3. an allowed node that is still loading a copy: the furthest
//  4. the allowed node that leads least
//
// A frozen table lets only the dead leader's own newer incarnation inherit.
func (a *arranger) heir(s Slot) (heir conclave.NodeID, why string) {
	if a.in.Frozen {
		if own := a.live[s.Leader.Name]; a.mayHold(own) {
			return own, "leader restarted while frozen"
		}
		return conclave.NodeID{}, ""
	}
	holders := slices.DeleteFunc(s.Holders()[1:], func(n conclave.NodeID) bool { return !a.up(n) })
	if best := a.best(s, holders); !best.IsZero() {
		if a.forbidden[best.Name] {
			return best, "leader lost, last complete copy"
		}
		return best, "leader lost, best copy"
	}
	if slices.ContainsFunc(holders, func(n conclave.NodeID) bool { return a.silent[n] }) {
		return conclave.NodeID{}, ""
	}
	holders = slices.DeleteFunc(holders, func(n conclave.NodeID) bool { return a.forbidden[n.Name] })
	if len(holders) > 0 {
		return slices.MinFunc(holders, func(m, n conclave.NodeID) int { return a.compareCopies(s, m, n) }), "leader lost, best copy"
	}
	return a.fewest(a.leads, s, func(conclave.NodeID) bool { return true }), "leader lost, no copy left"
}

// best returns the holder with the best complete copy of s, or the zero NodeID
// if none is complete. Copies of the newest leader epoch are better than all
// others; of these, a copy that was not read further for more than MaxLagMs
// longer than another one's is worse than that one. Among the rest an allowed
// node comes before a forbidden one, whatever their positions: they are those of
// the nodes' last beats, which are not of the same moment.
func (a *arranger) best(s Slot, holders []conclave.NodeID) conclave.NodeID {
	var newest conclave.Epoch
	for _, n := range holders {
		if r := a.report(s.ID, n); r.complete() && newest.Less(r.Epoch) {
			newest = r.Epoch
		}
	}
	copies := slices.DeleteFunc(slices.Clone(holders), func(n conclave.NodeID) bool {
		r := a.report(s.ID, n)
		return !r.complete() || r.Epoch != newest
	})
	if len(copies) == 0 {
		return conclave.NodeID{}
	}
	lag := func(n conclave.NodeID) int64 { return a.report(s.ID, n).LagMs }
	least := lag(slices.MinFunc(copies, func(m, n conclave.NodeID) int { return cmp.Compare(lag(m), lag(n)) }))
	copies = slices.DeleteFunc(copies, func(n conclave.NodeID) bool { return lag(n) > least+MaxLagMs })
	return slices.MinFunc(copies, func(m, n conclave.NodeID) int {
		return cmp.Or(compareBool(a.forbidden[m.Name], a.forbidden[n.Name]), a.compareCopies(s, m, n))
	})
}

// compareCopies puts the copy of s first that is of the newer leader epoch, then
// the one that is further in its feed; among equals the node that leads less.
func (a *arranger) compareCopies(s Slot, m, n conclave.NodeID) int {
	p, q := a.report(s.ID, m), a.report(s.ID, n)
	return cmp.Or(
		q.Epoch.Compare(p.Epoch),
		cmp.Compare(q.Position, p.Position),
		cmp.Compare(a.leads[m], a.leads[n]),
		m.Compare(n),
	)
}

// completeSince counts the allowed followers of s with a complete copy of the
// given leader epoch or a newer one.
func (a *arranger) completeSince(s Slot, epoch conclave.Epoch) (n int) {
	for _, f := range a.keptFollowers(s) {
		if r := a.report(s.ID, f); r.complete() && !r.Epoch.Less(epoch) {
			n++
		}
	}
	return n
}
