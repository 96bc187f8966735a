package chaos

import (
	"maps"
	"slices"
	"strings"
	"time"

	"conclave"
	"conclave/internal/trace"
)

// I6, I7, I10, I11 and I13: what clients see, and what sessions believe.
var clientJudges = []judge{
	{"I6", "what live clients publish is readable, once quiet", readableOnceQuiet},
	{"I7", "no empty or shrunken push while the publishers live", nothingMissing},
	{"I10", "after healing a leader within one lease, and slots even and lists full within ten seconds more", progressMade},
	{"I11", "versions rise per subscriber", versionsRise},
	{"I13", "what a session has read of a slot it never un-reads", neverUnread},
}

func readableOnceQuiet(h *History, v *Verdict) {
	read := map[string]seenAt[[]string]{}
	h.ops(func(i int, at time.Duration, o Op) {
		if o.Kind == OpRead {
			read[o.Name] = seenAt[[]string]{o.Values, i}
			return
		}
		r, any := read[o.Name]
		v.check(any && slices.Equal(r.v, o.Values), h, at, []int{r.i, i}, "a fresh reader sees %s as %v, live clients publish %v", o.Name, r.v, o.Values)
	}, OpRead, OpWant)
}

// clientLease is how long a client may be without a session before what it
// published may go: the processes' default.
const clientLease = 5 * time.Second

// absences lists, for each client, when no session has known it for so long that
// its registrations may have been taken away, or when a fault sat on its own
// links: then nothing of it is demanded until it was seen again.
func (h *History) absences() map[string][]span {
	out := map[string][]span{}
	since := map[string]time.Duration{}
	note := func(client string, from, to time.Duration) {
		if to-from >= clientLease-time.Second {
			out[client] = append(out[client], span{from, to})
		}
	}
	h.ops(func(_ int, at time.Duration, o Op) {
		from, away := since[o.Client]
		switch {
		case len(o.Values) == 0 && !away:
			since[o.Client] = at
		case len(o.Values) > 0 && away:
			note(o.Client, from, at)
			delete(since, o.Client)
		}
	}, OpConnected)
	for client, from := range since {
		note(client, from, h.end())
	}
	for host, spans := range h.faultSpans() {
		if strings.HasPrefix(host, "client-") {
			out[host] = append(out[host], spans...)
		}
	}
	return out
}

// nothingMissing: from the moment at which a subscriber has seen a registration,
// each of its pushes has it, until its client withdraws it or is gone.
func nothingMissing(h *History, v *Verdict) {
	absences := h.absences()
	type sub struct{ client, name string }
	knows := map[sub]map[string]int{} // tags seen -> the push that showed it
	ended := map[string]bool{}        // tags withdrawn
	excused := func(client string, since, at time.Duration) bool {
		return slices.ContainsFunc(absences[client], func(s span) bool { return s.to >= since && s.from <= at })
	}
	h.ops(func(i int, at time.Duration, o Op) {
		if o.Kind == OpWithdraw {
			ended[o.ID] = true
			return
		}
		k := sub{o.Client, o.Name}
		now := map[string]int{}
		for _, value := range o.Values {
			if tag, _, ok := parseValue(value); ok {
				now[tag] = i
			}
		}
		for _, tag := range slices.Sorted(maps.Keys(knows[k])) {
			seen := knows[k][tag]
			client, _, _ := strings.Cut(tag, "/")
			if _, still := now[tag]; still || ended[tag] || excused(client, h.Entries[seen].At, at) {
				v.Checks++
				continue
			}
			v.check(false, h, at, []int{seen, i}, "%s is pushed %s without %s, which it has seen and which is live", o.Client, o.Name, tag)
		}
		knows[k] = now
	}, OpPush, OpWithdraw)
}

func progressMade(h *History, v *Verdict) {
	h.ops(func(i int, at time.Duration, o Op) {
		v.check(o.Err == nil, h, at, []int{i}, "%v", o.Err)
	}, OpProgress)
}

func versionsRise(h *History, v *Verdict) {
	last := map[[2]string]seenAt[int64]{}
	h.ops(func(i int, at time.Duration, o Op) {
		k := [2]string{o.ID, o.Name}
		before, known := last[k]
		v.check(!known || o.Version > before.v, h, at, []int{before.i, i}, "%s is pushed %s at version %d after %d", o.Client, o.Name, o.Version, before.v)
		last[k] = seenAt[int64]{o.Version, i}
	}, OpPush)
	// And as the sessions gave them out: one subscription at one session.
	type given struct {
		session conclave.NodeID
		sub     string
	}
	pushed := map[given]seenAt[int64]{}
	h.claims(func(i int, at time.Duration, c trace.Claim) {
		k := given{c.Node, c.Key}
		before, known := pushed[k]
		v.check(!known || c.Version > before.v, h, at, []int{before.i, i}, "%s pushes %s at version %d after %d", c.Node, c.Subject, c.Version, before.v)
		pushed[k] = seenAt[int64]{c.Version, i}
	}, trace.Pushed)
}

// neverUnread: for one session incarnation and one datum of a slot, what is read
// and believed never falls: neither the leader epoch that answered, nor the
// version at it; nor does the version fall when the epoch rises, because a new
// leader begins above all that was given out.
func neverUnread(h *History, v *Verdict) {
	type key struct {
		session conclave.NodeID
		name    string
	}
	type reading struct {
		epoch   conclave.Epoch
		version int64
	}
	last := map[key]seenAt[reading]{}
	h.claims(func(i int, at time.Duration, c trace.Claim) {
		k := key{c.Node, c.Subject}
		b, known := last[k]
		fell := known && (c.Epoch.Less(b.v.epoch) || c.Epoch == b.v.epoch && c.Version < b.v.version)
		v.check(!fell, h, at, []int{b.i, i}, "%s read %s at epoch %s as version %d, after version %d at epoch %s", c.Node, c.Subject, c.Epoch, c.Version, b.v.version, b.v.epoch)
		last[k] = seenAt[reading]{reading{c.Epoch, c.Version}, i}
	}, trace.Counted)
}
