package data

import (
	"context"
	"maps"
	"sync"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	wirev1 "conclave/wire/v1"
)

// owners knows which session incarnations live, and where they answer.
//
// The publishers of a lost session stay for the session grace: its clients are
// on their way to another session and will register again. The grace counts on
// this node's own monotonic clock from the first moment at which both the member
// list lacks the incarnation and no connection or answer of it lives; any sign
// of life starts it again.
//
// It counts only while there is evidence: a leader, which keeps the member list,
// and at least one session that lives, to which the clients could have gone.
// While either is missing nothing is removed, and every count starts again when
// both are back. So after an outage of all sessions the copies stay for one more
// grace, counted from the first session that is back: its settling time.
type owners struct {
	server *Server

	mu    sync.Mutex // guards known
	known map[conclave.NodeID]*presence
}

type presence struct {
	address string
	feeds   int       // open Watch streams
	gone    time.Time // when its count began; zero while it lives
	listed  bool      // at the last look

	spoke      time.Time // when it last sent a request, or answered one
	undialled  time.Time // since when every try to ask it was a failed dial; zero: the last one was none
	unanswered time.Time // since when no try to ask it was answered
}

func (o *owners) of(n conclave.NodeID) *presence {
	p := o.known[n]
	if p == nil {
		p = &presence{}
		o.known[n] = p
	}
	return p
}

// heard notes a sign of life.
func (o *owners) heard(n conclave.NodeID, address string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.of(n)
	p.gone, p.spoke = time.Time{}, time.Now()
	if address != "" {
		p.address = address
	}
}

func (o *owners) connected(n conclave.NodeID, address string) {
	o.heard(n, address)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(n).feeds++
}

func (o *owners) disconnected(n conclave.NodeID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.of(n)
	p.feeds--
	p.gone = time.Time{}
}

// address is where a session answers: as the member list says, or as it said
// itself; "" when nobody said.
func (o *owners) address(n conclave.NodeID) string {
	if m, ok := o.server.view.State().Members.Find(n.Name); ok && m.Node == n {
		return m.Address
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.known[n]; p != nil {
		return p.address
	}
	return ""
}

// living lists the sessions that are members or connected, sorted: all whose
// word is waited for.
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

// missed says that some session is away whose grace has not ended.
func (o *owners) missed() bool {
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

// back says that a session whose grace was over has given a sign of life since.
func (o *owners) back(n conclave.NodeID) bool {
	members := o.server.view.State().Members
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.known[n]
	return members.Has(n) || p != nil && (p.feeds > 0 || p.gone.IsZero())
}

// knows says that a session lives, or that its grace has not ended.
func (o *owners) knows(n conclave.NodeID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[n] != nil
}

func (o *owners) alive(n conclave.NodeID) bool { return containsNode(o.living(), n) }

// sweep looks at every owner of a copy and returns those whose grace has ended.
// unsure: no leader has been heard for a lease, or no session lives, so that
// the absence of an owner is no evidence against its clients.
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
		if unsure { // what was tried meanwhile proves nothing
			p.undialled, p.unanswered = time.Time{}, time.Time{}
		}
		switch {
		case p.feeds > 0 || p.listed:
			p.gone = time.Time{}
		case unsure:
			p.gone = time.Time{}
		case p.gone.IsZero():
			p.gone = now
		case now.Sub(p.gone) >= o.server.config.SessionGrace:
			if copies[n] == 0 {
				delete(o.known, n)
			} else {
				expired = append(expired, n)
			}
		}
	}
	return expired
}

// runSweep takes away what lost owners had, and drops tombstones that have
// nothing left to hide. Copies are taken away in slots that are served only: the
// feeds carry it to the followers, whose stores are merely tidied.
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
				if len(living) == 0 && r.store.Marked(now) > 0 {
					r.store.Mark(now.Add(s.config.SessionGrace)) // no session could confirm anything meanwhile
				}
			}
			switch {
			case n%5 != 0 || r.store == nil:
			case r.state == slot.Serving:
				r.store.Compact(now.Add(-s.config.SessionGrace), now)
				maps.DeleteFunc(r.numbers, func(session conclave.NodeID, _ uint64) bool { return !s.owners.knows(session) })
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
		for _, owner := range s.owners.sweep(copies, len(living) == 0 || s.lost(), now) {
			s.removeOwner(owner, now)
		}
		s.ring()
	}
}

// removeOwner takes a lost session's copies away, slot by slot, until it is back.
// That is looked at with the slot's lock held: a session that opens its feed is
// connected before the slot is, and then compared with.
func (s *Server) removeOwner(owner conclave.NodeID, now time.Time) {
	removed := 0
	for _, r := range s.slots.all() {
		r.mu.Lock()
		if r.state == slot.Serving && !s.owners.back(owner) {
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
