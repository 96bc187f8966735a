package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"conclave"
	"conclave/internal/trace"
)

// L1: what a data node accepts by a write was accepted by that session before;
// and what the session has removed there comes back only if it has accepted it
// again.
func storedWasAccepted(h *History, v *Verdict) {
	onlyAccepted(h, v, trace.Stored, func(c trace.Claim, had int64) string {
		return fmt.Sprintf("%s accepted version %d of %s from %s, which had accepted %d", c.Node, c.Version, c.Subject, c.Peer, had)
	})
	h.removedStays(v)
}

// removedStays checks that a registration that a session has dropped, and that
// the leader of its slot has removed, comes back by no write that was sent
// before. Each time a session accepts a registration, a life of it begins; a
// write of a later life than the one that was removed may come at any time. A
// removal that is executed after two lives have ended may belong to the first,
// and the writes of the second may follow it.
func (h *History) removedStays(v *Verdict) {
	type place struct {
		at nodeSlot
		of owned
	}
	type removal struct{ life, ended, i int } // ended: how many lives had ended then
	lives, ended := map[owned]int{}, map[owned][]int{}
	removed, joining := map[place]removal{}, h.joining()
	h.events(func(i int, at time.Duration, c trace.Claim) {
		switch c.Kind {
		case trace.Accepted:
			lives[owned{c.Node, c.Subject}]++
		case trace.Dropped:
			of := owned{c.Node, c.Subject}
			if at <= joining && ended[of] == nil {
				ended[of] = []int{0} // one may have ended before it
			}
			ended[of] = append(ended[of], lives[of])
		case trace.Removed:
			of := owned{c.Peer, c.Subject}
			at := place{nodeSlot{c.Node, c.Slot}, of}
			life, all := removed[at].life, ended[of]
			if since := all[removed[at].ended:]; len(since) > 0 {
				life = since[0]
			}
			removed[at] = removal{life, len(all), i}
		case trace.Stored:
			of := owned{c.Peer, c.Subject}
			r := removed[place{nodeSlot{c.Node, c.Slot}, of}]
			v.check(r.life == 0 || lives[of] > r.life, h, at, []int{r.i, i}, "%s accepts %s from %s, which has dropped it and had it removed", c.Node, c.Subject, c.Peer)
		}
	}, trace.Accepted, trace.Dropped, trace.Removed, trace.Stored)
}

// onlyAccepted checks that no event of a data node about a session names a
// higher version of a registration than that session had accepted before.
func onlyAccepted(h *History, v *Verdict, kind trace.Kind, describe func(c trace.Claim, had int64) string) {
	accepted := map[owned]seenAt[int64]{}
	h.events(func(i int, at time.Duration, c trace.Claim) {
		if c.Kind == trace.Accepted {
			k := owned{c.Node, c.Subject}
			accepted[k] = seenAt[int64]{max(accepted[k].v, c.Version), i}
			return
		}
		a, had := accepted[owned{c.Peer, c.Subject}]
		v.check(had && c.Version <= a.v || h.Joined && !had, h, at, []int{a.i, i}, "%s", describe(c, a.v))
	}, trace.Accepted, kind)
}

// withdrawnForAll checks withdrawals across subscribers: once a subscriber has
// been pushed a version of a datum without a registration that was shown before
// and has been withdrawn, no higher version shows it to any subscriber.
func (h *History) withdrawnForAll(v *Verdict) {
	absences, forgotten := h.absences(), h.forgotten()
	gone, withdrawn := map[string]version{}, map[string]bool{} // by tag
	h.pushes(func(i int, at time.Duration, o Op, now map[string]bool, seen map[string]version) {
		for _, tag := range slices.Sorted(maps.Keys(now)) {
			if during(forgotten[o.Name], at, at) {
				delete(gone, tag)
			}
			if g, is := gone[tag]; is {
				v.check(o.Version < g.number, h, at, []int{g.i, i}, "%s is pushed %s at version %d with %s, which was withdrawn and is not in version %d", o.Client, o.Name, o.Version, tag, g.number)
			}
		}
		for _, tag := range slices.Sorted(maps.Keys(seen)) {
			t := seen[tag]
			client, _, _ := strings.Cut(tag, "/")
			if !withdrawn[tag] || now[tag] || o.Version < t.number {
				continue
			}
			delete(seen, tag)
			if !excused(absences, client, t.at-ClientLease, at) {
				gone[tag] = version{o.Version, at, i}
			}
		}
	}, func(_ time.Duration, o Op) { withdrawn[o.ID] = withdrawn[o.ID] || o.Version > 0 }, OpWithdraw)
}

// L7: a subscriber sees the values of one registration in the order in which
// they were published, and not again after it has seen the withdrawal. The
// versions that one leader of a slot accepts of it from one session never fall.
func publishersInOrder(h *History, v *Verdict) {
	forgotten := h.forgotten()
	returned := map[string]bool{}       // tags whose withdrawal was lost: they stay until their session's grace has ended
	last := map[[2]string]seenAt[int]{} // by client and tag
	withdrawn := map[string]bool{}
	before := map[[2]string][]string{}   // by client and datum: the tags that it was pushed last
	gone := map[[2]string]seenAt[bool]{} // by client and tag: whether it has seen the withdrawal
	published := map[string]int{}
	h.ops(func(i int, at time.Duration, o Op) {
		if o.Kind == OpPublish {
			published[o.ID] = max(published[o.ID], int(o.Version))
			return
		}
		if o.Kind == OpWithdraw {
			withdrawn[o.ID] = withdrawn[o.ID] || o.Version > 0 // 0: its client was killed
			return
		}
		now := map[string]bool{}
		for _, value := range o.Values {
			tag, n, ok := ParseValue(value)
			if !ok {
				continue
			}
			k := [2]string{o.Client, tag}
			seen := last[k]
			if during(forgotten[o.Name], at, at) {
				returned[tag] = true
				seen.v = min(seen.v, n)
			}
			v.check(n >= seen.v, h, at, []int{seen.i, i}, "%s sees value %d of %s after value %d", o.Client, n, tag, seen.v)
			v.check(n <= published[tag], h, at, []int{i}, "%s sees value %d of %s, of which %d were published", o.Client, n, tag, published[tag])
			last[k] = seenAt[int]{max(n, seen.v), i}
			v.check(!gone[k].v || returned[tag], h, at, []int{gone[k].i, i}, "%s sees %s again, which was withdrawn and was gone", o.Client, tag)
			now[tag] = true
		}
		of := [2]string{o.Client, o.Name}
		for _, tag := range before[of] {
			if withdrawn[tag] && !now[tag] {
				gone[[2]string{o.Client, tag}] = seenAt[bool]{true, i}
			}
		}
		before[of] = slices.Sorted(maps.Keys(now))
	}, OpPublish, OpWithdraw, OpPush)
	h.withdrawnForAll(v)
	h.storedRises(v)
}

// storedRises checks that the versions that one leader of a slot accepts of one
// session's registration never fall.
func (h *History) storedRises(v *Verdict) {
	type key struct {
		at    nodeSlot
		epoch conclave.Epoch
		of    owned
	}
	stored := map[key]seenAt[int64]{}
	h.events(func(i int, at time.Duration, c trace.Claim) {
		k := key{nodeSlot{c.Node, c.Slot}, c.Epoch, owned{c.Peer, c.Subject}}
		before := stored[k]
		v.check(c.Version >= before.v, h, at, []int{before.i, i}, "%s accepts version %d of %s from %s after version %d", c.Node, c.Version, c.Subject, c.Peer, before.v)
		stored[k] = seenAt[int64]{c.Version, i}
	}, trace.Stored)
}

// L8: a removal by a write comes from a session that had accepted the
// registration, and names no higher version than the session had accepted.
func ownersRemove(h *History, v *Verdict) {
	onlyAccepted(h, v, trace.Removed, func(c trace.Claim, had int64) string {
		return fmt.Sprintf("%s has %s removed at version %d, and had accepted %d", c.Peer, c.Subject, c.Version, had)
	})
}

// L11: a read finds nothing only if data held no live copy: one of a session
// that still has the registration and that no fault has affected. A session
// that its client has left settles its old copy with every new leader until the
// client lease has ended; that copy is live only if its version is not below
// one that was withdrawn elsewhere, or removed from data with its client: a
// removal does not show what is older. A leader that does not know
// yet that its slot was granted to another node cannot know what was settled at
// a higher epoch; whether a session accepts its answer is checked by L3.
func nothingEmpty(h *History, v *Verdict) {
	live := liveCopies{map[string]map[owned]seenAt[conclave.Epoch]{}, map[string]int64{}, map[owned]bool{}}
	for i, e := range h.Entries {
		if e.Event == nil || e.Event.Kind != trace.Read {
			live.apply(h, i, e)
			continue
		}
		c := *e.Event
		holds, evidence := true, []int(nil)
		for _, s := range live.by[c.Subject] {
			if c.Count == 0 && !c.Flag && !c.Epoch.Less(s.v) {
				holds, evidence = false, []int{s.i, i}
				break
			}
		}
		v.check(holds, h, e.At, evidence, "%s answers that nothing is published under %s", c.Node, c.Subject)
	}
}

// liveCopies are the copies that a read must find.
type liveCopies struct {
	by        map[string]map[owned]seenAt[conclave.Epoch] // by dataId: the lowest epoch at which a copy was settled
	withdrawn map[string]int64                            // by registration: the highest version that was withdrawn, or removed from data
	accepted  map[owned]bool
}

// apply takes the next entry.
func (l *liveCopies) apply(h *History, i int, e Entry) {
	forget := func(gone func(owned) bool) {
		for _, copies := range l.by {
			maps.DeleteFunc(copies, func(c owned, _ seenAt[conclave.Epoch]) bool { return gone(c) })
		}
	}
	if f := e.Fault; f != nil && f.Err == nil && strings.HasPrefix(f.Node+" "+f.Peer, "session-") || f != nil && strings.HasPrefix(f.Peer, "session-") {
		forget(func(c owned) bool { return c.session.Name == f.Node || c.session.Name == f.Peer })
	}
	c := e.Event
	if c == nil {
		return
	}
	this := owned{c.Node, c.Subject}
	hide := func() { l.withdrawn[c.Subject] = max(l.withdrawn[c.Subject], c.Version) }
	switch c.Kind {
	case trace.Settled:
		if l.by[c.Key] == nil {
			l.by[c.Key] = map[owned]seenAt[conclave.Epoch]{}
		}
		if c.Flag || c.Version < l.withdrawn[c.Subject] || h.Joined && !l.accepted[this] { // it may have been withdrawn elsewhere
			return
		}
		epoch := c.Epoch
		if before, had := l.by[c.Key][this]; had && before.v.Less(epoch) {
			epoch = before.v
		}
		l.by[c.Key][this] = seenAt[conclave.Epoch]{epoch, i}
	case trace.Removed:
		hide()
	case trace.Accepted, trace.Dropped:
		l.accepted[this] = c.Kind == trace.Accepted && !c.Flag
		switch {
		case c.Flag:
			hide()
		case c.Kind == trace.Accepted && c.Version >= l.withdrawn[c.Subject]: // it is there again, and hides what is older itself
			delete(l.withdrawn, c.Subject)
		}
		if c.Flag || c.Kind == trace.Dropped {
			forget(func(x owned) bool { return x.id == c.Subject })
		}
	}
}
