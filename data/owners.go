package data

import (
	"maps"
	"slices"
	"sync"
	"time"

	"conclave"
	"conclave/wire"
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
	view  *wire.View
	grace time.Duration        // the session grace
	lease func() time.Duration // how long the cluster waits for a silent node

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
	members := o.view.State().Members
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
	for _, m := range o.view.State().Members.Of(conclave.RoleSession) {
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
	for _, m := range o.view.State().Members.Lost {
		out = append(out, m.Node)
	}
	return out
}

// anyInGrace reports whether some session is away and its grace has not ended.
func (o *owners) anyInGrace() bool {
	members := o.view.State().Members
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
	members := o.view.State().Members
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
func (o *owners) alive(n conclave.NodeID) bool { return slices.Contains(o.living(), n) }

// excuse leaves a time out of all that is counted against sessions: this process
// was late by it, and could receive nothing. What began in that time counts from
// now.
func (o *owners) excuse(late time.Duration, now time.Time) {
	if late == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.known {
		for _, since := range []*time.Time{&p.goneSince, &p.undialled, &p.unanswered, &p.givenUp} {
			if since.IsZero() {
				continue
			}
			if *since = since.Add(late); since.After(now) {
				*since = now
			}
		}
	}
}

// sweep checks every owner of a copy and returns those whose grace has ended.
// unsure reports that no meta leader has answered for a lease, or that
// no session is alive: then an owner's absence is no evidence against its
// clients.
func (o *owners) sweep(copies map[conclave.NodeID]int, unsure bool, now time.Time) (expired []conclave.NodeID) {
	members := o.view.State().Members
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
		case p.feeds > 0 || p.listed || unsure:
			p.goneSince = time.Time{}
		case p.goneSince.IsZero():
			p.goneSince = now
		case now.Sub(p.goneSince) >= o.grace:
			if copies[n] == 0 {
				delete(o.known, n)
			} else {
				expired = append(expired, n)
			}
		}
	}
	return expired
}

// Before a slot serves, every session that may hold a publisher of it must
// answer a diff. Some sessions can never be asked: a member whose address
// nothing listens at, or an owner of a feed opened under an invented name. A
// migration gives such a session up (docs/adr/0035) if all of this holds:
//
//  1. The session cannot be dialled: for a node lease and a session grace, every
//     attempt since the grant, and since another session's first answer, was a
//     failed dial (wire.DialFailed). For a session that is not on the member
//     list, every attempt without an answer counts. A member that accepts
//     connections and does not answer is waited for until it leaves the list.
//  2. This node receives messages from a meta leader, so the member list is
//     current.
//  3. The fault is not this node's own: another session has answered it in this
//     migration, or the session itself has sent it a request within a lease.
//
// A session that was given up once is given up for each later slot after one
// failed attempt, as long as no attempt to ask it succeeds.
//
// What the session had and the copy lacks is then missing: the slot is partial
// until a diff with the session completes or the session is gone. Until then
// the slot's data are marked unconfirmed.

// attempt records the result of asking a session: dialled reports whether a
// connection was made, answered whether the session answered.
func (o *owners) attempt(n conclave.NodeID, dialled, answered bool, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.of(n)
	since := func(t time.Time, ok bool) time.Time {
		switch {
		case ok:
			return time.Time{}
		case t.IsZero():
			return now
		}
		return t
	}
	if !answered {
		p.failed = now
	}
	p.undialled = since(p.undialled, dialled)
	p.unanswered = since(p.unanswered, answered)
}

// giveUpAt returns when a migration may give a session up if nothing changes
// until then, or zero if the session must be waited for. Only attempts since
// from count, unless it was given up before. answered reports whether another
// session has answered.
func (o *owners) giveUpAt(n conclave.NodeID, from time.Time, answered bool, now time.Time) time.Time {
	lease := o.lease()
	listed := o.view.State().Members.Has(n)
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.known[n]
	if p == nil || !answered && now.Sub(p.lastContact) > lease {
		return time.Time{}
	}
	since := p.failing(listed)
	if since.IsZero() || since.Equal(p.givenUp) && !p.failed.Before(from) {
		return since // it was given up before, and has just failed again
	}
	if since.Before(from) {
		since = from
	}
	return since.Add(lease + o.grace)
}

// failing returns since when every attempt to ask the session has failed in the
// way that counts, or zero if the last one did not.
func (p *presence) failing(listed bool) time.Time {
	if listed {
		return p.undialled
	}
	return p.unanswered
}

// noteGivenUp records that a slot is served without these sessions. As long as
// no attempt succeeds, one more failure is enough to give them up again.
func (o *owners) noteGivenUp(sessions []conclave.NodeID) {
	members := o.view.State().Members
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range sessions {
		p := o.of(n)
		p.givenUp = p.failing(members.Has(n))
	}
}

// Everything that is visible outside of this node is made in sorted order, so
// that a run in a bubble can be repeated.
func sortedNodes[V any](m map[conclave.NodeID]V) []conclave.NodeID {
	return slices.SortedFunc(maps.Keys(m), conclave.NodeID.Compare)
}
