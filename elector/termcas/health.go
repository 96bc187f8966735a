package termcas

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"conclave/elector"
	reasons "conclave/internal/reason"
	conclavesql "conclave/sql"
)

// health observes how the database answers the rounds, and logs what an operator has
// to mend: a round trip that is too long for the lease, a server without witnesses, a
// clock that was set, and a lock that another client holds. It decides nothing.
type health struct {
	s *Strategy

	known, far bool         // a round trip was logged; it is too long for the lease
	noWitness  error        // why there is no witness, although the configuration wants one
	last       row          // of the round before, in a Shared as last read; at is zero if there is none
	logged     reasons.Seen // what lasts, and when it was last logged

	looking atomic.Bool    // a diagnosis is in progress
	running sync.WaitGroup // joined by Strategy.Close
}

// after is called with the outcome of each round; last is what was known before it.
func (h *health) after(me elector.Candidate, last, now elector.Term, err error) {
	if h.s.shared != nil {
		return // the Shared's own observes
	}
	h.logRoundTrip(me.Lease)
	if h.noWitness != nil && h.logged.New("witness", h.noWitness, remind) {
		h.s.log.Warn("elections use the lease only, without a witness", "why", h.noWitness)
	}
	if err != nil {
		h.failed(me, err)
		return
	}
	executed := now.Leader == me.ID || now.Number != last.Number || now.Beat != last.Beat
	if executed && h.s.cfg.DB.Unblocked() {
		h.s.log.Info("the database executes statements again")
	}
}

// remind is after how long what lasts is logged again.
const remind = 10 * time.Minute

var (
	errFar        = errors.New("the database is too far away for this lease")
	errSetBack    = errors.New("the database's clock was set back, or this is another server")
	errSetForward = errors.New("the database's clock was set forward, or this is another server")
)

// withoutWitness makes all further elections use the lease only.
func (h *health) withoutWitness(why error) { h.s.noWitness, h.noWitness = true, why }

// advised adds to an error what an operator can do about it: it is logged by the Elector,
// now and then while it lasts, and shown by Status.
func advised(err error) error {
	if do := conclavesql.Advice(err); do != "" {
		return fmt.Errorf("%w: %s", err, do)
	}
	return err
}

// clock logs that the database's clock was set since the last round: by it, a beat lies
// in the future, or is more than a lease older than the row was when it was last read.
// The election does not need that clock to be right, but a dead host is noticed later:
// after a step back, until the next beat, after three leases.
func (h *health) clock(r row) {
	if h.s.shared != nil {
		return
	}
	since := r.at.Sub(h.last.at)
	renewed := !h.last.at.IsZero() && !r.unchanged(h.last)
	switch {
	case renewed && r.age < -time.Second:
		h.logStep(errSetBack, -r.age)
	case renewed && r.age > since+r.lease:
		h.logStep(errSetForward, r.age-since)
	}
	h.last = r
}

// logStep logs a step of the database's clock; now and then, if servers that differ answer
// in turn.
func (h *health) logStep(what error, by time.Duration) {
	if h.logged.New("clock", what, remind) {
		h.s.log.Warn(what.Error()+": synchronise the clocks of its hosts (NTP)", "by", by)
	}
}

// logRoundTrip logs the round trip when it is first known, when it becomes too long for
// the lease, now and then while it is, and when it is short enough again.
func (h *health) logRoundTrip(lease time.Duration) {
	trip := h.s.cfg.DB.RoundTrip()
	longest := lease / conclavesql.RoundTripsPerLease
	far := trip > longest || h.far && trip > longest*4/5
	switch {
	case trip == 0:
		return
	case far && h.logged.New("round trip", errFar, remind):
		h.s.log.Warn("the database is too far away for this lease: elections and renewals may fail",
			"roundTrip", trip, "lease", lease, "longest", longest, "leaseNeeded", trip*conclavesql.RoundTripsPerLease)
	case !far && (!h.known || h.far):
		h.logged.Forget("round trip")
		h.s.log.Info("round trip to the database", "roundTrip", trip, "lease", lease, "longest", longest)
	}
	h.known, h.far = true, far
}

// failed is called with the error of a statement. If that may come from a lock, it
// starts a diagnosis beside the rounds, unless one is in progress.
func (h *health) failed(me elector.Candidate, cause error) {
	if h.s.shared != nil || !conclavesql.MayBeBlocked(cause) || !h.looking.CompareAndSwap(false, true) {
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
