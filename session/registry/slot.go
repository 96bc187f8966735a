package registry

import (
	"time"

	"conclave"
	"conclave/wire"
)

// slotState is one slot: its leader, the registrations in it with the changes
// that the leader has not acknowledged, and the topics in it.
type slotState struct {
	number int

	// The fence; see Adopt.
	epoch   conclave.Epoch // the highest leader epoch that was adopted
	address string         // of the leader at epoch; "" while it is not known
	since   time.Time      // when epoch was adopted
	pushed  int64          // the highest version given to any subscriber

	held    set                // the registrations
	digest  uint64             // sum of the entry hashes of held
	covered conclave.Epoch     // a diff at this epoch carried everything in held
	pending map[string]*change // the newest change of each id that is not settled
	peak    int                // the most that pending had; see Registry.giveBack
	order   []*change          // the same changes, oldest first; settled ones are skipped

	topics map[string]*topic // by DataInfoID
	due    []*topic          // those with due set, in the order in which it was set
}

// clear removes all but the fence.
func (s *slotState) clear() {
	s.held, s.digest, s.covered = set{kind: ofSlot}, 0, conclave.Epoch{}
	s.pending, s.peak, s.order = map[string]*change{}, 0, nil
	s.topics, s.due = map[string]*topic{}, nil
}

func (s *slotState) hold(reg *registration) {
	reg.slot = s
	s.held.add(reg)
	s.digest += wire.EntryHash(reg.id, reg.version)
}

func (s *slotState) release(reg *registration) {
	s.held.remove(reg)
	s.digest -= wire.EntryHash(reg.id, reg.version)
}

// enqueue queues a change and discards an older one of the same id.
func (s *slotState) enqueue(c *change) {
	if older := s.pending[c.reg.id]; older != nil {
		older.settled = true
	}
	s.pending[c.reg.id] = c
	s.order = append(s.order, c)
}

// settle takes a change out of the queue. A newer change of the same id stays.
func (s *slotState) settle(c *change) {
	c.settled = true
	if s.pending[c.reg.id] == c {
		delete(s.pending, c.reg.id)
	}
}

// compact frees the settled changes once they are more than the others.
func (s *slotState) compact() {
	if len(s.order) <= 2*len(s.pending)+16 {
		return
	}
	kept := make([]*change, 0, len(s.pending))
	for _, c := range s.order {
		if !c.settled {
			kept = append(kept, c)
		}
	}
	s.order = kept
}
