package data

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"conclave"
	"conclave/internal/signal"
	"conclave/internal/sleep"
	"conclave/internal/trace"
	"conclave/lease"
	"conclave/slot"
	wirev1 "conclave/wire/v1"
)

// sweeper ends what time ends: the copies of lost sessions, tombstones, and the
// marks of slots that were served without a session.
type sweeper struct {
	config           Config
	replicas         *replicas
	owners           *owners
	feeds            *feeds
	notes            *notes
	beats            *signal.Ticks // of this node's loops
	metaLeaderSilent func() bool   // no meta leader has answered for a lease
}

// run removes the copies of lost owners and drops tombstones that hide
// nothing any more. Copies are removed only in slots that are served: the feeds
// carry the removals to the followers, whose stores are merely pruned.
func (s *sweeper) run(ctx context.Context) {
	due := s.beats.Next()
	lateness := lease.NewLateness(time.Now(), s.config.Beat)
	for n := 0; ; n++ {
		select {
		case <-due:
			due = s.beats.Next()
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
		for _, owner := range s.owners.sweep(copies, len(living) == 0 || s.metaLeaderSilent(), now) {
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

// Repair compares serving slots with the sessions in the background. Nothing
// depends on it, because a session sends every change until it is stored;
// repair corrects violations of that rule (in the original, every notification
// has a pull behind it).
//
// The original compares everything every 6 s. Here a slot is compared with a
// session within RepairEvery of the session's last write to it or of the opening of
// its feed, and otherwise once in RepairAll (docs/adr/0030). A slot that is being
// written always differs, at the cost of all its registrations, here and at the
// session. One round therefore compares repairBudget registrations at most, and
// leaves the rest to the next rounds, in turn; and while a session keeps writing to
// a slot, the two are compared in the first round and then in every sixth.

// repairBudget is how many registrations the slots that one round compares with
// sessions may have together. One comparison is made in any case.
const repairBudget = 50_000

// repairer compares slots with sessions in the background (syncSession in
// article 002).
type repairer struct {
	config   Config
	replicas *replicas
	owners   *owners
	differ   *differ
	rand     func() *rand.Rand
}

// run enqueues the comparisons that are due.
func (s *repairer) run(ctx context.Context) {
	rng := s.rand()
	next := 0  // where the slow round over all slots continues
	first := 0 // where the comparisons that are due continue
	for {
		every := s.config.RepairEvery
		if sleep.For(ctx, every*4/5+time.Duration(rng.Int64N(int64(every)*2/5+1))) != nil {
			return
		}
		all := s.replicas.all()
		if len(all) == 0 {
			continue
		}
		for range 1 + int(int64(len(all))*int64(every)/int64(s.config.RepairAll)) {
			next = (next + 1) % len(all)
			for _, session := range s.owners.living() {
				all[next].mu.Lock()
				all[next].repairWith(session)
				all[next].mu.Unlock()
			}
		}
		first = s.compareDue(all, first)
	}
}

// compareDue enqueues the comparisons that are due, from a slot on, within the
// budget of a round. It returns the slot at which the next round begins. While a
// session has not answered the comparisons of an earlier round, none is added.
func (s *repairer) compareDue(all []*replica, first int) (next int) {
	behind := map[conclave.NodeID]bool{} // the sessions that have comparisons to answer
	for _, session := range s.owners.living() {
		behind[session] = s.differ.hasRepairs(session)
	}
	for _, r := range all {
		r.beginRound()
	}
	return inTurn(all, first, behind, repairBudget, func(r *replica, epoch conclave.Epoch, due []conclave.NodeID) {
		for _, session := range due {
			if s.owners.alive(session) {
				s.differ.enqueue(diffJob{r: r, epoch: epoch, session: session})
			}
		}
	})
}

// inTurn calls compare with what is due in each slot, from the one at first on, and
// returns the one at which the next round begins: where the room of this one ended.
func inTurn(all []*replica, first int, behind map[conclave.NodeID]bool, room int, compare func(*replica, conclave.Epoch, []conclave.NodeID)) (next int) {
	for i := range all {
		at := (first + i) % len(all)
		due, epoch, cost := all[at].takeDue(behind, room)
		room -= cost
		compare(all[at], epoch, due)
		if room <= 0 {
			return (at + 1) % len(all)
		}
	}
	return first
}

// takeDue removes and returns the sessions that the slot is to be compared with,
// except those in behind, those due for longest first, and how many registrations
// are compared. If that is more than room, the sessions after the first one stay
// due.
func (r *replica) takeDue(behind map[conclave.NodeID]bool, room int) (due []conclave.NodeID, epoch conclave.Epoch, cost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != slot.Serving {
		if !r.leads() {
			r.dirty, r.writing = nil, nil
		}
		return nil, r.epoch, 0
	}
	sessions := sortedNodes(r.dirty)
	slices.SortStableFunc(sessions, func(a, b conclave.NodeID) int { return cmp.Compare(r.dirty[b], r.dirty[a]) })
	for _, session := range sessions {
		if behind[session] || r.postpone(session) {
			continue
		}
		if cost > 0 && cost >= room {
			break
		}
		delete(r.dirty, session)
		if w, writes := r.writing[session]; writes {
			r.writing[session] = writing{since: w.since}
		}
		count, _ := r.store.Digest(session)
		due, cost = append(due, session), cost+int(count)
	}
	return due, r.epoch, cost
}

// writing is a session that writes to a slot.
type writing struct {
	since  bool // it has written since the last round
	rounds int  // since the two were compared; writingRounds if they were not, since it began
}

// writingRounds is in how many rounds a session that writes is not compared,
// between two in which it is.
const writingRounds = 5

// wrote records a write of a session. mu is held.
func (r *replica) wrote(session conclave.NodeID) {
	if r.writing == nil {
		r.writing = map[conclave.NodeID]writing{}
	}
	w, writes := r.writing[session]
	if !writes {
		w.rounds = writingRounds
	}
	w.since = true
	r.writing[session] = w
}

// beginRound counts a round for the sessions that write, and for the comparisons
// that are due.
func (r *replica) beginRound() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for session := range r.dirty {
		r.dirty[session]++
	}
	for session, w := range r.writing {
		if w.since {
			r.writing[session] = writing{rounds: w.rounds + 1}
		} else {
			delete(r.writing, session)
		}
	}
}

// postpone reports whether a comparison that is due is left to a later round,
// because the session keeps writing. One that a mark waits for (partial) is not.
// mu is held.
func (r *replica) postpone(session conclave.NodeID) bool {
	w, writes := r.writing[session]
	return writes && w.rounds <= writingRounds && !r.partial[session]
}

// showTo shows the slot to a session's feed, if this node serves it. misses reports
// whether the slot may miss what the session has, and job compares them.
func (r *replica) showTo(w *watcher) (job diffJob, misses bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != slot.Serving {
		return diffJob{}, false
	}
	r.watchers.show(w, r.id, r.epoch, r.store.Position())
	r.repairWith(w.session) // it may have been without this feed for a while
	count, _ := r.store.Digest(w.session)
	return diffJob{r: r, epoch: r.epoch, session: w.session}, count == 0 || r.partial[w.session]
}
