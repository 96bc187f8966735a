package data

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	wirev1 "conclave/wire/v1"
)

// owners tracks which session incarnations are alive and at which addresses
// (sessionLeaseManager in article 002).
//
// The publishers of a lost session stay for the session grace, because its
// clients are about to register again at another session. The grace is counted
// on this node's own monotonic clock, from the first moment at which the
// incarnation is not on the member list and has no connection or recent answer
// here; any sign of life restarts it.
//
// It is counted only while there is evidence: a meta leader, which keeps the
// member list, and at least one living session, to which the clients could have
// moved. While either is missing nothing is removed, and when both are back
// every count starts again. After an outage of all sessions the copies
// therefore stay for one more grace from the first session that is back: its
// settling time.
type owners struct {
	server *Server

	mu    sync.Mutex // guards known
	known map[conclave.NodeID]*presence
}

// presence is what this node knows of one session incarnation.
type presence struct {
	address   string
	feeds     int       // open Watch streams
	goneSince time.Time // when its grace began; zero while it is alive
	listed    bool      // when sweep last looked

	lastContact time.Time // when it last sent a request, or answered one
	undialled   time.Time // since when every attempt to ask it was a failed dial; zero if the last one was not
	unanswered  time.Time // since when no attempt to ask it was answered
	failed      time.Time // when the last attempt failed
	givenUp     time.Time // undialled or unanswered when it was given up last; see giveUpAt
}

// of returns what is known of a session, and adds it if nothing is.
func (o *owners) of(n conclave.NodeID) *presence {
	p := o.known[n]
	if p == nil {
		p = &presence{}
		o.known[n] = p
	}
	return p
}

// noteContact records a sign of life.
func (o *owners) noteContact(n conclave.NodeID, address string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.of(n)
	p.goneSince, p.lastContact = time.Time{}, time.Now()
	if address != "" {
		p.address = address
	}
}

// connected records that a session has opened its change feed.
func (o *owners) connected(n conclave.NodeID, address string) {
	o.noteContact(n, address)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(n).feeds++
}

// disconnected records that a session's change feed has ended. The grace begins
// with the next sweep at the earliest.
func (o *owners) disconnected(n conclave.NodeID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.of(n)
	p.feeds--
	p.goneSince = time.Time{}
}

// address returns a session's address: from the member list, or as the session
// itself advertised it; "" if neither is known.
func (o *owners) address(n conclave.NodeID) string {
	members := o.server.view.State().Members
	for _, m := range slices.Concat(members.List, members.Lost) {
		if m.Node == n {
			return m.Address
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.known[n]; p != nil {
		return p.address
	}
	return ""
}

// living returns the sessions that are members or connected, sorted; these are
// the ones that a migration waits for.
func (o *owners) living() []conclave.NodeID {
	set := map[conclave.NodeID]bool{}
	for _, m := range o.server.view.State().Members.Of(conclave.RoleSession) {
		set[m.Node] = true
	}
	o.mu.Lock()
	for n, p := range o.known {
		if p.feeds > 0 {
			set[n] = true
		}
	}
	o.mu.Unlock()
	return sortedNodes(set)
}

// lost returns the sessions that are off the member list and not known to be
// dead, in the order in which they were removed.
func (o *owners) lost() []conclave.NodeID {
	var out []conclave.NodeID
	for _, m := range o.server.view.State().Members.Lost {
		out = append(out, m.Node)
	}
	return out
}

// anyInGrace reports whether some session is away and its grace has not ended.
func (o *owners) anyInGrace() bool {
	members := o.server.view.State().Members
	o.mu.Lock()
	defer o.mu.Unlock()
	for n, p := range o.known {
		if p.feeds == 0 && !members.Has(n) {
			return true
		}
	}
	return false
}

// allKnown returns the sessions that are alive, or whose grace has not ended,
// sorted.
func (o *owners) allKnown() []conclave.NodeID {
	o.mu.Lock()
	defer o.mu.Unlock()
	return sortedNodes(o.known)
}

// isBack reports whether a session whose grace has ended has shown a sign of
// life since.
func (o *owners) isBack(n conclave.NodeID) bool {
	members := o.server.view.State().Members
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.known[n]
	return members.Has(n) || p != nil && (p.feeds > 0 || p.goneSince.IsZero())
}

// isKnown reports whether a session is alive or its grace has not ended.
func (o *owners) isKnown(n conclave.NodeID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[n] != nil
}

// alive reports whether a session is a member or connected.
func (o *owners) alive(n conclave.NodeID) bool { return containsNode(o.living(), n) }

// sweep checks every owner of a copy and returns those whose grace has ended.
// unsure reports that no meta leader has answered for a lease, or that
// no session is alive: then an owner's absence is no evidence against its
// clients.
func (o *owners) sweep(copies map[conclave.NodeID]int, unsure bool, now time.Time) (expired []conclave.NodeID) {
	members := o.server.view.State().Members
	o.mu.Lock()
	defer o.mu.Unlock()
	for n := range copies {
		o.of(n)
	}
	for _, n := range sortedNodes(o.known) {
		p := o.known[n]
		p.listed = members.Has(n)
		if unsure { // attempts made meanwhile prove nothing
			p.undialled, p.unanswered = time.Time{}, time.Time{}
		}
		switch {
		case p.feeds > 0 || p.listed:
			p.goneSince = time.Time{}
		case unsure:
			p.goneSince = time.Time{}
		case p.goneSince.IsZero():
			p.goneSince = now
		case now.Sub(p.goneSince) >= o.server.config.SessionGrace:
			if copies[n] == 0 {
				delete(o.known, n)
			} else {
				expired = append(expired, n)
			}
		}
	}
	return expired
}

// runSweep removes the copies of lost owners and drops tombstones that hide
// nothing any more. Copies are removed only in slots that are served: the feeds
// carry the removals to the followers, whose stores are merely pruned.
func (s *Server) runSweep(ctx context.Context) {
	ticker := time.NewTicker(s.config.Beat)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		copies := map[conclave.NodeID]int{}
		living := s.owners.living()
		for _, r := range s.slots.all() {
			r.mu.Lock()
			if r.state == slot.Serving {
				r.watchPartial(living, now)
			}
			if len(living) == 0 && r.store != nil && r.store.Marked(now) > 0 {
				until := now.Add(s.config.SessionGrace) // meanwhile no session could confirm anything
				r.store.Mark(until)
				r.store.Prolong(until, now)
			}
			switch {
			case n%5 != 0 || r.store == nil:
			case r.state == slot.Serving:
				r.store.Compact(now.Add(-s.config.SessionGrace), now)
				maps.DeleteFunc(r.numbers, func(session conclave.NodeID, _ uint64) bool { return !s.owners.isKnown(session) })
				r.publish(&s.watchers)
			default:
				r.store.Prune(now)
			}
			if r.store != nil {
				for _, owner := range r.store.Owners() {
					n, _ := r.store.Digest(owner)
					copies[owner] += int(n)
				}
			}
			r.mu.Unlock()
		}
		for _, owner := range s.owners.sweep(copies, len(living) == 0 || s.LeaderLost(), now) {
			s.removeOwner(owner, now)
		}
		s.wakeFeeds()
	}
}

// removeOwner removes a lost session's copies slot by slot, and stops if the
// session returns. It checks that with the slot's lock held: a session that
// opens its feed is first recorded as connected, then shown the slot, then
// compared with it.
func (s *Server) removeOwner(owner conclave.NodeID, now time.Time) {
	removed := 0
	for _, r := range s.slots.all() {
		r.mu.Lock()
		if r.state == slot.Serving && !s.owners.isBack(owner) {
			n := r.store.RemoveOwner(owner, wirev1.Cause_CAUSE_OWNER_GONE, now)
			removed += n
			r.trace.Claim(trace.Claim{Kind: trace.OwnerGone, Slot: r.id, Epoch: r.epoch, Peer: owner, Count: n})
			r.publish(&s.watchers)
		}
		r.mu.Unlock()
	}
	if removed > 0 {
		s.noteOwnerGone(owner, removed)
	}
}
