package data

import (
	"time"

	"conclave"
)

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

// isRefused reports whether the last attempt to ask a session was a failed
// dial.
func (o *owners) isRefused(n conclave.NodeID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.known[n]
	return p != nil && !p.undialled.IsZero()
}
