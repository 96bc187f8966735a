package check

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/testbed"
)

// soonGone is by when the registrations of a client are gone from every list that
// died alone in a calm cluster: its session sees its connection end, waits for a
// quarter of the client lease, and has them removed. The rest is for a busy machine.
const soonGone = ClientLease / 2

// DeadGone is by when they are gone after the last fault, whatever has failed. A
// leader is elected, a lost session's grace ends, and the push guard holds the list
// for as long as it may. The leases of a session that was suspended end before that.
func DeadGone(c testbed.Size) time.Duration {
	return c.Lease + reconnectLimit + 2*SessionGrace + GuardGrace
}

// deadAreGone checks that no subscriber sees a registration of a client that was
// killed, or that left without withdrawing it, for longer than goneFrom allows. A
// linger is time in which a client that has left lives on, and so is the lease of one
// without a connection.
func (h *History) deadAreGone(v *Verdict) {
	died, gone := map[string]span{}, map[string]time.Duration{} // died: from when its client left until its linger or lease ended
	late := func(tag string, at time.Duration) (time.Duration, bool) {
		since, dead := died[tag]
		if !dead || at < since.to+soonGone {
			return 0, false
		}
		if _, known := gone[tag]; !known {
			client, _, _ := strings.Cut(tag, "/")
			gone[tag] = h.goneFrom(client, since.from, since.to)
		}
		return gone[tag], true
	}
	lists := map[string]seenAt[Op]{} // what each subscriber was pushed last
	until := func(list string, at time.Duration) {
		for _, value := range lists[list].v.Values {
			tag, _, _ := ParseValue(value)
			if by, dead := late(tag, at); dead {
				v.check(at <= by, h, at, []int{lists[list].i}, "%s still shows %s, whose client has died at %s, and may until %s", list, tag, died[tag].to.Round(time.Millisecond), by.Round(time.Millisecond))
			}
		}
	}
	for i, e := range h.Entries {
		o, f := e.Op, e.Fault
		switch {
		case f != nil && f.Verb == testbed.Kill && f.Err == nil:
			maps.DeleteFunc(lists, func(list string, _ seenAt[Op]) bool { return strings.HasPrefix(list, f.Node+" ") })
		case o == nil:
		case o.Kind == OpWithdraw && o.Version == 0:
			died[o.ID] = span{e.At, e.At + max(o.Linger, o.Lease)}
			v.Checks++
		case o.Kind == OpPush && strings.HasPrefix(o.Client, "client-"): // readers leave at any time
			list := ListName(o.Client, o.Name)
			until(list, e.At)
			lists[list] = seenAt[Op]{*o, i}
		}
	}
	for _, list := range slices.Sorted(maps.Keys(lists)) {
		until(list, h.End())
	}
}

// lingersUntil returns until when lists must show what a client has left with a linger:
// until that has ended, also if one node stops meanwhile. After any other fault at most
// a session grace, from the fault or from when the client would have noticed it, and
// not once a session has been lost, and then each copy of its slot.
func (h *History) lingersUntil(at time.Duration, o Op) time.Duration {
	if o.Linger == 0 {
		return at
	}
	until, count, linger := at+o.Linger, 0, o.Linger
	for host, spans := range h.faultSpans() {
		for _, s := range spans {
			if !strings.HasPrefix(host, "client-") && s.from <= at+linger && s.to >= at-ClientLease {
				count++
				until = min(until, max(s.from, at-ClientLease)+SessionGrace)
			}
		}
	}
	if count == 1 && h.faultSpans(testbed.Stop).any(at-ClientLease, at+linger, h.Cluster.Nodes()...) {
		return at + linger
	}
	slot, _ := h.slotOf(o.Name)
	lost := h.faultSpans(testbed.Kill, testbed.Stop, testbed.Pause)
	h.servedFromSessions(func(served time.Duration, id, session string, _ time.Duration, _ bool) {
		if id == strconv.Itoa(slot) && served >= at && lost.any(at-ClientLease, served, session) {
			until = min(until, served)
		}
	})
	return until
}

// goneFrom returns from when no list may show the registrations of a client that
// died at a given time, when its linger ended if it had left with one. If nothing else
// had failed for a session grace before it left that is soon, or, if others died at about
// that time, when the push guard no longer holds any list (heldUntil). Otherwise the time
// is counted from the last fault.
func (h *History) goneFrom(client string, left, died time.Duration) time.Duration {
	var nodes []span
	for host, spans := range h.faultSpans() {
		if !strings.HasPrefix(host, "client-") {
			nodes = append(nodes, spans...)
		}
	}
	nodes = merged(nodes)
	calm := func(until time.Duration) bool {
		return !during(nodes, left-SessionGrace, until) && (!h.Joined || died > 3*ClientLease)
	}
	if by := died + soonGone; calm(by) && !h.othersLost(client, died-2*ClientLease, by) {
		return by
	}
	if by := h.heldUntil(client, died); calm(by) {
		return by
	}
	by := died + DeadGone(h.Cluster)
	for _, s := range nodes {
		if s.from <= by {
			by = max(by, s.to+DeadGone(h.Cluster))
		}
	}
	return by
}
