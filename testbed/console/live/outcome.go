package live

import (
	"context"
	"fmt"
	"time"

	"conclave/internal/sleep"
	"conclave/testbed/check"
	"conclave/testbed/console"
)

const (
	outcomesKept = 12
	restFor      = 1500 * time.Millisecond // the cluster is settled after it was at rest for this long
	leaseMargin  = 2 * time.Second         // from the end of a lease until its consequences are seen
	settleLimit  = 40 * time.Second        // and the lease
)

// outcome shows an action and what comes of it, until the cluster was at rest for a
// while again: after a fault for longer than the leases, which hide it until they end.
func (s *Source) outcome(ctx context.Context, what string, fault bool, do func(context.Context) error) {
	lease, settled := max(s.cfg.Settings.Lease, s.cfg.Settings.NodeLease), restFor
	if fault {
		settled = lease + leaseMargin
	}
	before, history, figures := s.now(), s.record.current(), s.record.figures("unserved")
	began := time.Now()
	o := console.Outcome{At: began.UnixMilli(), What: what, State: "doing", Leaderless: -1}
	if !s.record.traced {
		o.Slots = -1
	}
	id := s.addOutcome(o)
	if err := do(ctx); err != nil {
		o.State, o.Error = "failed", err.Error()
		s.setOutcome(id, o)
		return
	}
	o.State = "watching"
	var rest, lost time.Time // since when it is at rest, or slots cannot be read
	term := before.term
	for o.State == "watching" {
		now := s.now()
		if now.term > before.term {
			o.Term, o.Leaderless = now.term, max(0, o.Leaderless)
			for term := before.term + 1; term <= now.term; term++ {
				o.Leaderless = max(o.Leaderless, now.gaps[term])
			}
		}
		o.Missing = max(o.Missing, now.missing)
		if s.record.traced {
			o.Slots = max(o.Slots, now.unreadable)
		}
		switch {
		case !s.record.traced: // a look now and then shows neither how many nor for how long
		case now.unreadable == 0:
			lost = time.Time{}
		case lost.IsZero():
			lost = time.Now()
		default:
			o.Unreadable = max(o.Unreadable, time.Since(lost).Milliseconds())
		}
		switch {
		case time.Since(began) >= settleLimit+lease:
			o.State = "not settled"
		case !now.atRest || now.missing > 0 || now.term != term:
			term = now.term
			rest = time.Time{}
		case rest.IsZero():
			rest = time.Now()
		case time.Since(rest) > settled:
			o.State, o.SettledMs = "settled", rest.Sub(began).Milliseconds()
		}
		if o.State != "watching" {
			s.measure(&o, history, figures)
		}
		s.setOutcome(id, o)
		if sleep.For(ctx, lookEvery/2) != nil {
			return
		}
	}
}

// measure replaces the times in which slots were observed to be unreadable by those
// of the nodes' events, which are more exact.
func (s *Source) measure(o *console.Outcome, history *check.Recorder, before []check.Figure) {
	if !s.record.traced || s.record.current() != history {
		return
	}
	for _, f := range check.Since(before, s.record.figures("unserved")) {
		if len(f.Times) > 0 {
			o.Unreadable, o.Slots = f.Max.Milliseconds(), f.N
		}
	}
}

func (s *Source) addOutcome(o console.Outcome) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acted++
	id = fmt.Sprintf("%06d", s.acted)
	s.outcomes[id] = o
	delete(s.outcomes, fmt.Sprintf("%06d", s.acted-outcomesKept))
	s.again.Set()
	return id
}

func (s *Source) setOutcome(id string, o console.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outcomes[id].At == 0 {
		return // newer ones have replaced it
	}
	s.outcomes[id] = o
}
