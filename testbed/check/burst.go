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

// L23 and L24 are about load: an overload that has ended must leave nothing behind.
// A cluster that stays overloaded by what the overload has caused (clients that
// reconnect and replay, elections, slots that move) is in a metastable failure.
var burstCheckers = []checker{
	{"L23", "within 5 s after a burst changes are stored as fast as before it", ratesReturn},
	{"L24", "during a burst and until 5 s after it neither a client nor the leader nor a node is given up", noneGivenUp},
}

const (
	// burstPasses is how long after a burst its effects may last.
	burstPasses = 5 * time.Second
	// rateWindow is the longest time over which changes are counted after a burst.
	// Before it they are counted over up to twice that time, and must be rateLeast
	// at least: clients change values at random intervals, so the counts of two
	// times of 10 s differ by a tenth once in some hundred bursts.
	rateWindow = 10 * time.Second
	rateLeast  = 100
)

// burst is a time of additional load; i and end are its entries.
type burst struct {
	span
	i, end int
}

// bursts returns the bursts that were ended, in order.
func (h *History) bursts() (out []burst) {
	began := -1
	h.faults(func(i int, at time.Duration, x Fault) {
		switch {
		case x.Verb == testbed.Burst && began < 0:
			began = i
		case x.Verb == testbed.EndBurst && began >= 0:
			out = append(out, burst{span{h.Entries[began].At, at}, began, i})
			began = -1
		}
	})
	return out
}

// isolatedBursts calls f with each burst before and after which nothing else has
// failed for a session grace. until is when its effects have been observed; before
// and after are the times before it, and from burstPasses after it on, over which
// rates are compared: the clients must work for long enough, until the scenario
// heals its faults. after is not positive if they do not.
func (h *History) isolatedBursts(f func(b burst, until, before, after time.Duration)) {
	ends := h.End()
	h.ops(func(_ int, at time.Duration, _ Op) { ends = min(ends, at) }, OpHealed)
	others := h.faultSpansBut(func(v testbed.Verb) bool { return v == testbed.Burst })
	all := h.bursts()
	for n, b := range all {
		if h.Joined && b.from <= 0 {
			continue // what the clients did before it is not known
		}
		window := min(rateWindow, b.from, ends-b.to-burstPasses)
		until := min(ends, b.to+burstPasses+max(0, window))
		if n+1 < len(all) && all[n+1].from < until || n > 0 && b.from-window < all[n-1].to+burstPasses || !others.onlyOn(b.from-SessionGrace-burstPasses, until) {
			continue
		}
		before := min(2*rateWindow, b.from)
		if n > 0 {
			before = min(before, b.from-all[n-1].to-burstPasses)
		}
		f(b, until, before, window)
	}
}

// L23: after an isolated burst changes are acknowledged as fast as before it. A
// burst before which they were too few for a rate is not checked, but shown.
func ratesReturn(h *History, v *Verdict) {
	slow := 0
	h.isolatedBursts(func(b burst, until, earlier, window time.Duration) {
		before := 0
		if window > 0 {
			before = h.acknowledged(b.from-earlier, b.from)
		}
		if before < rateLeast {
			slow++
			v.show("bursts without a rate to compare: %d", slow)
			return
		}
		after := h.acknowledged(b.to+burstPasses, b.to+burstPasses+window)
		enough := 10*float64(after)/window.Seconds() >= 9*float64(before)/earlier.Seconds()
		v.check(enough, h, until, []int{b.i, b.end}, "%d changes were acknowledged in the %s from %s after the burst on, and %d in the %s before it",
			after, window.Round(time.Millisecond), burstPasses, before, earlier.Round(time.Millisecond))
	})
}

// L24: an isolated burst ends the connection of no client that runs, elects no
// leader and removes no node.
func noneGivenUp(h *History, v *Verdict) {
	h.isolatedBursts(func(b burst, until, _, _ time.Duration) {
		v.Checks++
		h.givenUp(v, b, until)
	})
}

// acknowledged returns how many changes of the clients that stay were acknowledged
// in a time. Guests come at random, and are too few to be compared.
func (h *History) acknowledged(from, to time.Duration) (n int) {
	h.ops(func(_ int, at time.Duration, o Op) {
		if from <= at && at < to && strings.HasPrefix(o.Client, "client-") {
			n++
		}
	}, OpStored)
	return n
}

// givenUp reports what was given up from the beginning of a burst until its
// effects must have passed: live clients by their sessions, the leader by the
// followers, session and data nodes by the leader.
func (h *History) givenUp(v *Verdict, b burst, until time.Duration) {
	connected := map[string][]string{}
	ended, lastEnd := map[string]bool{}, -time.Hour
	if h.Joined {
		lastEnd = 0 // the clients of before it have ended
	}
	newest, seen := map[string]conclave.NodeID{}, map[conclave.NodeID]bool{} // the process of each name that has begun last
	replaced := func(n conclave.NodeID) bool {
		last, known := newest[n.Name]
		return last != n && (known || h.Joined)
	}
	term := uint64(0)
	for i, e := range h.Entries {
		if e.Event != nil && !seen[e.Event.Node] {
			seen[e.Event.Node], newest[e.Event.Node.Name] = true, e.Event.Node
		}
		if e.At > until {
			return
		}
		bad := func(format string, args ...any) {
			if e.At >= b.from {
				v.check(false, h, e.At, []int{b.i, i}, format, args...)
			}
		}
		switch o, c := e.Op, e.Event; {
		case o != nil && o.Kind == OpWithdraw && o.Version == 0:
			ended[o.Client], lastEnd = true, e.At
		case o != nil && o.Kind == OpConnected && !ended[o.Client]:
			for _, s := range connected[o.Client] {
				if !slices.Contains(o.Values, s) {
					bad("%s, which runs, has lost its connection to %s", o.Client, s)
				}
			}
			connected[o.Client] = o.Values
		case o != nil && o.Kind == OpEvicted:
			bad("%s runs and was removed from the members", o.Client)
		case e.Observed != nil && !h.HasEvents:
			if e.Observed.Term > term && term > 0 {
				bad("%s was elected in term %d", e.Observed.Leader, e.Observed.Term)
			}
			term = max(term, e.Observed.Term)
		case c == nil:
		case c.Kind == trace.Led:
			bad("%s was elected in term %d", c.Node, c.Term)
		case c.Kind == trace.Dropped && e.At-lastEnd > 2*ClientLease:
			bad("%s dropped the registration %s of %s, whose client runs", c.Node, c.Subject, c.Key)
		case c.Kind == trace.OwnerGone && c.Count > 0 && !replaced(c.Peer): // those of an earlier process may go at any time
			bad("%s removed %d registrations of %s, which runs", c.Node, c.Count, c.Peer)
		case c.Kind == trace.Granted && c.Key == string(slot.Crash):
			bad("slot %d was granted to %s as if its leader had crashed", c.Slot, c.Peer)
		}
	}
}
