package elector

import (
	"context"
	"fmt"
	"time"

	"conclave/internal/trace"
)

// leadership is one term led by this node, from the win until Lead has returned.
// Elector.mu guards its fields.
type leadership struct {
	term      Term
	until     time.Time               // trusted until then, unless renewed
	ended     error                   // why it may not act any more; nil while it leads
	endedAt   time.Time               // since when
	resigning bool                    // ended by us: still renewed, until Lead is back
	recorded  bool                    // the history has it
	stop      context.CancelCauseFunc // ends Lead's context
	timer     *time.Timer             // ends the leadership when trust does
	returned  chan error              // Lead's result; cap 1
	waiters   []chan error            // who asked for the resignation; cap 1 each
}

// trusted says whether the leader may act now.
func (l *leadership) trusted() bool { return l.ended == nil && time.Now().Before(l.until) }

// held says whether the term is to be renewed: also while Lead winds down.
func (l *leadership) held() bool {
	return (l.ended == nil || l.resigning) && time.Now().Before(l.until)
}

// windsDown says whether the next round waits for Lead's return: for one beat. A
// candidate that still runs its old Lead may only look, and an observer that finds
// its own name in the store gives the term back.
func (l *leadership) windsDown(beat time.Duration) bool {
	return !l.held() && time.Since(l.endedAt) < beat
}

// begin makes a won term this node's leadership; mu is held. Lead starts later,
// once the election is recorded.
func (e *Elector) begin(won Term, until time.Time) *leadership {
	l := &leadership{term: won, until: until, returned: make(chan error, 1)}
	l.timer = time.AfterFunc(time.Until(until), func() { e.trustEnded(l) })
	e.state.lead = l
	e.stats.won.Add(1)
	e.cfg.Trace.Claim(trace.Claim{Kind: trace.Led, Node: e.cfg.ID, Term: won.Number, Until: until})
	return l
}

// extend counts a renewal; mu is held.
func (e *Elector) extend(l *leadership, beat uint64, until time.Time) {
	l.term.Beat = beat
	l.until = until
	e.cfg.Trace.Claim(trace.Claim{Kind: trace.Extended, Node: e.cfg.ID, Term: l.term.Number, Beat: beat, Until: until})
	l.timer.Reset(time.Until(until))
}

// launch records the election and starts Lead beside the loop.
func (e *Elector) launch(ctx context.Context, l *leadership) {
	e.record(ctx, l)
	leadCtx, stop := context.WithCancelCause(ctx)

	e.mu.Lock()
	l.stop = stop
	term, ended := l.term, l.ended
	if ended == nil {
		e.state.last = term
		e.feed.put(Change{Term: term, Leading: true, Why: string(term.Cause)})
	}
	e.unlock()

	if ended != nil { // trust ended, or was promised away, while the history was written
		stop(ended)
		l.returned <- nil
		return
	}
	e.log.Info("leading", "term", term.Number, "cause", term.Cause, "previous", term.Previous.String(),
		"leaderless", term.Leaderless)
	e.cfg.Beaten(term)
	e.group.Go(func() { l.returned <- e.cfg.Lead(leadCtx, term) })
}

// record writes the election down, if the strategy can; it is repeated with later
// beats until it works.
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
	if term.Number == l.term.Number { // what was measured is known, recorded or not
		l.term.Leaderless, l.term.Previous = term.Leaderless, term.Previous
	}
	e.unlock()
	if err != nil {
		e.log.Warn("election not recorded yet", "term", l.term.Number, "error", err)
	}
}

// endLeadership takes the right to act away, now; mu is held. Lead's context ends
// with the reason. Whoever has ended for another reason than a resignation never
// leads the term again.
func (e *Elector) endLeadership(l *leadership, why error) {
	if !l.resigning {
		e.state.left = max(e.state.left, l.term.Number)
	}
	if l.ended != nil {
		if !l.resigning {
			l.ended = why // it was to be handed over, and was lost before that
		}
		return
	}
	l.ended, l.endedAt = why, time.Now()
	e.cfg.Trace.Claim(trace.Claim{Kind: trace.Left, Node: e.cfg.ID, Term: l.term.Number, Err: why})
	if l.stop != nil {
		l.stop(why)
	}
	e.stats.ended.Add(1)
	e.feed.put(Change{Term: l.term, Why: why.Error()})
	e.note(e.log.Info, "no longer leading", "term", l.term.Number, "why", why)
}

// trustEnded is called by the leadership's timer.
func (e *Elector) trustEnded(l *leadership) {
	e.mu.Lock()
	over := !time.Now().Before(l.until) // else it was extended while the timer fired
	if over {
		l.resigning = false
		e.endLeadership(l, ErrTrust)
	}
	e.unlock()
	if over {
		nudge(e.wake)
	}
}

// leadReturned is the channel on which Lead's end is told; nil when nothing is led.
func (e *Elector) leadReturned() <-chan error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.lead == nil {
		return nil
	}
	return e.state.lead.returned
}

// afterLead closes a leadership: Lead has returned. Was it asked to, by Resign, or
// did it return by itself, then the term is handed over.
func (e *Elector) afterLead(ctx context.Context, leadErr error) {
	if ctx.Err() != nil {
		return // a crash tells nobody
	}
	e.mu.Lock()
	l := e.state.lead
	handOver := l.held() && l.term.Number > e.state.left
	if l.ended == nil { // Lead has had enough
		l.resigning = true
		e.endLeadership(l, ErrResigned)
	}
	why := l.ended
	e.unlock()
	if leadErr != nil {
		e.log.Warn("lead returned an error", "term", l.term.Number, "error", leadErr)
	}

	err := fmt.Errorf("hand over term %d: %w", l.term.Number, why)
	if handOver {
		err = e.handOver(ctx, l)
	}

	e.mu.Lock()
	l.timer.Stop()
	l.resigning = false
	e.state.left = max(e.state.left, l.term.Number)
	e.state.lead = nil
	e.state.again = true
	waiters := l.waiters
	e.mu.Unlock()
	if l.stop != nil {
		l.stop(why)
	}
	for _, w := range waiters {
		w <- err
	}
}

// handOver gives the held term back, stays out of the election that follows, and
// wakes the peers.
func (e *Elector) handOver(ctx context.Context, l *leadership) error {
	resign, cancel := context.WithDeadline(ctx, l.until)
	defer cancel()
	err := e.cfg.Strategy.Resign(resign, l.term)
	if err != nil {
		e.log.Warn("could not hand over, the others wait for the lease", "term", l.term.Number, "error", err)
		return fmt.Errorf("hand over term %d: %w", l.term.Number, err)
	}
	e.mu.Lock()
	s := &e.state
	if until := time.Now().Add(2 * e.cfg.Lease); until.After(s.abstainUntil) {
		s.abstainUntil, s.abstainPast = until, l.term.Number
	}
	e.mu.Unlock()
	// A shutdown must not cut the wake-up off: it has one beat of its own.
	told, cancelTold := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.Beat)
	e.group.Go(func() {
		defer cancelTold()
		e.cfg.WakePeers(told, l.term)
	})
	return nil
}
