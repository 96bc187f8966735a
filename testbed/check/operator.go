package check

import (
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
)

// L18: where a follower's copy and its leader's were compared at one position
// of one feed, by the player or by the follower itself, they were equal. The player
// can only in the bubble (testbed.Capabilities.SlotCopies).
func copiesAreEqual(h *History, v *Verdict) {
	h.ops(func(i int, at time.Duration, o Op) {
		v.Checks += max(0, int(o.Version)-len(o.Values))
		for _, pair := range o.Values {
			v.check(false, h, at, []int{i}, "%s", pair)
		}
	}, OpCompared)
	h.events(func(i int, at time.Duration, c trace.Claim) {
		v.check(false, h, at, []int{i}, "%s finds that its copy of slot %d differs from that of %s at epoch %s", c.Node, c.Slot, c.Peer, c.Epoch)
	}, trace.Differed)
}

// electionLimit bounds how long a cluster without faults may be without a
// leader, whatever an operator does: twice an election by the lease.
func (h *History) electionLimit() time.Duration { return 2*h.Cluster.Lease + 2*time.Second }

// L22: after a session was lost or drained, every change of a client is stored in
// time if for as long as slots may take to be served no fault has begun or ended,
// nothing else is lost, slots may move, and a session is left that the faults do
// not affect. A session that is being drained and is the only one left serves.
func oneSessionServes(h *History, v *Verdict) {
	calm, sessions, datas := h.steady(testbed.Forbid), h.Cluster.NodesOf("session"), h.Cluster.NodesOf("data")
	faults := h.faultSpans()
	frozen := h.observed(func(_ time.Duration, o Observation) bool { return o.Frozen })
	h.ops(func(i int, at time.Duration, o Op) {
		from := at - StoredTimeout - h.serveLimit()
		if from >= 0 && !during(frozen, from, at) && calm(from, at) && faults.any(from, at, sessions...) && !faults.any(from, at, datas...) {
			v.check(o.Kind == OpStored, h, at, []int{i}, "%s got no acknowledgement within %s that %s is stored, although a session is left", o.Client, StoredTimeout, o.ID)
		}
	}, OpStored, OpUnheard)
}

// L19: while nothing has failed for a session grace and only an operator acts,
// every change of a client is stored in time, and there is a leader. A command
// that the cluster could not survive must have been refused.
func operatorsBreakNothing(h *History, v *Verdict) {
	var trouble []span
	for _, spans := range h.faultSpansBut(testbed.Verb.IsCommand) {
		trouble = append(trouble, spans...)
	}
	calm := func(from, to time.Duration) bool {
		return from >= 0 && !during(trouble, from, to)
	}
	settles := SessionGrace + 5*time.Second
	h.ops(func(i int, at time.Duration, o Op) {
		if calm(max(0, at-StoredTimeout-settles), at) {
			v.check(o.Kind == OpStored, h, at, []int{i}, "%s got no acknowledgement within %s that %s is stored, although only an operator acted", o.Client, StoredTimeout, o.ID)
		}
	}, OpStored, OpUnheard)
	since, began := time.Duration(-1), 0
	for i, e := range h.Entries {
		switch {
		case e.Observed == nil || e.At < 0:
		case e.Observed.Leader == "" && since < 0:
			since, began = e.At, i
		case e.Observed.Leader != "" && since >= 0:
			if calm(max(0, since-settles), e.At) {
				v.check(e.At-since <= h.electionLimit(), h, e.At, []int{began, i}, "no node led for %s, although only an operator acted", (e.At - since).Round(time.Millisecond))
			}
			since = -1
		}
	}
}
