package check

import (
	"slices"
	"strings"
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
)

// progressMade checks that what is expected after the healing becomes true in
// time: a list a session grace later if all copies and sessions were lost. A list
// that the push guard may hold back (mayHold), which it never does for one client
// that was lost alone, counts as missing only when the guard's time has ended.
func progressMade(h *History, v *Verdict) {
	var guard guarded
	h.ops(func(i int, at time.Duration, o Op) {
		switch {
		case o.Kind != OpProgress:
			guard.note(h, at, o)
		case o.Err == nil || o.Name != Full || len(o.Values) == 0:
			v.check(o.Err == nil, h, at, []int{i}, "%v", o.Err)
		default:
			may := func(list string) bool { return guard.mayHold(h, list, at) }
			wrong := slices.DeleteFunc(slices.Clone(o.Values), may)
			v.check(len(wrong) == 0, h, at, []int{i}, "%v; the push guard has no reason to hold %s", o.Err, strings.Join(wrong, ", "))
		}
	}, OpPublish, OpWithdraw, OpStored, OpPush, OpConnected, OpProgress)
}

// full is the expectation that every list is complete. The Values of its
// OpProgress name the lists that are not.
const Full = "full"

// listName returns the name of one subscriber's list of one dataId in the
// Values of an OpProgress.
func ListName(client, name string) string { return client + " " + name }

// guarded is the push guard's input as far as a history shows it: what each
// subscriber was pushed last, what is published, and which clients ended
// without withdrawing.
type guarded struct {
	pushed map[string][]string        // list name -> values
	live   map[string]map[string]bool // dataId -> tags
	died   map[string]time.Duration   // tag -> when its client ended without withdrawing it
	stored map[string]time.Duration   // dataId -> when a change of it was acknowledged last
	doubts map[string]doubt           // list name -> what was lost in small steps
	blind  map[string]bool            // clients that do not say what they have when they connect

	incomplete map[int][]time.Duration // slot -> when it was served without all registrations
}

// doubt is how many values a list had before it lost some in small steps, while
// the marks of these losses may follow one another.
type doubt struct {
	full  int
	until time.Duration
}

func (g *guarded) note(h *History, at time.Duration, o Op) {
	if g.pushed == nil {
		*g = guarded{pushed: map[string][]string{}, live: map[string]map[string]bool{}, died: map[string]time.Duration{}, stored: map[string]time.Duration{}, doubts: map[string]doubt{}, blind: map[string]bool{}}
	}
	if g.live[o.Name] == nil {
		g.live[o.Name] = map[string]bool{}
	}
	switch o.Kind {
	case OpPush:
		list := ListName(o.Client, o.Name)
		g.doubts[list] = g.doubted(h, list, at, o)
		g.pushed[list] = o.Values
	case OpStored:
		g.stored[o.Name] = at
	case OpConnected:
		g.blind[o.Client] = o.Linger > 0
	case OpPublish:
		g.live[o.Name][o.ID] = true
	case OpWithdraw:
		delete(g.live[o.Name], o.ID)
		if o.Version == 0 {
			g.died[o.ID] = at + max(o.Linger, o.Lease)
		}
	}
}

// doubted returns a list's doubt after a push, by the rule of the push guard:
// what is lost adds up as long as each loss is pushed while the mark of one
// before it may be valid; what was withdrawn was not lost. A list that may have
// been held, and was pushed all the same, is not doubted any more.
func (g *guarded) doubted(h *History, list string, at time.Duration, o Op) doubt {
	has, count := g.pushed[list], len(o.Values)
	before, until := len(has), time.Duration(0)
	if d := g.doubts[list]; at < d.until {
		before, until = d.full, d.until
	}
	left := map[string]bool{}
	for _, value := range o.Values {
		tag, _, _ := ParseValue(value)
		left[tag] = true
	}
	lost := slices.ContainsFunc(has, func(value string) bool {
		tag, _, ok := ParseValue(value)
		_, died := g.died[tag]
		return ok && !left[tag] && (died || g.live[o.Name][tag])
	})
	switch {
	case lost && (count == 0 || 2*count < before):
		return doubt{count, h.markedUntil(at)}
	case lost:
		return doubt{max(count, before), h.markedUntil(at)}
	default:
		return doubt{max(count, before-max(0, len(has)-count)), until}
	}
}

// mayHold reports whether the push guard may hold a list back. It may in two
// cases. Less than half of what the subscriber has is still published, and some
// of the rest is of a client that ended without withdrawing (ADR 0047): for a
// session grace and guardGrace after that client's registrations are removed.
// What the subscriber lost in small steps before (doubted) counts as well if the
// list did not change since the marks ended: the guard decides at each change.
// Or some of it is not published any more, and its slot was served incomplete
// (ADR 0047): until the mark ends. A withdrawal may have been lost then, too. Until then
// the guard holds all lists back of a client of SOFARegistry that connects.
func (g *guarded) mayHold(h *History, list string, at time.Duration) bool {
	client, name, _ := strings.Cut(list, " ")
	has := g.pushed[list]
	full := len(has)
	if d := g.doubts[list]; g.stored[name] < d.until {
		full = d.full
	}
	half := 2*len(g.live[name]) < full
	marked := slices.ContainsFunc(g.servedIncomplete(h, name), func(served time.Duration) bool {
		return served <= at && at <= h.markedUntil(served)
	})
	return marked && g.blind[client] || slices.ContainsFunc(has, func(value string) bool {
		tag, _, ok := ParseValue(value)
		since, died := g.died[tag]
		client, _, _ := strings.Cut(tag, "/")
		return ok && (marked && !g.live[name][tag] || half && died && at <= h.heldUntil(client, since))
	})
}

// heldUntil returns until when the push guard may hold back a list without the
// registrations of a client that ended at a given time: not at all once they are
// gone, if it was alone and no node had failed for a session grace, since then its
// session confirms that it is gone.
func (h *History) heldUntil(client string, ended time.Duration) time.Duration {
	gone, faults := h.goneBy(client, ended), h.faultSpans()
	sure := gone == ended+ClientLease
	for host := range faults {
		sure = sure && (strings.HasPrefix(host, "client-") || !faults.any(ended-SessionGrace, gone, host))
	}
	if sure {
		return gone + time.Second
	}
	return gone + SessionGrace + GuardGrace
}

// markedUntil returns when the mark of a slot that was served incomplete ends:
// a session grace later, or after the first session is back if none ran
// meanwhile (ADR 0047), or after a session can be dialled again that was given
// up (ADR 0035).
func (h *History) markedUntil(served time.Duration) time.Duration {
	until := served + SessionGrace
	for host, spans := range h.faultSpans(testbed.ClosePort, testbed.StartWrong) {
		for _, o := range spans {
			if strings.HasPrefix(host, "session-") && o.from < served && served < o.to {
				until = max(until, o.to+reconnectLimit+SessionGrace)
			}
		}
	}
	for _, o := range merged(h.outages()) {
		if o.from <= until && o.to > served {
			until = max(until, o.to+reconnectLimit+SessionGrace)
		}
	}
	return until
}

// servedIncomplete returns when the slot of a dataId was served, from what the
// sessions had, without all registrations.
func (g *guarded) servedIncomplete(h *History, name string) []time.Duration {
	if g.incomplete == nil {
		g.incomplete = map[int][]time.Duration{}
		h.events(func(_ int, at time.Duration, c trace.Claim) {
			if c.Key == trace.Incomplete && !c.Flag {
				g.incomplete[c.Slot] = append(g.incomplete[c.Slot], at)
			}
		}, trace.Serving)
	}
	n, ok := h.slotOf(name)
	if !ok {
		return nil
	}
	return g.incomplete[n]
}

// goneBy returns the time by which the registrations of a client that ended at
// a given time are removed: when its lease has ended or, if a session that may
// have known it was lost shortly before or after, a lease and the session grace
// later. Data nodes count the grace from the last fault of a node or of the
// database, because restarted nodes, a new leader and returning sessions begin
// to count again.
func (h *History) goneBy(client string, ended time.Duration) time.Duration {
	leased := ended + ClientLease + h.massDelay(client, ended)
	gone := leased
	var restarts, lost []time.Duration
	for host, spans := range h.faultSpans() {
		for _, s := range spans {
			if !strings.HasPrefix(host, "client-") {
				restarts = append(restarts, s.from, s.to)
			}
		}
	}
	for host, spans := range h.faultSpans(testbed.Kill, testbed.Stop, testbed.Pause, testbed.Cut, testbed.CutOne) {
		for _, s := range spans {
			if strings.HasPrefix(host, "session-") {
				lost = append(lost, s.from)
			}
		}
	}
	slices.Sort(restarts)
	grace := h.Cluster.Lease + SessionGrace
	for _, from := range lost {
		if from > leased {
			continue
		}
		counted := from
		for _, r := range restarts {
			if r > counted && r <= counted+grace {
				counted = r
			}
		}
		gone = max(gone, counted+grace)
	}
	return gone
}

// massDelay returns by how much longer than a client lease a session keeps the
// registrations of a client that ended at a given time: a lease more if another
// client may seem to be gone when the first one's lease ends (docs/adr/0071). That
// one was noticed within a lease, and is counted for two at most.
func (h *History) massDelay(client string, ended time.Duration) time.Duration {
	if h.othersLost(client, ended-3*ClientLease, ended+ClientLease) {
		return ClientLease
	}
	return 0
}

// othersLost reports whether another client than the given one may have seemed to
// be gone between two times.
func (h *History) othersLost(client string, from, to time.Duration) (lost bool) {
	related := func(at time.Duration) { lost = lost || from <= at && at <= to }
	for _, spans := range h.faultSpansOf(func(a testbed.Action) bool { return disconnects(a, client) }) {
		for _, s := range spans {
			related(s.from)
			related(s.to)
		}
	}
	connected := map[string]int{}
	h.ops(func(_ int, at time.Duration, o Op) {
		switch {
		case o.Client == client:
		case o.Kind == OpWithdraw && o.Version == 0, o.Kind == OpConnected && o.Lease == 0 && len(o.Values) < connected[o.Client]:
			related(at)
		}
		if o.Kind == OpConnected {
			connected[o.Client] = len(o.Values)
		}
	}, OpWithdraw, OpConnected)
	return lost
}

// disconnects reports whether a fault may make another client than the given one
// seem to be gone to a session that runs on: a fault of that client, of its links
// or of all links of a session, or one that delays a session or all of them.
func disconnects(a testbed.Action, client string) bool {
	other := func(host string) bool {
		return host != client && (strings.HasPrefix(host, "client-") || strings.HasPrefix(host, "guest-"))
	}
	switch {
	case a.Verb.IsCommand():
		return false
	case a.Verb == testbed.Burst, other(a.Node), other(a.Peer):
		return true
	case !strings.HasPrefix(a.Node, "session-") || a.Peer != "":
		return false
	}
	switch a.Verb {
	case testbed.Kill, testbed.Stop, testbed.Start, testbed.StartWrong, testbed.ClosePort, testbed.Skew:
		return false // its clients go to another one
	}
	return true
}
