package termcas

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"conclave/elector"
	conclavesql "conclave/sql"
)

// health observes how the database answers the rounds, and logs what an operator has
// to mend: a round trip that is too long for the lease, and a lock that another
// client holds. It decides nothing.
type health struct {
	s *Strategy

	known, far bool // a round trip was logged; it is too long for the lease

	looking atomic.Bool    // a diagnosis is in progress
	running sync.WaitGroup // joined by Strategy.Close
}

// after is called with the outcome of each round; last is what was known before it.
func (h *health) after(me elector.Candidate, last, now elector.Term, err error) {
	h.logRoundTrip(me.Lease)
	if err != nil {
		h.failed(me, err)
		return
	}
	executed := now.Leader == me.ID || now.Number != last.Number || now.Beat != last.Beat
	if executed && h.s.cfg.DB.Unblocked() {
		h.s.log.Info("the database executes statements again")
	}
}

// logRoundTrip logs the round trip when it is first known, and when it becomes too
// long for the lease or short enough again.
func (h *health) logRoundTrip(lease time.Duration) {
	trip := h.s.cfg.DB.RoundTrip()
	longest := lease / conclavesql.RoundTripsPerLease
	far := trip > longest || h.far && trip > longest*4/5
	switch {
	case trip == 0 || h.known && far == h.far:
		return
	case far:
		h.s.log.Warn("the database is too far away for this lease: elections and renewals may fail",
			"roundTrip", trip, "lease", lease, "longest", longest, "leaseNeeded", trip*conclavesql.RoundTripsPerLease)
	default:
		h.s.log.Info("round trip to the database", "roundTrip", trip, "lease", lease, "longest", longest)
	}
	h.known, h.far = true, far
}

// failed is called with the error of a statement. If that may come from a lock, it
// starts a diagnosis beside the rounds, unless one is in progress.
func (h *health) failed(me elector.Candidate, cause error) {
	if !conclavesql.MayBeBlocked(cause) || !h.looking.CompareAndSwap(false, true) {
		return
	}
	h.running.Go(func() {
		defer h.looking.Store(false)
		ctx, cancel := context.WithTimeout(h.s.ctx, me.Lease)
		defer cancel()
		before, was := h.s.cfg.DB.Blocked()
		block, found := h.s.cfg.DB.Diagnose(ctx, cause)
		if found && (!was || before.By != block.By || before.Holder == "" && block.Holder != "") {
			h.s.log.Warn("the database answers, but the election's statements wait", "blockedBy", string(block.By), "detail", block.String())
		}
	})
}
