package slot

import (
	"cmp"
	"slices"

	"conclave"
)

// replacement returns the node that gets the slot of a dead leader, and why, or the
// zero NodeID if the slot has to wait.
func (a *planner) replacement(s Slot) (n conclave.NodeID, why string) {
	restarted := a.live[s.Leader.Name]
	if a.in.Frozen && restarted.IsZero() {
		return conclave.NodeID{}, "" // a leader that is only missing may still serve
	}
	// 1. A complete copy in the row (see bestCopy). That of a forbidden node only if no
	// allowed node has one as current: drain hands the slot on as soon as it serves.
	holders := those(s.Holders()[1:], a.up)
	if best := a.bestCopy(s, holders); !best.IsZero() {
		if a.forbidden[best.Name] {
			return best, "leader lost, last complete copy"
		}
		return best, "leader lost, best copy"
	}
	// 2. No node, while a holder has not reported: its first report or the end of its
	// lease is still to come, and it may have the missing copy.
	if slices.ContainsFunc(holders, func(n conclave.NodeID) bool { return a.silent[n] }) {
		return conclave.NodeID{}, ""
	}
	// 3. In a frozen table, whose slots stay with the nodes of their rows, the newer
	// incarnation of the leader: it proves that the memory of the old one is lost.
	if a.in.Frozen {
		if a.mayHold(restarted) {
			return restarted, "leader restarted while frozen"
		}
		return conclave.NodeID{}, ""
	}
	// 4. An allowed node: the holder that has loaded most, or the node that leads the
	// fewest slots. An unheard node leads few because it cannot serve them, and counts
	// only if every allowed node is unheard.
	for _, may := range [...]func(conclave.NodeID) bool{a.mayLead, a.mayHold} {
		if loading := those(holders, may); len(loading) > 0 {
			return slices.MinFunc(loading, func(m, n conclave.NodeID) int { return a.compareCopies(s, m, n) }), "leader lost, best copy"
		}
		if n := a.fewest(a.leads, s, may); !n.IsZero() {
			return n, "leader lost, no copy left"
		}
	}
	return conclave.NodeID{}, ""
}

// heardCopy returns the node that gets the slot of a live leader that sessions do
// not hear, or the zero NodeID: only a complete copy is better than waiting.
func (a *planner) heardCopy(s Slot) (n conclave.NodeID, why string) {
	return a.bestCopy(s, those(s.Holders()[1:], a.mayLead)), "leader unheard, best copy"
}

// bestCopy returns the holder with the best complete copy of s, or the zero
// NodeID if no copy is complete. It is one of the newest leader epoch that lags at
// most MaxLagMs, a second, behind the least. Positions come from the nodes' last
// heartbeats, which were not sent at the same moment, so whether a node may lead
// comes first: it takes the furthest copy of the other live holders (data/source.go).
func (a *planner) bestCopy(s Slot, holders []conclave.NodeID) conclave.NodeID {
	var newest conclave.Epoch // older leaderships do not count
	for _, n := range holders {
		if r := a.report(s.ID, n); r.complete() && newest.Less(r.Epoch) {
			newest = r.Epoch
		}
	}
	copies := those(holders, func(n conclave.NodeID) bool {
		r := a.report(s.ID, n)
		return r.complete() && r.Epoch == newest
	})
	if len(copies) == 0 {
		return conclave.NodeID{}
	}
	lag := func(n conclave.NodeID) int64 { return a.report(s.ID, n).LagMs }
	least := lag(slices.MinFunc(copies, func(m, n conclave.NodeID) int { return cmp.Compare(lag(m), lag(n)) }))
	current := those(copies, func(n conclave.NodeID) bool { return lag(n) <= least+MaxLagMs })
	return slices.MinFunc(current, func(m, n conclave.NodeID) int {
		return cmp.Or(compareBool(a.mayLead(n), a.mayLead(m)), compareBool(a.mayHold(n), a.mayHold(m)), a.compareCopies(s, m, n))
	})
}

// those returns the nodes that fit.
func those(nodes []conclave.NodeID, fit func(conclave.NodeID) bool) (out []conclave.NodeID) {
	for _, n := range nodes {
		if fit(n) {
			out = append(out, n)
		}
	}
	return out
}

// compareCopies orders the copy of s with the newer leader epoch first, then
// the one that is further in the feed, then the one on the node that leads
// fewer slots.
func (a *planner) compareCopies(s Slot, m, n conclave.NodeID) int {
	p, q := a.report(s.ID, m), a.report(s.ID, n)
	return cmp.Or(
		q.Epoch.Compare(p.Epoch),
		cmp.Compare(q.Position, p.Position),
		cmp.Compare(a.leads[m], a.leads[n]),
		m.Compare(n),
	)
}

// completeSince returns the number of allowed followers of s with a complete
// copy of the given leader epoch or a newer one.
func (a *planner) completeSince(s Slot, epoch conclave.Epoch) (n int) {
	for _, f := range a.keptFollowers(s) {
		if r := a.report(s.ID, f); r.complete() && !r.Epoch.Less(epoch) {
			n++
		}
	}
	return n
}
