package data

import (
	"context"
	"time"

	"conclave"
	"conclave/wire"
)

// A slot that starts to serve waits for every session that may hold a publisher
// of it. One that this node can never ask would be waited for for ever: a member
// whose address nothing listens at, or a feed opened under an invented name. Such
// a session is given up for that slot (docs/adr/0035) when all of this holds:
//
//  1. It cannot be dialled: every try since the grant, and since the first answer
//     of another session, has ended in a failed dial (wire.DialFailed), for a node
//     lease and a session grace. For a session that
//     is not on the member list any try without an answer counts. A member that
//     accepts connections and is silent is waited for until it leaves the list.
//  2. A leader is heard, so the member list is worth something.
//  3. The fault is not this node's own: another session has answered it in this
//     migration, or the session itself has sent it a request within a lease.
//
// What the session had and the copy lacks is missing from then on: the slot is
// partial until a diff with the session is complete, or the session is gone. As
// long as that lasts the slot's data are marked unconfirmed.

// attempt notes how a try to ask a session ended: dialled reports whether a
// connection was made, answered whether the session answered on it.
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
	p.undialled = since(p.undialled, dialled)
	p.unanswered = since(p.unanswered, answered)
}

// unreachable returns when a session may be given up by a migration, if nothing
// changes until then; zero: it is waited for. Only tries since the given moment
// count. heard reports whether another session has answered.
func (o *owners) unreachable(n conclave.NodeID, from time.Time, heard bool, now time.Time) time.Time {
	lease := o.server.lease()
	listed := o.server.view.State().Members.Has(n)
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.known[n]
	if p == nil || !heard && now.Sub(p.spoke) > lease {
		return time.Time{}
	}
	since := p.undialled
	if !listed {
		since = p.unanswered
	}
	if since.IsZero() {
		return time.Time{}
	}
	if since.Before(from) {
		since = from
	}
	return since.Add(lease + o.server.config.SessionGrace)
}

// givenUp reports whether a migration goes on without a session.
func (s *slots) givenUp(m *migration, n conclave.NodeID, now time.Time) bool {
	if s.server.lost() {
		return false
	}
	at := s.givenUpAt(m, n, now)
	return !at.IsZero() && !now.Before(at)
}

// givenUpAt returns when a migration will go on without a session, if nothing
// changes until then; zero: it is waited for.
func (s *slots) givenUpAt(m *migration, n conclave.NodeID, now time.Time) time.Time {
	from := m.began
	if len(m.heard) > 0 {
		from = m.answer // what failed before it may have been this node's own fault
	}
	return s.server.owners.unreachable(n, from, len(m.heard) > 0, now)
}

// unreached lists the living sessions that a migration was not answered by: those
// that it has given up, when it serves.
func (s *slots) unreached(m *migration) []conclave.NodeID {
	var out []conclave.NodeID
	for _, n := range s.server.owners.living() {
		if m.phase == hearing && !m.heard[n] {
			out = append(out, n)
		}
	}
	return out
}

// missed finds out why a session did not answer: a failed dial is told apart
// from silence by dialling once more, since a call may end before its dial does.
func (d *differ) missed(ctx context.Context, session conclave.NodeID, err error) {
	dialled := !wire.DialFailed(err)
	if address := d.server.owners.address(session); dialled && address != "" {
		err = d.server.peers.Dial(ctx, address)
		dialled = !wire.DialFailed(err)
	} else if address == "" {
		dialled = false // it never said where it can be asked
	}
	if ctx.Err() == nil {
		d.server.owners.attempt(session, dialled, false, time.Now())
	}
}

// watchPartial looks after a slot that is served without a session: until the session
// is gone, the mark on what is served lasts. The replica's lock is held.
func (r *replica) watchPartial(living []conclave.NodeID, now time.Time) {
	for n := range r.partial {
		if !containsNode(living, n) {
			delete(r.partial, n)
		}
	}
	if len(r.partial) > 0 {
		r.store.Prolong(now.Add(r.grace), now)
		for n := range r.partial {
			r.suspect(n) // compared with in every round of repair
		}
	}
}
