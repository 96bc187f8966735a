package check

import (
	"maps"
	"slices"
	"strings"
	"time"

	"conclave"
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
// not affect and the client knows (unlisted). A session that is being drained and is
// the only one left serves. What a session refuses, it never stores, whatever has
// failed.
func oneSessionServes(h *History, v *Verdict) {
	calm, sessions, datas := h.steady(testbed.Forbid), h.Cluster.NodesOf("session"), h.Cluster.NodesOf("data")
	faults, unlisted := h.faultSpans(), h.unlisted()
	frozen := h.observed(func(_ time.Duration, o Observation) bool { return o.Frozen })
	h.allStored(v, "a session is left", func(at time.Duration, client string) bool {
		from := at - StoredTimeout - h.serveLimit()
		return from >= 0 && !during(unlisted[client], at, at) && !during(frozen, from, at) && calm(from, at) && faults.any(from, at, sessions...) && !faults.any(from, at, datas...)
	})
	h.ops(func(i int, at time.Duration, o Op) {
		v.check(!o.Refused, h, at, []int{i}, "%s is refused %s for no reason: %v", o.Client, o.ID, o.Err)
	}, OpUnheard)
}

// sofaAsks is how often a client of SOFARegistry asks for the sessions that take clients.
const sofaAsks = 30 * time.Second

// unlisted returns, for each client of SOFARegistry, the times in which it may know no
// session that runs (docs/sofa.md), and a change may wait for that: when it lost its
// session, each other one had been drained or lost since it had asked. It sleeps before
// it uses the next answer.
func (h *History) unlisted() map[string][]span {
	out, last, faults := map[string][]span{}, map[string]string{}, h.faultSpans()
	h.ops(func(_ int, at time.Duration, o Op) {
		if len(o.Values) > 0 {
			last[o.Client], _, _ = strings.Cut(o.Values[0], "@")
			if n := len(out[o.Client]); n > 0 {
				out[o.Client][n-1].to = min(out[o.Client][n-1].to, at+StoredTimeout)
			}
			return
		}
		listed := func(n string) bool { return n != last[o.Client] && !faults.any(at-sofaAsks, at, n) }
		if o.Linger > 0 && !slices.ContainsFunc(h.Cluster.NodesOf("session"), listed) {
			out[o.Client] = append(out[o.Client], span{at, at + sofaAsks + 2*ClientLease + StoredTimeout})
		}
	}, OpConnected)
	return out
}

// L19: while nothing has failed for a session grace and only an operator acts,
// every change of a client is stored in time, and there is a leader. A command
// that the cluster could not survive must have been refused. What fails while
// slots are frozen, or shortly before, lasts until they are not: nobody takes a
// slot over meanwhile.
func operatorsBreakNothing(h *History, v *Verdict) {
	var trouble []span
	for _, spans := range h.faultSpansBut(testbed.Verb.IsCommand) {
		trouble = append(trouble, spans...)
	}
	calm := func(from, to time.Duration) bool {
		return from >= 0 && !during(trouble, from, to)
	}
	settles := SessionGrace + 5*time.Second
	for _, spans := range h.faultSpans(testbed.Freeze) {
		for _, frozen := range spans {
			if during(trouble, frozen.from-settles, frozen.to) {
				trouble = append(trouble, frozen)
			}
		}
	}
	h.allStored(v, "only an operator acted", func(at time.Duration, _ string) bool { return calm(max(0, at-StoredTimeout-settles), at) })
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

// L14: a data node that reports itself drained leads no slot then, and answers
// no read afterwards. A stop drains a data node (stopsHandOver).
func drainedOwnsNothing(h *History, v *Verdict) {
	drained := map[conclave.NodeID]int{}
	h.events(func(i int, at time.Duration, c trace.Claim) {
		switch c.Kind {
		case trace.Emptied:
			if c.Flag {
				v.check(c.Count == 0, h, at, []int{i}, "%s was drained and still leads %d slots", c.Node, c.Count)
				drained[c.Node] = i
			}
		default:
			if before, is := drained[c.Node]; is {
				v.check(false, h, at, []int{before, i}, "%s answers a read of slot %d after it was drained", c.Node, c.Slot)
			}
		}
	}, trace.Emptied, trace.Read)
	h.stopsHandOver(v)
}

// stopsHandOver checks that a data node that is stopped while nothing else
// happens hands its slots over, within stopLimit, unless a stop of the whole
// cluster was announced to it, or to the leader, within the last minute.
func (h *History) stopsHandOver(v *Verdict) {
	isAnnouncement := func(v testbed.Verb) bool { return v == testbed.AnnounceStop }
	isStop := func(v testbed.Verb) bool { return v == testbed.Stop || isAnnouncement(v) }
	otherOfData, others := h.faultSpansBut(isStop), h.faultSpansBut(isAnnouncement)
	calm := func(from, to time.Duration) bool {
		for host, spans := range others {
			if strings.HasPrefix(host, "data-") {
				spans = otherOfData[host]
			}
			if !strings.HasPrefix(host, "client-") && during(spans, from, to) {
				return false
			}
		}
		return true
	}
	inForce := h.announcements()
	stopped := map[string]seenAt[time.Duration]{}
	reports := map[string]bool{} // nodes whose events are in the history
	inTime := func(i int, at time.Duration, node string) {
		s, is := stopped[node]
		if is && !(h.Joined && s.v <= 0) && len(stopped) == 1 && reports[node] && !inForce(node, s.v, at) && calm(s.v-SessionGrace-5*time.Second, at-1) {
			v.check(at-s.v <= stopLimit, h, at, []int{s.i, i}, "%s was stopped without any other fault, and %s later it has not handed its slots over", node, at-s.v)
		}
	}
	for i, e := range h.Entries {
		if e.Event != nil {
			reports[e.Event.Node.Name] = true
		}
		switch f := e.Fault; {
		case f != nil && f.Err == nil && f.Verb == testbed.Stop && !f.Undo && !(h.Joined && e.At <= -stopLimit) && strings.HasPrefix(f.Node, "data-"):
			stopped[f.Node] = seenAt[time.Duration]{e.At, i}
		case f != nil && f.Err == nil && f.Verb == testbed.Kill: // it no longer stops, and what it reports meanwhile does not count
			inTime(i, e.At, f.Node)
			delete(stopped, f.Node)
		case e.Event != nil && e.Event.Kind == trace.Emptied:
			s, was := stopped[e.Event.Node.Name]
			delete(stopped, e.Event.Node.Name)
			if was && !(h.Joined && s.v <= 0) && len(stopped) == 0 && !inForce(e.Event.Node.Name, s.v, e.At) && calm(s.v-SessionGrace-5*time.Second, e.At) {
				v.check(e.Event.Flag, h, e.At, []int{s.i, i}, "%s was stopped without any other fault and did not hand its %d slots over", e.Event.Node, e.Event.Count)
			}
		}
	}
	for _, node := range slices.Sorted(maps.Keys(stopped)) {
		inTime(len(h.Entries)-1, h.End(), node)
	}
}

// stopLimit bounds how long a data node hands its slots over while nothing else
// happens.
const stopLimit = 20 * time.Second

// announcements returns a function that reports whether an announced stop of the
// whole cluster may have been in force at a node at some moment between two
// times. An announcement whose answer was lost may have arrived. What the leader
// received is in force for longer if a meta or the database was in trouble
// meanwhile: a later leader counts from its own arrival.
func (h *History) announcements() func(node string, from, to time.Duration) bool {
	type announcement struct {
		node string // "" for all
		span
	}
	var all []announcement
	var trouble []span
	for host, spans := range h.faultSpansBut(testbed.Verb.IsCommand) {
		if host == testbed.Database || strings.HasPrefix(host, "meta-") {
			trouble = append(trouble, spans...)
		}
	}
	trouble = merged(trouble)
	for _, e := range h.Entries {
		if e.Fault == nil || e.Fault.Verb != testbed.AnnounceStop {
			continue
		}
		a := announcement{e.Fault.Node, span{e.At, e.At + AnnouncementLasts}}
		if strings.HasPrefix(a.node, "meta-") {
			a.node = ""
			for _, t := range trouble {
				if t.to >= e.At && t.from <= a.to {
					a.to = max(a.to, t.to+AnnouncementLasts)
				}
			}
		}
		all = append(all, a)
	}
	return func(node string, from, to time.Duration) bool {
		return slices.ContainsFunc(all, func(a announcement) bool {
			return (a.node == "" || a.node == node) && a.from <= to && from <= a.to
		})
	}
}

// AnnouncementLasts bounds how long an announcement is in force at the nodes
// that it was made to: a minute, and one second for its way there.
const AnnouncementLasts = 61 * time.Second
