package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
)

// I6, I7, I10, I11 and I13: what clients see, and what sessions accept as read.
var clientCheckers = []checker{
	{"I6", "once the cluster is at rest, what live clients publish is readable, and lists show nothing of clients that have died", readableOnceQuiet},
	{"I7", "no empty or shrunken push while the publishers live", nothingMissing},
	{"I10", "after the faults are healed: a leader within one lease, even slots and full lists within ten seconds more; lists later only if all copies and sessions were lost, or the push guard holds them", progressMade},
	{"I11", "versions rise per subscriber", versionsRise},
	{"I13", "what a session has read of a slot never goes back", neverUnread},
}

// readableOnceQuiet checks that a new reader sees what live clients publish at the end,
// and nothing of dead ones; deadAreGone checks the latter during the run.
func readableOnceQuiet(h *History, v *Verdict) {
	read := map[string]seenAt[[]string]{}
	h.ops(func(i int, at time.Duration, o Op) {
		if o.Kind == OpRead {
			read[o.Name] = seenAt[[]string]{o.Values, i}
			return
		}
		r, any := read[o.Name]
		v.check(any && slices.Equal(r.v, o.Values), h, at, []int{r.i, i}, "a new reader sees %s as %v, but live clients publish %v", o.Name, r.v, o.Values)
	}, OpRead, OpWant)
	h.deadAreGone(v)
}

// ClientLease is how long a client may be without a session before its
// registrations may be removed: the default of the processes.
const ClientLease = 5 * time.Second

// reconnectLimit bounds how long a client needs to reconnect: its longest pause
// between two attempts, and one attempt.
const reconnectLimit = 3 * time.Second

// outages returns the times in which no session ran because each was killed,
// stopped or paused. A client that no session knows at such a time is still
// live.
func (h *History) outages() []span {
	faults := h.faultSpans(testbed.Kill, testbed.Stop, testbed.Pause)
	out := []span{{-time.Hour, h.End()}}
	for _, session := range h.Cluster.NodesOf("session") {
		var both []span
		for _, a := range out {
			for _, b := range merged(faults[session]) {
				if x := (span{max(a.from, b.from), min(a.to, b.to)}); x.from < x.to {
					both = append(both, x)
				}
			}
		}
		out = both
	}
	if h.Cluster.Sessions == 0 {
		return nil
	}
	return out
}

// merged joins the spans that overlap and returns them in order.
func merged(all []span) (out []span) {
	all = slices.SortedFunc(slices.Values(all), func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, s := range all {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

// absences returns, for each client, the times in which nothing is required of
// its registrations: no session knew it for so long that they may have been
// removed, or a fault affected its own links. The time in which no session ran
// at all does not count, nor the time that the client needs to reconnect after
// it.
func (h *History) absences() map[string][]span {
	out := map[string][]span{}
	since, late := map[string]time.Duration{}, map[string]bool{}
	outages := h.outages()
	note := func(client string, from, to time.Duration) {
		absent := to - from
		for _, o := range outages {
			absent -= max(0, min(to, o.to+reconnectLimit)-max(from, o.from))
		}
		if absent >= ClientLease-time.Second && (late[client] || !h.blipped(from, to)) {
			out[client] = append(out[client], span{from, to})
		}
	}
	h.ops(func(_ int, at time.Duration, o Op) {
		from, away := since[o.Client]
		late[o.Client] = o.Linger > 0 // it notices by itself after a minute that its session is frozen
		switch {
		case len(o.Values) == 0 && !away:
			if since[o.Client] = at; o.Lease > 0 { // its last request was answered before
				since[o.Client] -= max(0, ClientLease-o.Lease)
			} else if o.Linger > 0 {
				since[o.Client] += o.Linger - ClientLease
			}
		case len(o.Values) > 0 && away:
			note(o.Client, from, at)
			delete(since, o.Client)
		}
	}, OpConnected)
	for client, from := range since {
		note(client, from, h.End())
	}
	for host, spans := range h.faultSpans() {
		for _, s := range spans {
			if late[host] { // its session may have seen the end of the connection, and it sleeps before it connects again
				s.to += 2 * ClientLease
			}
			if strings.HasPrefix(host, "client-") && (late[host] || !h.blipped(s.from, s.to+ClientLease)) {
				out[host] = append(out[host], s)
			}
		}
	}
	return out
}

// blipped reports whether all that failed between two times, and for a session grace
// before, is that one session was paused, connections were reset, and ports were closed
// for a moment. A client finds a session that answers soon then.
func (h *History) blipped(from, to time.Duration) bool {
	count := func(longest time.Duration, verbs ...testbed.Verb) (n int) {
		for _, spans := range h.faultSpans(verbs...) {
			for _, s := range spans {
				if s.from <= to && s.to >= from-SessionGrace && s.to-s.from <= longest {
					n++
				}
			}
		}
		return n
	}
	blips := count(300*time.Millisecond, testbed.Reset, testbed.ClosePort)
	return h.Cluster.Sessions > 1 && blips > 0 && count(h.End(), testbed.Pause) == 1 && count(h.End()) == blips+1
}

// nothingMissing checks that each push contains every registration that the
// subscriber has seen before, until its client withdraws it or is absent
// (absences); and that once a version of a datum has shown a registration to any subscriber,
// every higher version contains it, whichever subscriber receives it, new ones
// included.
//
// While only the clients may have the last changes of a datum (forgotten), only
// the push guard's rule is checked: no list becomes empty or falls under half
// of what the subscriber has.
func nothingMissing(h *History, v *Verdict) {
	absences, losses, forgotten := h.absences(), h.losses(), h.forgotten()
	h.laterVersionsHave(v, absences, losses, forgotten)
	type sub struct{ client, name string }
	knows := map[sub]map[string]int{} // tags seen -> the push that showed it
	ended := map[string][]span{}      // tags withdrawn
	h.ops(func(i int, at time.Duration, o Op) {
		if o.Kind == OpWithdraw {
			ended[o.ID] = []span{{h.lingersUntil(at, o), h.End()}}
			return
		}
		k := sub{o.Client, o.Name}
		now := map[string]int{}
		for _, value := range o.Values {
			if tag, _, ok := ParseValue(value); ok {
				now[tag] = i
			}
		}
		if during(forgotten[o.Name], at, at) {
			live := 0
			for tag := range knows[k] {
				if !during(ended[tag], at, at) {
					live++
				}
			}
			v.check(live == 0 || len(now) > 0 && 2*len(now) >= live, h, at, []int{i}, "%s is pushed %d values of %s; it has seen %d that are live", o.Client, len(now), o.Name, live)
			knows[k] = now
			return
		}
		for _, tag := range slices.Sorted(maps.Keys(knows[k])) {
			seen := knows[k][tag]
			client, _, _ := strings.Cut(tag, "/")
			if _, still := now[tag]; still || during(ended[tag], at, at) || excused(absences, client, h.Entries[seen].At, at) {
				v.Checks++
				continue
			}
			v.check(false, h, at, []int{seen, i}, "%s is pushed %s without %s, which it has seen and which is live", o.Client, o.Name, tag)
		}
		knows[k] = now
	}, OpPush, OpWithdraw)
}

// version is a version of a datum that was pushed.
type version struct {
	number int64
	at     time.Duration // when it was first pushed
	i      int
}

// pushes calls f with each push: with the tags that are in it and, for each tag that
// any push of that datum has shown, the highest version that did; f deletes those of
// which no more is expected. The other ops of the given kinds go to other. Each slot
// has one counter, which only rises, so the pushes of one datum to all subscribers can
// be compared by their versions.
func (h *History) pushes(f func(i int, at time.Duration, o Op, now map[string]bool, shown map[string]version), other func(at time.Duration, o Op), kinds ...OpKind) {
	of := map[string]map[string]version{} // by datum and tag
	h.ops(func(i int, at time.Duration, o Op) {
		if o.Kind != OpPush {
			other(at, o)
			return
		}
		if of[o.Name] == nil {
			of[o.Name] = map[string]version{}
		}
		now := map[string]bool{}
		for _, value := range o.Values {
			tag, _, ok := ParseValue(value)
			if !ok {
				continue
			}
			now[tag] = true
			if o.Version > of[o.Name][tag].number {
				of[o.Name][tag] = version{o.Version, at, i}
			}
		}
		f(i, at, o, now, of[o.Name])
	}, append(kinds, OpPush)...)
}

// laterVersionsHave checks that every version of a datum contains the registrations
// that a lower one has shown to any subscriber.
func (h *History) laterVersionsHave(v *Verdict, absences map[string][]span, losses []span, forgotten map[string][]span) {
	ended := map[string][]span{}
	given := map[[2]string]bool{}                       // subscriptions that have received a list
	missed, connected := h.unreached(), map[string]Op{} // the latter of a client of SOFARegistry with its last session
	h.pushes(func(i int, at time.Duration, o Op, now map[string]bool, seen map[string]version) {
		first := !given[[2]string{o.Client, o.Name}]
		given[[2]string{o.Client, o.Name}] = true
		for _, tag := range slices.Sorted(maps.Keys(seen)) {
			t := seen[tag]
			client, _, _ := strings.Cut(tag, "/")
			switch {
			case during(ended[tag], at, at):
				delete(seen, tag)
			case (len(now) > 0 || !first) && (during(losses, at, at) || during(forgotten[o.Name], at, at)):
				v.Checks++
			case slices.ContainsFunc(missed[o.Name], func(u unreached) bool {
				c, may := connected[client], first
				if u.frozen {
					may = c.Linger > 0 // nothingMissing checks what this subscriber has seen
				}
				return may && u.from <= at && at <= u.to && slices.ContainsFunc(c.Values, func(n string) bool { return strings.HasPrefix(n, u.session+"@") })
			}):
				v.Checks++
			case now[tag] || t.number > o.Version || excused(absences, client, t.at-ClientLease, at):
				v.Checks++
			default:
				v.check(false, h, at, []int{t.i, i}, "%s is pushed %s at version %d without %s, which version %d has and which is live", o.Client, o.Name, o.Version, tag, t.number)
			}
		}
	}, func(at time.Duration, o Op) {
		if o.Kind == OpWithdraw {
			ended[o.ID] = []span{{h.lingersUntil(at, o), h.End()}}
		} else if len(o.Values) > 0 || o.Linger == 0 {
			connected[o.Client] = o
		}
	}, OpWithdraw, OpConnected)
}

// excused reports whether the client was absent at any time between since and
// at.
func excused(absences map[string][]span, client string, since, at time.Duration) bool {
	return during(absences[client], since, at)
}

// versionsRise checks that a subscription is pushed each topic at rising versions, as its
// client receives them and as its session sends them.
func versionsRise(h *History, v *Verdict) {
	last := map[[2]string]seenAt[int64]{}
	h.ops(func(i int, at time.Duration, o Op) {
		k := [2]string{o.ID, o.Name}
		before, known := last[k]
		v.check(!known || o.Version > before.v, h, at, []int{before.i, i}, "%s is pushed %s at version %d after %d", o.Client, o.Name, o.Version, before.v)
		last[k] = seenAt[int64]{o.Version, i}
	}, OpPush)
	// The same for the pushes that the sessions sent, by session and
	// subscription. A client whose link to its session broke subscribes again,
	// and may be sent again what it did not receive. One of SOFARegistry is when it
	// connects again, which it does within milliseconds if its session asked it to move.
	faults := h.faultSpans()
	var broke []time.Duration   // when a client had no session any more
	ofSofa := map[string]bool{} // by client
	h.ops(func(_ int, at time.Duration, o Op) {
		ofSofa[o.Client] = o.Linger > 0
		if len(o.Values) == 0 && o.Lease == 0 {
			broke = append(broke, at)
		}
	}, OpConnected)
	again := func(session string, from, to time.Duration) bool {
		hosts := []string{"", session}
		for host := range faults {
			if strings.HasPrefix(host, "client-") {
				hosts = append(hosts, host)
			}
		}
		if slices.ContainsFunc(broke, func(at time.Duration) bool { return from-2*ClientLease <= at && at <= to }) {
			return true
		}
		return faults.any(from-2*ClientLease, to, hosts...) // a half-open link is noticed within a lease
	}
	pushed := map[owned]seenAt[int64]{} // by subscription
	h.events(func(i int, at time.Duration, c trace.Claim) {
		k := owned{c.Node, c.Key}
		before, known := pushed[k]
		client := c.Key[:max(0, strings.LastIndex(c.Key, "-"))]
		v.check(!known || c.Version > before.v || c.Version == before.v && (ofSofa[client] || again(c.Node.Name, h.Entries[before.i].At, at)), h, at, []int{before.i, i}, "%s pushes %s at version %d after %d", c.Node, c.Subject, c.Version, before.v)
		pushed[k] = seenAt[int64]{c.Version, i}
	}, trace.Pushed)
}

// neverUnread checks that for one incarnation of a session and one datum the
// leader epoch of what the session reads and accepts never falls, and neither
// does the version at that epoch. The version does not fall either when the
// epoch rises, because a new leader begins above all versions that were pushed
// (L6).
func neverUnread(h *History, v *Verdict) {
	last := map[owned]seenAt[trace.Claim]{} // by datum
	h.events(func(i int, at time.Duration, c trace.Claim) {
		k := owned{c.Node, c.Subject}
		b, known := last[k]
		fell := known && (c.Epoch.Less(b.v.Epoch) || c.Epoch == b.v.Epoch && c.Version < b.v.Version)
		v.check(!fell, h, at, []int{b.i, i}, "%s read %s at epoch %s as version %d, after version %d at epoch %s", c.Node, c.Subject, c.Epoch, c.Version, b.v.Version, b.v.Epoch)
		last[k] = seenAt[trace.Claim]{c, i}
	}, trace.Counted)
}

// allStored checks that each change whose acknowledgement a client received, or awaited
// in vain, at a time for which due is true was stored in time.
func (h *History) allStored(v *Verdict, although string, due func(at time.Duration, client string) bool) {
	h.ops(func(i int, at time.Duration, o Op) {
		if due(at, o.Client) {
			v.check(o.Kind == OpStored, h, at, []int{i}, "%s got no acknowledgement within %s that %s is stored, although %s", o.Client, StoredTimeout, o.ID, although)
		}
	}, OpStored, OpUnheard)
}
