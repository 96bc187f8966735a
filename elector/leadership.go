package elector

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// leadership is one term led by this node, from the win until Lead has returned.
// Elector.mu guards its fields.
type leadership struct {
	term     Term
	until    time.Time               // end of trust, unless renewed
	ended    error                   // why the node may not act any more; nil while it leads
	left     time.Time               // when that began; zero while it leads
	recorded bool                    // the election is in the history
	stop     context.CancelCauseFunc // ends Lead's context
	timer    *time.Timer             // ends the leadership when trust ends
	returned chan struct{}           // closed when Lead has returned err
	err      error                   // not guarded: set before returned is closed
	waiters  []chan error            // receive the result of the resignation; capacity one each
}

// begin makes a won term this node's leadership, whose state is Leading; mu is held.
// launch starts Lead afterwards.
func (e *Elector) begin(won Term, until time.Time) *leadership {
	l := &leadership{term: won, until: until, returned: make(chan struct{})}
	l.timer = time.AfterFunc(time.Until(until), func() { e.trustEnded(l) })
	e.shared.lead, e.shared.silent = l, false
	e.shared.stats.Won++
	e.cfg.Trace(Event{Kind: EventLed, Term: won.Number, Until: until})
	return l
}

// extend applies an acknowledged renewal; mu is held.
func (e *Elector) extend(l *leadership, beat uint64, until time.Time) {
	l.term.Beat = beat
	l.until = until
	if e.shared.state.ownsTerm() { // otherwise it is renewed only until it is handed over
		e.cfg.Trace(Event{Kind: EventExtended, Term: l.term.Number, Beat: beat, Until: until})
	}
	l.timer.Reset(time.Until(until))
}

// launch starts Lead in its own goroutine and records the election. Lead waits for
// the record only if the term's previous leader is not known, which the history may
// tell. A leader does not need the record to act, since each act has a fence of its
// own. The record is tried once, because the first renewal waits for it.
func (e *Elector) launch(ctx context.Context, l *leadership) {
	called := false
	defer func() {
		if !called { // Run's end waits for it, also after a panic of OnBeat
			close(l.returned)
		}
	}()
	recordFirst := l.term.Previous.IsZero()
	if recordFirst {
		e.record(ctx, l)
	}
	leadCtx, stop := context.WithCancelCause(context.WithoutCancel(ctx)) // only stopLeading ends it, with its cause

	e.mu.Lock()
	l.stop = stop
	term, why, leads := l.term, l.ended, e.shared.state.ownsTerm()
	if leads {
		e.shared.last, e.shared.why = term, string(term.Cause)
		e.put()
	}
	e.unlock()

	if !leads { // the leadership ended while the history was written
		stop(why)
		return
	}
	e.log.Info("leading", "term", term.Number, "cause", term.Cause, "previous", term.Previous.String(),
		"leaderless", term.Leaderless)
	e.cfg.OnBeat(term)
	called = true
	e.group.Go(func() {
		defer close(l.returned)
		l.err = e.cfg.Lead(leadCtx, term)
	})
	if !recordFirst {
		e.record(ctx, l)
	}
}

// record writes the election to the history, if the strategy keeps one. If that
// fails, it is repeated with the next beat.
func (e *Elector) record(ctx context.Context, l *leadership) {
	recorder, ok := e.cfg.Strategy.(Recorder)
	if !ok || l.recorded {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Beat/2)
	defer cancel()
	term, err := recorder.Record(ctx, l.term)
	e.mu.Lock()
	l.recorded = err == nil
	if term.Number == l.term.Number { // measured, whether or not it is recorded
		l.term.Leaderless, l.term.Previous = term.Leaderless, term.Previous
	}
	if err != nil && e.shared.reasons.New("record", err, 10*e.cfg.Lease) {
		e.note(e.log.Warn, "election not recorded yet", "term", l.term.Number, "error", err)
	}
	e.unlock()
}

// stopLeading ends this node's right to act, at once, and ends Lead's context with
// the cause. mu is held.
func (e *Elector) stopLeading(l *leadership, why error) {
	l.ended, l.left = why, time.Now()
	e.cfg.Trace(Event{Kind: EventLeft, Term: l.term.Number, Err: why})
	if l.stop != nil {
		l.stop(why)
	}
	e.shared.stats.Ended++
	e.shared.why = why.Error()
	e.put()
	e.note(e.log.Info, "no longer leading", "term", l.term.Number, "why", why)
}

// trustEnded ends the leadership when its timer fires.
func (e *Elector) trustEnded(l *leadership) {
	e.mu.Lock()
	expired := !time.Now().Before(l.until) // false if it was extended while the timer fired
	if expired && e.shared.lead == l {
		e.apply(losesTerm, ErrTrust)
	}
	e.unlock()
	if expired {
		e.wake.Set()
	}
}

// leadReturned returns the channel that is closed when Lead has returned; nil if there
// is no leadership.
func (e *Elector) leadReturned() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.shared.lead == nil {
		return nil
	}
	return e.shared.lead.returned
}

// afterLead closes a leadership after Lead has returned. If the node has resigned
// or Lead returned by itself, the term is handed over. It returns an error with which
// Run ends.
func (e *Elector) afterLead(ctx context.Context) error {
	e.mu.Lock()
	l := e.shared.lead
	failed := l.err != nil && l.ended == nil
	if failed {
		e.shared.stats.LeadFailed++
	}
	cause := ErrResigned
	if failed {
		cause = fmt.Errorf("%w: Lead failed: %w", ErrResigned, l.err)
	}
	state := e.apply(leadReturns, cause) // a resignation, if Lead returned by itself
	why := l.ended
	e.unlock()
	if failed {
		e.log.Warn("lead failed: this node does not compete until the back-off has passed",
			"term", l.term.Number, "backoff", e.cfg.Backoff, "error", l.err)
	} else if l.err != nil {
		e.log.Info("lead returned an error after its term had ended", "term", l.term.Number, "error", l.err)
	}

	err := fmt.Errorf("hand over term %d: %w", l.term.Number, why)
	if state == Resigning {
		err = e.handOver(ctx, l)
	}

	e.mu.Lock()
	e.apply(closesTerm, why)
	e.shared.lead, e.shared.again = nil, err != nil
	if failed {
		e.shared.abstainUntil, e.shared.abstainPast = time.Now().Add(e.cfg.Backoff), 0
	}
	if e.shared.abstaining(time.Now()) {
		e.apply(abstains, nil)
	}
	if err == nil && e.shared.resigned <= l.term.Number { // the others elect: a read of the store by this node would delay that
		e.shared.resigned, e.shared.resignedDue = l.term.Number, time.Now().Add(queueTime)
	}
	waiters := l.waiters
	e.unlock()
	if l.stop != nil {
		l.stop(why)
	}
	for _, w := range waiters {
		w <- err
	}
	blameless := errors.Is(l.err, ErrDeposed) || errors.Is(l.err, context.Canceled)
	if failed && !blameless && e.cfg.StopOnError {
		return fmt.Errorf("elector: Lead of term %d: %w", l.term.Number, l.err)
	}
	return nil
}

// handOver gives up the held term, makes this node abstain from the election that
// follows, and wakes the peers.
func (e *Elector) handOver(ctx context.Context, l *leadership) error {
	resign, cancel := context.WithDeadline(ctx, l.until)
	defer cancel()
	err := e.cfg.Strategy.Resign(resign, l.term)
	if err != nil {
		e.log.Warn("could not hand over, the other nodes wait for the lease", "term", l.term.Number, "error", err)
		return fmt.Errorf("hand over term %d: %w", l.term.Number, err)
	}
	e.mu.Lock()
	s := &e.shared
	if until := time.Now().Add(2 * e.cfg.Lease); until.After(s.abstainUntil) {
		s.abstainUntil, s.abstainPast = until, l.term.Number
	}
	e.mu.Unlock()
	// The wake-up has one beat of its own, so that a shutdown does not cancel it.
	wake, cancelWake := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.Beat)
	e.group.Go(func() {
		defer cancelWake()
		e.cfg.WakePeers(wake, l.term)
	})
	return nil
}
