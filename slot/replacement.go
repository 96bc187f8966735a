package slot

import (
	"cmp"
	"slices"

	"conclave"
)

// Choosing the replacement: the node that gets the slot of a leader that is dead or unheard.

// replacement returns the node that gets the slot of a lost leader, and why, or
// the zero NodeID if the slot has to wait. It chooses the first of:
//
//  1. One of the complete copies in the row, see bestCopy. A forbidden node is
//     chosen only if no allowed node has such a copy; drain hands the slot on as
//     soon as the node serves.
//  2. No node, while a holder has not reported: its first report or the end of
//     its lease is still to come, and it may have the missing copy.
//  3. An allowed node that is loading a copy: the one that has got furthest.
//  4. The allowed node that leads the fewest slots.
//
// For 3 and 4 an unheard node counts only if every allowed node is unheard: it
// leads few slots because it cannot serve them. Its copy stays in the row.
//
// If the table is frozen, a slot stays with the nodes of its row. It waits until
// its leader's node is back: a leader that is only missing may still serve. A
// newer incarnation proves that the old one's memory is lost; then the first of
// these is chosen: a complete copy, no node while a holder has not reported, the
// newer incarnation.
func (a *arranger) replacement(s Slot) (n conclave.NodeID, why string) {
	own := a.live[s.Leader.Name]
	if a.in.Frozen && own.IsZero() {
		return conclave.NodeID{}, ""
	}
	holders := slices.DeleteFunc(s.Holders()[1:], func(n conclave.NodeID) bool { return !a.up(n) })
	if best := a.bestCopy(s, holders); !best.IsZero() {
		if a.forbidden[best.Name] {
			return best, "leader lost, last complete copy"
		}
		return best, "leader lost, best copy"
	}
	if slices.ContainsFunc(holders, func(n conclave.NodeID) bool { return a.silent[n] }) {
		return conclave.NodeID{}, ""
	}
	if a.in.Frozen {
		if a.mayHold(own) {
			return own, "leader restarted while frozen"
		}
		return conclave.NodeID{}, ""
	}
	for _, may := range [...]func(conclave.NodeID) bool{a.mayLead, a.mayHold} {
		loading := slices.DeleteFunc(slices.Clone(holders), func(n conclave.NodeID) bool { return !may(n) })
		if len(loading) > 0 {
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
func (a *arranger) heardCopy(s Slot) (n conclave.NodeID, why string) {
	return a.bestCopy(s, slices.DeleteFunc(s.Holders()[1:], func(n conclave.NodeID) bool { return !a.mayLead(n) })), "leader unheard, best copy"
}

// bestCopy returns the holder with the best complete copy of s, or the zero
// NodeID if no copy is complete. Only copies of the newest leader epoch are
// considered, and of these only copies whose lag is at most MaxLagMs above the
// smallest one. Among the rest a node that may lead is preferred to one that is
// unheard, and that to one that is forbidden, whatever their positions: positions
// come from the nodes' last heartbeats, which were not sent at the same moment.
// The node that is chosen takes the furthest copy of the row's other live holders
// (data/source.go).
func (a *arranger) bestCopy(s Slot, holders []conclave.NodeID) conclave.NodeID {
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
		return cmp.Or(compareBool(a.mayLead(n), a.mayLead(m)), compareBool(a.mayHold(n), a.mayHold(m)), a.compareCopies(s, m, n))
	})
}

// compareCopies orders the copy of s with the newer leader epoch first, then
// the one that is further in the feed, then the one on the node that leads
// fewer slots.
func (a *arranger) compareCopies(s Slot, m, n conclave.NodeID) int {
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
func (a *arranger) completeSince(s Slot, epoch conclave.Epoch) (n int) {
	for _, f := range a.keptFollowers(s) {
		if r := a.report(s.ID, f); r.complete() && !r.Epoch.Less(epoch) {
			n++
		}
	}
	return n
}
