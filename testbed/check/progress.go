package check

import (
	"slices"
	"strings"
	"time"

	"conclave/internal/trace"
)

// progressMade checks that what is expected after the healing becomes true in
// time. A list that the push guard may hold back (mayHold) counts as missing
// only when the guard's time has ended.
func progressMade(h *History, v *Verdict) {
	p := progress{h: h, pushed: map[string][]string{}, died: map[string]time.Duration{}, ended: map[string]bool{}, incomplete: map[int]time.Duration{}}
	h.events(func(_ int, at time.Duration, c trace.Claim) {
		if c.Key == trace.Incomplete && !c.Flag {
			p.incomplete[c.Slot] = at
		}
	}, trace.Serving)
	h.ops(func(i int, at time.Duration, o Op) {
		switch o.Kind {
		case OpHealed:
			p.healed = at
		case OpPush:
			p.pushed[ListName(o.Client, o.Name)] = o.Values
		case OpWithdraw:
			p.ended[o.ID] = true
			if o.Version == 0 {
				p.died[o.ID] = at
			}
		case OpProgress:
			wrong := slices.DeleteFunc(slices.Clone(o.Values), func(list string) bool { return p.mayHold(list, at) })
			if len(wrong) > 0 {
				v.check(false, h, at, []int{i}, "%v; the push guard has no reason to hold %s", o.Err, strings.Join(wrong, ", "))
			} else {
				v.check(o.Err == nil || len(o.Values) > 0, h, at, []int{i}, "%v", o.Err)
			}
		}
	}, OpWithdraw, OpPush, OpHealed, OpProgress)
}

// Full is the expectation that every list is complete. The Values of its
// OpProgress name the lists that are not.
const Full = "full"

// ListName returns the name of one subscriber's list of one dataId in the
// Values of an OpProgress.
func ListName(client, name string) string { return client + " " + name }

// progress is why lists may be held back, as far as a history shows it.
type progress struct {
	h          *History
	healed     time.Duration
	pushed     map[string][]string      // by list: its values
	died       map[string]time.Duration // by tag: when its client ended without withdrawing it
	ended      map[string]bool          // by tag: withdrawn, or its client ended
	incomplete map[int]time.Duration    // by slot: when it was last served without all registrations
}

// mayHold reports whether the push guard may hold a list back: it still shows a
// registration of a client that ended without withdrawing it, or one that was
// withdrawn and its slot was served incomplete, so that the withdrawal may have
// been lost (ADR 0047). Since then, and since the healing, a lease and a session
// grace may pass until the registration is removed, and another grace and
// GuardGrace until the guard gives up. By how much a list shrinks, and whether its
// session knows that the client is gone, is the guard's own rule, which package
// session/registry tests.
func (p *progress) mayHold(list string, at time.Duration) bool {
	_, name, _ := strings.Cut(list, " ")
	lasts := func(since time.Duration) bool {
		return at <= max(since, p.healed)+p.h.Cluster.Lease+2*SessionGrace+GuardGrace
	}
	id, _ := p.h.slotOf(name)
	served, incomplete := p.incomplete[id]
	return slices.ContainsFunc(p.pushed[list], func(value string) bool {
		tag, _, ok := ParseValue(value)
		since, died := p.died[tag]
		return ok && (died && lasts(since) || p.ended[tag] && incomplete && lasts(served))
	})
}
