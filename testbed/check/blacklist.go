package check

import (
	"slices"
	"strings"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/testbed"
)

// I8: a node on the blacklist gets the slot of a dead leader only if it has the
// last complete copy, and hands it over.

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

func noneForbidden(h *History, v *Verdict) {
	lists, grants := h.blacklists(), h.grants()
	copies, _ := h.copies()
	holder := map[int]conclave.NodeID{}
	for n, g := range grants {
		was, known := holder[g.v.Slot]
		holder[g.v.Slot] = g.v.Peer
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
