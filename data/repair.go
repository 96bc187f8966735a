package data

import (
	"context"
	"math/rand/v2"
	"time"

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
	next := 0 // where the slow round over all slots continues
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
