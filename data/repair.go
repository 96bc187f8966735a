package data

import (
	"context"
	"time"

	"conclave"
	"conclave/internal/sleep"
	"conclave/slot"
)

// Repair compares serving slots with the sessions, in the background. Nothing
// depends on it: every change is written by its session until it is stored.
// It is what makes a fault of that rule heal instead of stay (the original's
// "every hint has a pull behind it").
//
// The original compares everything every 6 s. Here a slot is compared with a
// session within RepairEvery of the session's last write to it, or of the
// opening of its feed, and else once in RepairAll: an idle cluster of 256 slots
// and 2 sessions makes 2 small calls a second for it instead of 85.

// suspect says that a slot should be compared with a session; lock held.
func (r *replica) suspect(session conclave.NodeID) {
	if r.dirty == nil {
		r.dirty = map[conclave.NodeID]bool{}
	}
	r.dirty[session] = true
}

// doubt judges what a repair would take away. A session that drops a
// registration writes so, with the cause, and that write may just be on its
// way; so a copy is taken away as "missing in a diff" only when two diffs, one
// round apart, say so. Lock held.
func (r *replica) doubt(session conclave.NodeID, removed []Copy) (believed []Copy) {
	before := r.doubts[session]
	delete(r.doubts, session)
	for _, c := range removed {
		if v, ok := before[c.copyKey]; ok && v == c.version {
			believed = append(believed, c)
			continue
		}
		if r.doubts == nil {
			r.doubts = map[conclave.NodeID]map[copyKey]int64{}
		}
		if r.doubts[session] == nil {
			r.doubts[session] = map[copyKey]int64{}
		}
		r.doubts[session][c.copyKey] = c.version
		r.suspect(session)
	}
	return believed
}

// runRepair asks for the comparisons that are due.
func (s *Server) runRepair(ctx context.Context) {
	rng := s.stream()
	next := 0 // the slot with which the slow round over everything goes on
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
				all[next].suspect(session)
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
					s.differ.ask(diffJob{r: r, epoch: epoch, session: session})
				}
			}
		}
	}
}
