package data

import (
	"context"
	"maps"
	"slices"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/lease"
	"conclave/slot"
	wirev1 "conclave/wire/v1"
)

// sweeper ends what time ends: the copies of lost sessions, tombstones, and the
// marks of slots that were served without a session.
type sweeper struct {
	config       Config
	replicas     *replicas
	owners       *owners
	feeds        *feeds
	notes        *notes
	leaderSilent func() bool // no meta leader has answered for a lease
}

// run removes the copies of lost owners and drops tombstones that hide
// nothing any more. Copies are removed only in slots that are served: the feeds
// carry the removals to the followers, whose stores are merely pruned.
func (s *sweeper) run(ctx context.Context) {
	ticker := time.NewTicker(s.config.Beat)
	defer ticker.Stop()
	lateness := lease.NewLateness(time.Now(), s.config.Beat)
	for n := 0; ; n++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		s.config.Trace.Claim(trace.Claim{Kind: trace.Leasing})
		now := time.Now()
		s.owners.excuse(lateness.Tick(now, s.config.Beat), now)
		copies := map[conclave.NodeID]int{}
		living := s.owners.living()
		for _, r := range s.replicas.all() {
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
				r.publish()
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
		for _, owner := range s.owners.sweep(copies, len(living) == 0 || s.leaderSilent(), now) {
			s.removeOwner(owner, now)
		}
		s.feeds.wake()
	}
}

// removeOwner removes a lost session's copies slot by slot, and stops if the
// session returns. It checks that with the slot's lock held: a session that
// opens its feed is first recorded as connected, then shown the slot, then
// compared with it.
func (s *sweeper) removeOwner(owner conclave.NodeID, now time.Time) {
	removed := 0
	for _, r := range s.replicas.all() {
		r.mu.Lock()
		if r.state == slot.Serving && !s.owners.isBack(owner) {
			n := r.store.RemoveOwner(owner, wirev1.Cause_CAUSE_OWNER_GONE, now)
			removed += n
			r.trace.Claim(trace.Claim{Kind: trace.OwnerGone, Slot: r.id, Epoch: r.epoch, Peer: owner, Count: n})
			r.publish()
		}
		r.mu.Unlock()
	}
	if removed > 0 {
		s.notes.ownerGone(owner, removed)
	}
}

// watchPartial keeps the mark on a slot that is served without a session until
// that session is gone. mu is held.
func (r *replica) watchPartial(living []conclave.NodeID, now time.Time) {
	for n := range r.partial {
		if !slices.Contains(living, n) {
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
