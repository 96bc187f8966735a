package registry

import (
	"time"

	"conclave"
	"conclave/internal/trace"
)

// The fence of a slot is the highest leader epoch that this session has
// adopted, and the address of that leader. An epoch is adopted from the slot
// table, from a data node that asks for a diff, or from a data node that
// reports that it serves at it; in each case it was written under a term first.
// It never falls: what an older leader answers does not count (current).

// Adopt adopts a slot's leader epoch unless it is older than the present one or
// cannot be true (ok is false then), and reports whether anything changed. An
// equal epoch may still bring the address, which may be "".
func (r *Registry) Adopt(slot int, epoch conclave.Epoch, address string, now time.Time) (changed, ok bool) {
	return r.adopt(r.of(slot), epoch, address, now)
}

func (r *Registry) adopt(s *slotState, epoch conclave.Epoch, address string, now time.Time) (changed, ok bool) {
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
