package data

import (
	"context"
	"errors"
	"time"

	"conclave"
	"conclave/wire"
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
	lease := o.server.lease()
	listed := o.server.view.State().Members.Has(n)
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
	return since.Add(lease + o.server.config.SessionGrace)
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
	members := o.server.view.State().Members
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range sessions {
		p := o.of(n)
		p.givenUp = p.failing(members.Has(n))
	}
}

// givenUp reports whether a migration continues without a session.
func (s *slots) givenUp(m *migration, n conclave.NodeID, now time.Time) bool {
	if s.server.LeaderLost() {
		return false
	}
	at := s.givenUpAt(m, n, now)
	return !at.IsZero() && !now.Before(at)
}

// givenUpAt returns when a migration will continue without a session if nothing
// changes until then, or zero if the session must be waited for.
func (s *slots) givenUpAt(m *migration, n conclave.NodeID, now time.Time) time.Time {
	from := m.began
	if len(m.answered) > 0 {
		from = m.firstAnswer // earlier failures may have been this node's own fault
	}
	return s.server.owners.giveUpAt(n, from, len(m.answered) > 0, now)
}

// unreached returns the living sessions that have not answered a migration that
// asks sessions. When the slot begins to serve, these are the ones that were
// given up.
func (s *slots) unreached(m *migration) []conclave.NodeID {
	var out []conclave.NodeID
	for _, n := range s.server.owners.living() {
		if m.phase == asking && !m.answered[n] {
			out = append(out, n)
		}
	}
	return out
}

// A session that is off the member list may be alive: its lease ends while it is
// cut off from the meta leader alone. A slot with a copy lacks nothing of it. A
// slot without a copy has only what sessions answer, so it asks the lost
// sessions as well, and waits until each has answered, a dial has failed,
// another incarnation has answered at its address, or a node lease has passed
// since the grant (docs/adr/0037).

// lostUntil returns until when a migration waits for the lost sessions, or zero
// if it has a copy.
func (s *slots) lostUntil(m *migration) time.Time {
	m.r.mu.Lock()
	defer m.r.mu.Unlock()
	if !m.r.copyEpoch.IsZero() {
		return time.Time{}
	}
	return m.began.Add(s.server.lease())
}

// isRefused reports whether a session that need not answer has shown that it
// cannot: its last attempt was a failed dial, or another incarnation has taken
// its place.
func (o *owners) isRefused(n conclave.NodeID, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.known[n]
	return errors.Is(err, errNotThatOwner) || p != nil && !p.undialled.IsZero()
}

// noteFailure records why a session did not answer. To distinguish a failed
// dial from silence it dials once more, because a call may end before its dial
// does.
func (d *differ) noteFailure(ctx context.Context, session conclave.NodeID, err error) {
	dialled := !wire.DialFailed(err)
	if address := d.server.owners.address(session); dialled && address != "" {
		err = d.server.peers.Dial(ctx, address)
		dialled = !wire.DialFailed(err)
	} else if address == "" {
		dialled = false // it never said at which address it can be asked
	}
	if ctx.Err() == nil {
		d.server.owners.attempt(session, dialled, false, time.Now())
	}
}

// watchPartial keeps the mark on a slot that is served without a session until
// that session is gone. mu is held.
func (r *replica) watchPartial(living []conclave.NodeID, now time.Time) {
	for n := range r.partial {
		if !containsNode(living, n) {
			delete(r.partial, n)
		}
	}
	if len(r.partial) > 0 {
		r.store.Prolong(now.Add(r.grace), now)
		for n := range r.partial {
			r.repairWith(n) // compare with it in each round of repair
		}
	}
}
