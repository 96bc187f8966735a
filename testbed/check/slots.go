package check

import (
	"maps"
	"slices"
	"strings"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/testbed"
)

// I5, I8, I9 and I12: which node has which slot.
var slotCheckers = []checker{
	{"I5", "a slot has one leader per leader epoch, and its epochs only rise", oneLeaderPerEpoch},
	{"I8", "a blacklisted node is granted a slot only if no allowed one has a complete copy as current, and hands it on", noneForbidden},
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

// oneLeaderPerEpoch checks that the leader epochs of a slot rise, in the tables and at each
// data node, and that one node has the slot at each.
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

// readsOnlyServed checks that a read is answered at the epoch at which its node serves.
func readsOnlyServed(h *History, v *Verdict) {
	h.onlyAt(v, map[trace.Kind]bool{trace.Serving: true, trace.Migrating: false, trace.Finished: false},
		"%s answered a read of slot %d at epoch %s, but serves at %s", trace.Read)
}

// onlyAt checks that the events of some kinds name the epoch at which the node has the
// slot: that of the last event of a kind for which has is true, none after one for
// which it is false.
func (h *History) onlyAt(v *Verdict, has map[trace.Kind]bool, format string, kinds ...trace.Kind) {
	at := map[nodeSlot]seenAt[conclave.Epoch]{} // zero epoch: it does not have it
	h.events(func(i int, now time.Duration, c trace.Claim) {
		k := nodeSlot{c.Node, c.Slot}
		if gets, changes := has[c.Kind]; changes {
			at[k] = seenAt[conclave.Epoch]{i: i}
			if gets {
				at[k] = seenAt[conclave.Epoch]{c.Epoch, i}
			}
			return
		}
		s, known := at[k]
		v.check(s.v == c.Epoch && !c.Epoch.IsZero() || h.Joined && !known, h, now, []int{s.i, i}, format, c.Node, c.Slot, c.Epoch, s.v)
	}, slices.Concat(slices.Collect(maps.Keys(has)), kinds)...)
}

// tablesConverge checks that nodes that no fault has affected use a new table
// at most a lease and a second after the first node (a leader may crash while
// it sends the table).
func tablesConverge(h *History, v *Verdict) {
	faults := h.faultSpans()
	limit := h.Cluster.Lease + time.Second
	began := map[conclave.Epoch]seenAt[time.Duration]{}
	var epochs []conclave.Epoch
	held := map[conclave.NodeID]conclave.Epoch{}
	worst := time.Duration(0)
	h.events(func(i int, at time.Duration, c trace.Claim) {
		if _, known := began[c.Epoch]; !known {
			began[c.Epoch] = seenAt[time.Duration]{at, i}
			epochs = append(epochs, c.Epoch)
		}
		before := held[c.Node]
		held[c.Node] = c.Epoch
		if before.IsZero() || c.Node.Name == "" || at < 0 {
			return // the node starts
		}
		// For how long had another node used a newer table than this one?
		var next seenAt[time.Duration]
		for _, e := range epochs {
			if before.Less(e) && (next.i == 0 || began[e].i < next.i) {
				next = began[e]
			}
		}
		lag := at - next.v
		if next.i == 0 || faults.any(next.v-h.Cluster.Lease, at, c.Node.Name, "", testbed.Database) {
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

// blacklist is one list of names that was written.
type blacklist struct {
	epoch   conclave.Epoch
	names   []string
	unknown bool // the answer of the write was lost: it may be in force, or not
	i       int
}

// blacklists returns the lists in the order of their epochs. A list whose write
// was confirmed later comes after the entry of the lost answer.
func (h *History) blacklists() []blacklist {
	var lists []blacklist
	for _, s := range h.statements(trace.Writing) {
		if s.before.Subject == "blacklist" && (s.done < 0 || s.after.Err != nil) {
			lists = append(lists, blacklist{epoch: s.before.Epoch, unknown: true, i: s.call})
		}
	}
	h.events(func(i int, _ time.Duration, c trace.Claim) {
		lists = append(lists, blacklist{epoch: c.Epoch, names: strings.Split(c.Key, ","), i: i})
	}, trace.Listed)
	slices.SortStableFunc(lists, func(a, b blacklist) int { return a.epoch.Compare(b.epoch) })
	return lists
}

// tableSlot identifies one row of one written table.
type tableSlot struct {
	table conclave.Epoch
	slot  int
}

// copies returns which copies the leader knew when it wrote a table that grants
// the slot of a dead leader; the first is that of the node that is granted the
// slot. If a write is repeated, its last report counts. Claims whose first one
// could not be written to a trace file are left out; partial is of how many grants.
func (h *History) copies() (_ map[tableSlot][]seenAt[trace.Claim], partial int) {
	out, headless := map[tableSlot][]seenAt[trace.Claim]{}, map[tableSlot]bool{}
	h.events(func(i int, _ time.Duration, c trace.Claim) {
		k := tableSlot{c.Base, c.Slot}
		switch {
		case c.Flag:
			out[k] = nil
			delete(headless, k)
		case out[k] == nil:
			headless[k] = true // which node was chosen is not known
			return
		}
		out[k] = append(out[k], seenAt[trace.Claim]{c, i})
	}, trace.Copied)
	return out, len(headless)
}

// complete reports whether a node has a complete copy of a slot.
func complete(c trace.Claim) bool {
	switch slot.ReportState(c.Key) {
	case slot.CaughtUp, slot.Serving, slot.Finished:
		return true
	}
	return false
}

// I8: a node on the blacklist gets the slot of a dead leader only if it has a complete
// copy, and no allowed node has one of the same leader epoch, or a newer one, that is
// at most slot.MaxLagMs behind it. It hands the slot on.
func noneForbidden(h *History, v *Verdict) {
	lists, grants := h.blacklists(), h.grants()
	copies, _ := h.copies()
	leader := map[int]conclave.NodeID{}
	for n, g := range grants {
		was, known := leader[g.v.Slot]
		leader[g.v.Slot] = g.v.Peer
		in := len(lists)
		for in > 0 && g.v.Base.Less(lists[in-1].epoch) {
			in--
		}
		if in == 0 {
			v.check(true, h, h.Entries[g.i].At, nil, "") // there was no blacklist yet
			continue
		}
		// A restarted node gets back the slots of its name; that is no new
		// grant.
		list := lists[in-1]
		if list.unknown || was.Name == g.v.Peer.Name || h.Joined && !known || !slices.Contains(list.names, g.v.Peer.Name) {
			v.check(true, h, h.Entries[g.i].At, nil, "")
			continue
		}
		at := max(h.Entries[g.i].At, h.Entries[list.i].At) // when both were recorded
		held := copies[tableSlot{g.v.Base, g.v.Slot}]
		if len(held) == 0 || held[0].v.Peer != g.v.Peer || !complete(held[0].v) {
			v.check(false, h, at, []int{list.i, g.i}, "slot %d is granted to %s, which the blacklist of %s names, and which has no complete copy", g.v.Slot, g.v.Peer, list.epoch)
			continue
		}
		mine := held[0].v
		for _, k := range held[1:] {
			better := complete(k.v) && !k.v.Epoch.Less(mine.Epoch) && k.v.Count <= mine.Count+slot.MaxLagMs
			v.check(!better || slices.Contains(list.names, k.v.Peer.Name), h, at, []int{list.i, held[0].i, k.i, g.i},
				"slot %d is granted to %s, which the blacklist of %s names, although %s has a complete copy", g.v.Slot, g.v.Peer, list.epoch, k.v.Peer)
		}
		h.handedOn(v, lists[in-1:], grants[n:])
	}
}

// handedOn checks that a slot that was granted to a node on the blacklist, by
// the first of grants under the first of lists, is handed over within two
// leases and ten seconds in which no fault begins, ends or lasts and protection
// is off, as long as the node runs and is on the blacklist, and a data node
// runs that is not on it.
func (h *History) handedOn(v *Verdict, lists []blacklist, grants []seenAt[trace.Claim]) {
	g := grants[0]
	name := g.v.Peer.Name
	until := h.End()
	for _, next := range grants[1:] {
		if next.v.Slot == g.v.Slot {
			until = min(until, h.Entries[next.i].At)
			break
		}
	}
	for _, l := range lists[1:] {
		if l.unknown {
			return // the node may have been removed from the list
		}
		if !slices.Contains(l.names, name) {
			until = min(until, h.Entries[l.i].At)
			break
		}
	}
	bound := 2*h.Cluster.Lease + 10*time.Second
	quiet := h.Entries[g.i].At // since when no obstacle exists
	for _, s := range h.obstacles(name, lists) {
		if s.from <= quiet+bound && s.to > quiet {
			quiet = s.to
		}
	}
	v.check(until-quiet <= bound, h, until, []int{lists[0].i, g.i}, "slot %d, which was granted to %s for its last complete copy, is still led by it after %s without a fault", g.v.Slot, g.v.Peer, until-quiet)
}

// obstacles returns the times in which the named node need not hand a slot
// over, in the order in which they begin: faults, protection, times without a
// leader, and times in which the node does not run or no data node runs that is
// not on the blacklist. The crash of a node counts only at its moment.
func (h *History) obstacles(name string, lists []blacklist) []span {
	var out []span
	open := map[string]int{} // fault -> index in out
	h.faults(func(_ int, at time.Duration, x Fault) {
		k := x.Action.Key()
		if i, lasts := open[k]; lasts && x.Action.EndsFault() {
			out[i].to = at
			delete(open, k)
		}
		switch x.Verb {
		case testbed.Forbid, testbed.Allow:
			return // these are what is checked
		}
		s := span{at, at + 1}
		if x.Verb.Undo() != "" && !x.Action.EndsFault() && x.Verb != testbed.Kill && x.Verb != testbed.Stop {
			if _, twice := open[k]; twice {
				return
			}
			open[k], s.to = len(out), h.End()
		}
		out = append(out, s)
	})
	forbidden := func(n string, at time.Duration) (is bool) {
		for _, l := range lists {
			if !l.unknown && h.Entries[l.i].At <= at {
				is = slices.Contains(l.names, n)
			}
		}
		return is
	}
	out = append(out, h.observed(func(at time.Duration, o Observation) bool {
		other := func(n string) bool { return n != name && strings.HasPrefix(n, "data-") && !forbidden(n, at) }
		return o.Frozen || o.Leader == "" || !slices.Contains(o.Up, name) || !slices.ContainsFunc(o.Up, other)
	})...)
	slices.SortStableFunc(out, func(a, b span) int { return int(a.from - b.from) })
	return out
}
