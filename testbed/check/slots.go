package check

import (
	"slices"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/testbed"
)

// I5, I8, I9 and I12: which node has which slot.
var slotCheckers = []checker{
	{"I5", "a slot has one leader per leader epoch, and its epochs only rise", oneLeaderPerEpoch},
	{"I8", "a blacklisted node is granted a slot only if it has the last complete copy, and hands it over", noneForbidden},
	{"I9", "a slot that may not serve answers no read", readsOnlyServed},
	{"I12", "two slot tables coexist for a bounded time", tablesConverge},
}

// grants returns the Granted events in the order of the tables that made them.
// A table is written under a compare-and-swap, so its epoch orders it, whenever
// its writer received the answer.
func (h *History) grants() []seenAt[trace.Claim] {
	var out []seenAt[trace.Claim]
	h.events(func(i int, _ time.Duration, c trace.Claim) { out = append(out, seenAt[trace.Claim]{c, i}) }, trace.Granted)
	slices.SortStableFunc(out, func(a, b seenAt[trace.Claim]) int { return a.v.Base.Compare(b.v.Base) })
	return out
}

func oneLeaderPerEpoch(h *History, v *Verdict) {
	owner := map[slotEpoch]seenAt[conclave.NodeID]{}
	record := func(k slotEpoch, n conclave.NodeID, i int) {
		first, known := owner[k]
		v.check(!known || first.v == n, h, h.Entries[i].At, []int{first.i, i}, "slot %d is led at epoch %s by %s and by %s", k.slot, k.epoch, first.v, n)
		if !known {
			owner[k] = seenAt[conclave.NodeID]{n, i}
		}
	}
	last := map[int]seenAt[conclave.Epoch]{}
	for _, g := range h.grants() {
		before := last[g.v.Slot]
		v.check(before.v.Less(g.v.Epoch), h, h.Entries[g.i].At, []int{before.i, g.i}, "slot %d goes from leader epoch %s to %s", g.v.Slot, before.v, g.v.Epoch)
		last[g.v.Slot] = seenAt[conclave.Epoch]{g.v.Epoch, g.i}
		record(slotEpoch{g.v.Slot, g.v.Epoch}, g.v.Peer, g.i)
	}
	at := map[nodeSlot]seenAt[conclave.Epoch]{}
	h.events(func(i int, now time.Duration, c trace.Claim) {
		k := nodeSlot{c.Node, c.Slot}
		before := at[k]
		v.check(!c.Epoch.Less(before.v), h, now, []int{before.i, i}, "%s goes back from epoch %s to %s in slot %d", c.Node, before.v, c.Epoch, c.Slot)
		at[k] = seenAt[conclave.Epoch]{c.Epoch, i}
		record(slotEpoch{c.Slot, c.Epoch}, c.Node, i)
	}, trace.Migrating, trace.Serving)
}

func readsOnlyServed(h *History, v *Verdict) {
	serving := map[nodeSlot]seenAt[conclave.Epoch]{} // zero epoch: not serving
	h.events(func(i int, at time.Duration, c trace.Claim) {
		k := nodeSlot{c.Node, c.Slot}
		switch c.Kind {
		case trace.Serving:
			serving[k] = seenAt[conclave.Epoch]{c.Epoch, i}
		case trace.Migrating, trace.Finished:
			serving[k] = seenAt[conclave.Epoch]{i: i}
		case trace.Read:
			s, known := serving[k]
			v.check(s.v == c.Epoch && !c.Epoch.IsZero() || h.Joined && !known, h, at, []int{s.i, i}, "%s answered a read of slot %d at epoch %s, but serves at %s", c.Node, c.Slot, c.Epoch, s.v)
		}
	}, trace.Serving, trace.Migrating, trace.Finished, trace.Read)
}

// tablesConverge checks that nodes that no fault has affected use a new table
// at most a lease and a second after the first node (a leader may crash while
// it sends the table).
func tablesConverge(h *History, v *Verdict) {
	faults := h.faultSpans()
	limit := h.Cluster.Lease + time.Second
	type first struct {
		at time.Duration
		i  int
	}
	began := map[conclave.Epoch]first{}
	var epochs []conclave.Epoch
	held := map[conclave.NodeID]conclave.Epoch{}
	worst := time.Duration(0)
	h.events(func(i int, at time.Duration, c trace.Claim) {
		if _, known := began[c.Epoch]; !known {
			began[c.Epoch] = first{at, i}
			epochs = append(epochs, c.Epoch)
		}
		before := held[c.Node]
		held[c.Node] = c.Epoch
		if before.IsZero() || c.Node.Name == "" || at < 0 {
			return // the node starts
		}
		// For how long had another node used a newer table than this one?
		var next first
		for _, e := range epochs {
			if before.Less(e) && (next.i == 0 || began[e].i < next.i) {
				next = began[e]
			}
		}
		lag := at - next.at
		if next.i == 0 || faults.any(next.at-h.Cluster.Lease, at, c.Node.Name, "", testbed.Database) {
			return
		}
		worst = max(worst, lag)
		v.check(lag <= limit, h, at, []int{next.i, i}, "%s used table %s for %s while others had a newer one", c.Node, before, lag)
	}, trace.Took)
	v.show("longest: %s", worst.Round(time.Millisecond))
}

// L21: by what the leader of the metas knew, the node that is granted the slot of
// a dead leader has the newest complete copy of the live nodes in the row, with
// the allowance for the lag, if one of them has a complete copy.
func completeCopiesLead(h *History, v *Verdict) {
	copies, partial := h.copies()
	if partial > 0 {
		v.show("grants not checked, because the claim about the chosen copy is lost: %d", partial)
	}
	for _, known := range copies {
		chosen := known[0]
		v.check(true, h, h.Entries[known[len(known)-1].i].At, nil, "")
		for _, other := range known[1:] {
			better := !complete(chosen.v) || chosen.v.Epoch.Less(other.v.Epoch) ||
				chosen.v.Epoch == other.v.Epoch && chosen.v.Count > other.v.Count+slot.MaxLagMs
			v.check(!complete(other.v) || !better, h, h.Entries[max(chosen.i, other.i)].At, []int{other.i, chosen.i},
				"slot %d is granted to %s, whose copy is %s, of %s and %d ms behind, although that of %s is %s, of %s and %d ms behind",
				chosen.v.Slot, chosen.v.Peer, chosen.v.Key, chosen.v.Epoch, chosen.v.Count, other.v.Peer, other.v.Key, other.v.Epoch, other.v.Count)
		}
	}
}

// serveLimit bounds how long a slot that was granted is not served while a
// session cannot be dialled: the migration waits for its source or its holders,
// then for that session (docs/adr/0035), and asks it once in a while.
func (h *History) serveLimit() time.Duration { return h.Cluster.Lease + SessionGrace + 5*time.Second }

// L20: a slot that was granted is served in time, or granted again, if from the
// grant until then no fault begins or ends, only data nodes and sessions are lost
// and ports closed, and some session is not affected: a data node that no session
// answers gives none up.
func grantedSlotsServe(h *History, v *Verdict) {
	waiting := map[int]seenAt[trace.Claim]{}
	calm := h.steady()
	judge := func(id int, until time.Duration) {
		g, ok := waiting[id]
		if from := h.Entries[g.i].At; ok && from+h.serveLimit() <= h.End() && calm(from, from+h.serveLimit()) {
			v.check(until <= from+h.serveLimit(), h, until, []int{g.i}, "%s does not serve slot %d at epoch %s within %s", g.v.Node, id, g.v.Epoch, h.serveLimit())
		}
		delete(waiting, id)
	}
	h.events(func(i int, at time.Duration, c trace.Claim) {
		if c.Epoch.Less(waiting[c.Slot].v.Epoch) {
			return
		}
		judge(c.Slot, at)
		if c.Kind == trace.Migrating {
			waiting[c.Slot] = seenAt[trace.Claim]{c, i}
		}
	}, trace.Migrating, trace.Serving)
	for id := range waiting {
		judge(id, h.End())
	}
}
