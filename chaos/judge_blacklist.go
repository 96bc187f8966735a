package chaos

import (
	"slices"
	"strings"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
)

// I8: a node on the blacklist gets the slot of a dead leader only as its last
// complete copy, and hands it on.

// blacklist is one written list of names.
type blacklist struct {
	epoch  conclave.Epoch
	names  []string
	untold bool // a write whose answer was lost: it may be the list, or not
	i      int
}

// blacklists are in the order of their epochs: a list that was reported after all
// comes behind its write.
func (h *History) blacklists() []blacklist {
	var lists []blacklist
	for _, s := range h.statements(trace.Writing) {
		if s.before.Subject == "blacklist" && (s.done < 0 || s.after.Err != nil) {
			lists = append(lists, blacklist{epoch: s.before.Epoch, untold: true})
		}
	}
	h.claims(func(i int, _ time.Duration, c trace.Claim) {
		lists = append(lists, blacklist{epoch: c.Epoch, names: strings.Split(c.Key, ","), i: i})
	}, trace.Listed)
	slices.SortStableFunc(lists, func(a, b blacklist) int { return a.epoch.Compare(b.epoch) })
	return lists
}

// tableSlot is one row of one written table.
type tableSlot struct {
	table conclave.Epoch
	slot  int
}

// copies are what a leader knew when it wrote a table that gives a slot to a node
// on the blacklist. A write that is repeated says it again: the last one counts.
func (h *History) copies() map[tableSlot][]seenAt[trace.Claim] {
	out := map[tableSlot][]seenAt[trace.Claim]{}
	h.claims(func(i int, _ time.Duration, c trace.Claim) {
		k := tableSlot{c.Base, c.Slot}
		if c.Flag {
			out[k] = nil
		}
		out[k] = append(out[k], seenAt[trace.Claim]{c, i})
	}, trace.Copied)
	return out
}

func complete(c trace.Claim) bool {
	switch slot.ReportState(c.Key) {
	case slot.CaughtUp, slot.Serving, slot.Finished:
		return true
	}
	return false
}

func noneForbidden(h *History, v *Verdict) {
	lists, copies, grants := h.blacklists(), h.copies(), h.grants()
	holder := map[int]conclave.NodeID{}
	for n, g := range grants {
		was := holder[g.v.Slot]
		holder[g.v.Slot] = g.v.Peer
		in := len(lists)
		for in > 0 && g.v.Base.Less(lists[in-1].epoch) {
			in--
		}
		if in == 0 {
			v.Checks++ // nothing was forbidden yet
			continue
		}
		// A node that restarts is bound again to what its name had: nothing is given.
		list := lists[in-1]
		if list.untold || was.Name == g.v.Peer.Name || !slices.Contains(list.names, g.v.Peer.Name) {
			v.Checks++
			continue
		}
		known := copies[tableSlot{g.v.Base, g.v.Slot}]
		if len(known) == 0 || known[0].v.Peer != g.v.Peer || !complete(known[0].v) {
			v.check(false, h, h.Entries[g.i].At, []int{list.i, g.i}, "slot %d is given to %s, which the blacklist of %s names, and which has no complete copy", g.v.Slot, g.v.Peer, list.epoch)
			continue
		}
		mine := known[0].v
		for _, k := range known[1:] {
			better := complete(k.v) && !k.v.Epoch.Less(mine.Epoch) && k.v.Count <= mine.Count+slot.MaxLagMs
			v.check(!better || slices.Contains(list.names, k.v.Peer.Name), h, h.Entries[g.i].At, []int{list.i, known[0].i, k.i, g.i},
				"slot %d is given to %s, which the blacklist of %s names, although %s has a complete copy", g.v.Slot, g.v.Peer, list.epoch, k.v.Peer)
		}
		h.handedOn(v, lists[in-1:], grants[n:])
	}
}

// handedOn checks that a slot that was granted to a node on the blacklist, by the
// first of the grants under the first of the lists, goes to another one within
// two leases and ten seconds in which no fault begins, ends or lasts and nothing
// is frozen, as long as the node runs, is on the blacklist, and some node runs
// that is not.
func (h *History) handedOn(v *Verdict, lists []blacklist, grants []seenAt[trace.Claim]) {
	g := grants[0]
	name := g.v.Peer.Name
	until := h.end()
	for _, next := range grants[1:] {
		if next.v.Slot == g.v.Slot {
			until = min(until, h.Entries[next.i].At)
			break
		}
	}
	for _, l := range lists[1:] {
		if l.untold {
			return // it may be off the list
		}
		if !slices.Contains(l.names, name) {
			until = min(until, h.Entries[l.i].At)
			break
		}
	}
	bound := 2*h.Cluster.Lease + 10*time.Second
	quiet := h.Entries[g.i].At // since when nothing stands in the way
	for _, s := range h.obstacles(name, lists) {
		if s.from <= quiet+bound && s.to > quiet {
			quiet = s.to
		}
	}
	v.check(until-quiet <= bound, h, until, []int{lists[0].i, g.i}, "slot %d, which %s was given as its last complete copy, is still led by it after %s without a fault", g.v.Slot, g.v.Peer, until-quiet)
}

// obstacles are the spans in which nothing is asked of the hand-over of a slot
// that the named node leads, in the order of their beginnings: faults, protection,
// times at which it does not run, or no data node that is off the blacklist does.
// A node that dies is a moment, and no lasting fault.
func (h *History) obstacles(name string, lists []blacklist) []span {
	var out []span
	open := map[string]int{} // fault -> its place in out
	h.faults(func(_ int, at time.Duration, x Fault) {
		k := key(x.Act)
		if i, lasts := open[k]; lasts && ends(x.Act) {
			out[i].to = at
			delete(open, k)
		}
		switch x.Verb {
		case Forbid, Allow:
			return // what is judged
		}
		s := span{at, at + 1}
		if undo(x.Verb) != "" && !ends(x.Act) && x.Verb != Kill && x.Verb != Stop {
			if _, twice := open[k]; twice {
				return
			}
			open[k], s.to = len(out), h.end()
		}
		out = append(out, s)
	})
	forbidden := func(n string, at time.Duration) (is bool) {
		for _, l := range lists {
			if !l.untold && h.Entries[l.i].At <= at {
				is = slices.Contains(l.names, n)
			}
		}
		return is
	}
	last := -1
	for _, e := range h.Entries {
		if e.Sight == nil {
			continue
		}
		if last >= 0 {
			out[last].to, last = e.At, -1
		}
		blocked := e.Sight.Frozen || e.Sight.Leader == "" || !slices.Contains(e.Sight.Up, name) ||
			!slices.ContainsFunc(e.Sight.Up, func(n string) bool {
				return n != name && strings.HasPrefix(n, "data-") && !forbidden(n, e.At)
			})
		if blocked {
			last = len(out)
			out = append(out, span{e.At, h.end()})
		}
	}
	slices.SortStableFunc(out, func(a, b span) int { return int(a.from - b.from) })
	return out
}
