package data

import (
	"context"
	"time"

	"conclave"
	"conclave/internal/sleep"
	"conclave/slot"
)

// Repair compares serving slots with the sessions in the background. Nothing
// depends on it, because a session sends every change until it is stored;
// repair corrects violations of that rule (in the original, every notification
// has a pull behind it).
//
// The original compares everything every 6 s. Here a slot is compared with a
// session within RepairEvery of the session's last write to it or of the
// opening of its feed, and otherwise once in RepairAll. In an idle cluster of
// 256 slots and 2 sessions that makes 2 small calls a second instead of 85.

// repairWith records that a slot should be compared with a session. mu is held.
func (r *replica) repairWith(session conclave.NodeID) {
	if r.dirty == nil {
		r.dirty = map[conclave.NodeID]bool{}
	}
	r.dirty[session] = true
}

// confirmRemovals returns those removals of a repair that the repair before it
// reported, too. A session that drops a registration writes that with its
// cause, and the write may still be on its way; so a copy is removed as
// "missing in a diff" only when two diffs, one round apart, report it. mu is
// held.
func (r *replica) confirmRemovals(session conclave.NodeID, removed []Copy) (confirmed []Copy) {
	before := r.reported[session]
	delete(r.reported, session)
	for _, c := range removed {
		if v, ok := before[c.copyKey]; ok && v == c.version {
			confirmed = append(confirmed, c)
			continue
		}
		if r.reported == nil {
			r.reported = map[conclave.NodeID]map[copyKey]int64{}
		}
		if r.reported[session] == nil {
			r.reported[session] = map[copyKey]int64{}
		}
		r.reported[session][c.copyKey] = c.version
		r.repairWith(session)
	}
	return confirmed
}

// runRepair enqueues the comparisons that are due.
func (s *Server) runRepair(ctx context.Context) {
	rng := s.NewRand()
	next := 0 // where the slow round over all slots continues
	for {
		every := s.config.RepairEvery
		if sleep.For(ctx, every*4/5+time.Duration(rng.Int64N(int64(every)*2/5+1))) != nil {
			return
		}
		all := s.slots.all()
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
		for _, r := range all {
			r.mu.Lock()
			dirty, epoch := r.dirty, r.epoch
			serving := r.state == slot.Serving
			if serving || !r.leads() {
				r.dirty = nil
			}
			r.mu.Unlock()
			if !serving {
				continue
			}
			for _, session := range sortedNodes(dirty) {
				if s.owners.alive(session) {
					s.differ.enqueue(diffJob{r: r, epoch: epoch, session: session})
				}
			}
		}
	}
}
