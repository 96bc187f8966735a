package check

import (
	"fmt"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/testbed"
)

// What ARCHITECTURE.md lists as not guaranteed, as far as a checker must know it:
// the times in which registrations may be missing or old.

// forgotten returns, for each datum, the times in which it may fall back to an
// earlier state: the leader of its slot was lost while no follower had all its
// changes, and a session was lost just before, or before the slot was served
// again (within a second at least); or the slot was served without a copy, from
// what the sessions had, just after a session was lost that had not answered.
// Then only the clients have their last changes, until they have connected to another session.
func (h *History) forgotten() map[string][]span {
	sessions := h.faultSpans(testbed.Kill, testbed.Stop, testbed.Pause)
	slots := map[string][]span{}
	lost := func(at, until time.Duration, id string) {
		for _, session := range h.Cluster.NodesOf("session") {
			for _, s := range sessions[session] {
				if s.from >= at-reconnectLimit && s.from <= max(at+time.Second, until) {
					slots[id] = append(slots[id], span{max(at, s.from), max(at, s.from) + SessionGrace})
				}
			}
		}
	}
	h.ops(func(i int, at time.Duration, o Op) {
		for _, id := range o.Values {
			lost(at, h.servedAfter(i, id), id)
		}
	}, OpAhead)
	h.servedFromOlder(lost)
	h.servedFromSessions(func(at time.Duration, id, session string, answered time.Duration, did bool) {
		for _, s := range sessions[session] {
			if s.from >= at-reconnectLimit && s.from <= at && !(did && answered < s.from) {
				slots[id] = append(slots[id], span{at, at + SessionGrace})
			}
		}
	})
	return byName(h, slots)
}

// servedFromOlder calls f with each time when the leader of a slot was lost, and when
// the next one served from a copy of an earlier epoch: no follower had any of its
// changes. In a cluster of processes, whose copies no one compares, only this shows it.
func (h *History) servedFromOlder(f func(at, until time.Duration, slot string)) {
	faults := h.faultSpans(testbed.Kill, testbed.Stop, testbed.Pause)
	before := map[int]seenAt[trace.Claim]{}
	h.events(func(i int, at time.Duration, c trace.Claim) {
		last, known := before[c.Slot]
		before[c.Slot] = seenAt[trace.Claim]{c, i}
		if !known || c.Flag || c.Base.IsZero() || !c.Base.Less(last.v.Epoch) {
			return
		}
		for _, s := range faults[last.v.Node.Name] {
			if s.from >= h.Entries[last.i].At && s.from <= at {
				f(s.from, at, fmt.Sprint(c.Slot))
			}
		}
	}, trace.Serving)
}

// servedFromSessions calls f with each time when a slot was served incomplete and
// without a copy, from what the sessions had: for each session, with when its answer
// was taken in, if it was.
func (h *History) servedFromSessions(f func(at time.Duration, slot, session string, answered time.Duration, did bool)) {
	type answer struct {
		nodeSlot
		epoch   conclave.Epoch
		session string
	}
	answers := map[answer]time.Duration{}
	h.events(func(_ int, at time.Duration, c trace.Claim) {
		answers[answer{nodeSlot{c.Node, c.Slot}, c.Epoch, c.Peer.Name}] = at
	}, trace.Merged)
	h.events(func(_ int, at time.Duration, c trace.Claim) {
		if c.Key != trace.Incomplete || c.Flag || !c.Base.IsZero() {
			return
		}
		for _, session := range h.Cluster.NodesOf("session") {
			answered, did := answers[answer{nodeSlot{c.Node, c.Slot}, c.Epoch, session}]
			f(at, fmt.Sprint(c.Slot), session, answered, did)
		}
	}, trace.Serving)
}

// unreached is a time in which lists may lack the registrations of one session:
// their slot was served without it and without a copy. It could not be dialled
// (docs/adr/0035), so first lists may lack all of them; or it was frozen, which only
// clients of SOFARegistry do not leave (docs/sofa.md), so the lists of subscribers that
// have not seen theirs may lack these.
type unreached struct {
	span
	session string
	frozen  bool
}

// unreached returns these times for each datum: from when its slot was served
// until the mark of that has ended, or until such clients may have connected again.
func (h *History) unreached() map[string][]unreached {
	slots := map[string][]unreached{}
	closed, frozen := h.faultSpans(testbed.ClosePort, testbed.StartWrong), h.faultSpans(testbed.Pause)
	h.servedFromSessions(func(at time.Duration, id, session string, _ time.Duration, did bool) {
		if did {
			return
		}
		if closed.any(at, at, session) {
			slots[id] = append(slots[id], unreached{span{at, h.markedUntil(at)}, session, false})
		}
		for _, s := range frozen[session] {
			if s.from <= at && at <= s.to {
				slots[id] = append(slots[id], unreached{span{at, s.to + 2*ClientLease}, session, true})
			}
		}
	})
	return byName(h, slots)
}

// byName returns what is known of slots for each datum that was pushed.
func byName[T any](h *History, slots map[string][]T) map[string][]T {
	out := map[string][]T{}
	h.ops(func(_ int, _ time.Duration, o Op) {
		if _, known := out[o.Name]; known || len(slots) == 0 {
			return
		}
		out[o.Name] = nil
		if n, ok := h.slotOf(o.Name); ok {
			out[o.Name] = slots[fmt.Sprint(n)]
		}
	}, OpPush)
	return out
}

// servedAfter returns when a slot was served first after an entry, or zero if it
// was handed over then: its leader had not been lost.
func (h *History) servedAfter(i int, id string) time.Duration {
	for _, e := range h.Entries[i:] {
		if c := e.Event; c != nil && c.Kind == trace.Serving && fmt.Sprint(c.Slot) == id {
			if c.Flag {
				return 0
			}
			return e.At
		}
	}
	return 0
}

// slotOf returns the slot of a dataId, and false if its name is not valid.
func (h *History) slotOf(name string) (n int, ok bool) {
	id, err := conclave.NewDataInfoID(name, "", "")
	if err != nil {
		return 0, false
	}
	return slot.Of(id.String(), max(1, h.Cluster.Slots)), true
}

// refillTime is how long a restarted data node may take to get its copies
// again.
const refillTime = 10 * time.Second

// losses returns the times in which no node may have held the registrations of
// live clients: no session ran, and enough data nodes were lost that a slot may
// have lost every copy. Then only the subscribers have the lists, until the
// clients have connected again; a session grace later the lists must be
// complete.
func (h *History) losses() (out []span) {
	faults := h.faultSpans(testbed.Kill, testbed.Stop, testbed.Pause)
	outages := h.outages()
	for _, o := range outages {
		lost := 0
		for _, data := range h.Cluster.NodesOf("data") {
			if faults.any(o.from-refillTime, o.to, data) {
				lost++
			}
		}
		if lost >= max(1, h.Cluster.Replicas) {
			out = append(out, span{o.from, o.to + SessionGrace})
		}
	}
	return out
}
