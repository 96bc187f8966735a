package registry

import (
	"slices"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/wire/list"
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
	lanes   [classes][]*change // the same changes by class, oldest first; settled ones are skipped
	unsent  int                // estimated bytes of the same changes on the wire

	topics map[string]*topic // by DataInfoID
	due    []*topic          // those with due set, in the order in which it was set
}

// clear removes all but the fence. What is in flight was taken from another queue than
// the one that begins here.
func (s *slotState) clear() {
	for _, c := range s.pending {
		c.settled = true
	}
	s.held, s.digest, s.covered = set{kind: ofSlot}, 0, conclave.Epoch{}
	s.pending, s.peak, s.lanes, s.unsent = map[string]*change{}, 0, [classes][]*change{}, 0
	s.topics, s.due = map[string]*topic{}, nil
}

func (s *slotState) hold(reg *registration) {
	reg.slot = s
	s.held.add(reg)
	s.digest += list.EntryHash(reg.id, reg.version)
}

func (s *slotState) release(reg *registration) {
	s.held.remove(reg)
	s.digest -= list.EntryHash(reg.id, reg.version)
}

// classOf returns the class of a registration in the slot that takes the place of
// old, which may be nil.
func (s *slotState) classOf(reg, old *registration) Class {
	switch {
	case reg.withdrawn:
		return withdrawn
	case old != nil && !old.stored.IsZero(), s.topics[reg.key] != nil:
		return watched
	}
	return fresh
}

// enqueue queues a change and discards an older one of the same id. What replaces
// something urgent is urgent: a registration that was withdrawn and is published
// again does not wait longer than its withdrawal.
func (s *slotState) enqueue(c *change) {
	if older := s.pending[c.reg.id]; older != nil {
		c.class = min(c.class, max(older.class, watched))
		s.dequeue(older)
	}
	s.pending[c.reg.id] = c
	s.lanes[c.class] = append(s.lanes[c.class], c)
	s.unsent += c.size()
}

// dequeue takes a change out of the queue. A newer change of the same id stays.
func (s *slotState) dequeue(c *change) {
	c.settled = true
	s.unsent -= c.size()
	if s.pending[c.reg.id] == c {
		delete(s.pending, c.reg.id)
	}
}

// compact frees the settled changes once they are more than the others.
func (s *slotState) compact() {
	queued := 0
	for _, lane := range s.lanes {
		queued += len(lane)
	}
	if queued <= 2*len(s.pending)+16 {
		return
	}
	for i, lane := range s.lanes {
		s.lanes[i] = slices.Clone(slices.DeleteFunc(lane, func(c *change) bool { return c.settled }))
	}
}

// The fence of a slot is the highest leader epoch that this session has
// adopted, and the address of that leader. An epoch is adopted from the slot
// table, from a data node that asks for a diff, or from a data node that
// reports that it serves at it; in each case it was written under a term first.
// It never falls: what an older leader answers does not count (current).

// Adopt adopts a slot's leader epoch unless it is older than the present one or
// cannot be true (ok is false then), and reports whether anything changed. An
// equal epoch may still bring the address, which may be "".
func (r *Registry) Adopt(slot int, epoch conclave.Epoch, address string, now time.Time) (changed, ok bool) {
	s := r.of(slot)
	switch c := epoch.Compare(s.epoch); {
	case c < 0:
		return false, false
	case c == 0:
		if address == "" || address == s.address {
			return false, true
		}
		s.address = address
		return true, true
	case !epoch.Plausible(s.epoch):
		return false, false
	}
	r.trace.Claim(trace.Claim{Kind: trace.Adopted, Slot: s.number, Epoch: epoch, Base: s.epoch})
	s.epoch, s.address, s.since = epoch, address, now
	return true, true
}

// current returns a slot, and whether an answer that was given at this epoch
// counts.
func (r *Registry) current(slot int, epoch conclave.Epoch) (*slotState, bool) {
	s := r.of(slot)
	return s, s.epoch == epoch
}

// Leaders returns the addresses of all known slot leaders as a set.
func (r *Registry) Leaders() map[string]bool {
	out := map[string]bool{}
	for _, s := range r.slots {
		if s.address != "" {
			out[s.address] = true
		}
	}
	return out
}
