package lab

import (
	"context"
	"math/rand/v2"
	"time"

	conclavesql "conclave/sql"
)

var riverRule = Rule{
	Name: "river", From: "riverqueue/river, internal/leadership",
	About:    "Delete what has expired, insert what is missing; the database issues the term, and trust counts from before the request. A resignation is notified.",
	Weakness: "The term guards its own renewal and nothing else: a write of the leader's is not checked.",
	Own:      Times{Lease: 15 * time.Second, Beat: 5 * time.Second, Check: 5 * time.Second},
	migrate:  tables("", conclavesql.LabRiverTable),
	start: func(_ context.Context, s *stand) (candidate, error) {
		return s.loop(&river{s: s, second: s.Times.Lease / 15}), nil
	},
}

// river is river's elector, in MySQL's dialect: NOTIFY is a word to the lab, which
// passes it on to the others.
type river struct {
	s      *stand
	second time.Duration // one of its fifteen: jitter, back-off and the margin of trust
	term   uint64        // held; 0: none
}

func (r *river) turn(ctx context.Context) time.Duration {
	if r.term != 0 {
		return r.keep(ctx)
	}
	sent := time.Now()
	if _, err := r.s.db.Exec(ctx, conclavesql.LabRiverExpire, r.s.Lab); err != nil {
		return r.second
	}
	me := r.s.ID().String()
	n, err := r.s.db.Exec(ctx, conclavesql.LabRiverElect, r.s.Lab, me, r.s.Times.Lease.Microseconds())
	if err != nil {
		return r.second
	}
	if n == 1 {
		var term uint64
		if err := r.s.db.QueryRow(ctx, conclavesql.LabRiverTerm, []any{r.s.Lab, me}, &term); err != nil {
			return r.second
		}
		r.term = term
		r.trust(sent)
		return r.s.Times.Beat
	}
	return r.s.Times.Check + rand.N(r.second)
}

// keep is the leader's turn.
func (r *river) keep(ctx context.Context) time.Duration {
	sent := time.Now()
	n, err := r.s.db.Exec(ctx, conclavesql.LabRiverReelect, r.s.Times.Lease.Microseconds(), r.s.Lab, r.s.ID().String(), r.term)
	switch {
	case err == nil && n == 1:
		r.trust(sent)
		return r.s.Times.Beat
	case err == nil:
		r.lost("lost its re-election")
	default:
		if _, trusted := r.s.belief.holds(); !trusted {
			r.lost("trust ended")
		}
	}
	return r.second
}

// trust counts from before the request, less a margin.
func (r *river) trust(sent time.Time) {
	r.s.belief.lead(r.term, sent.Add(r.s.Times.Lease-r.second))
}

func (r *river) lost(why string) {
	r.term = 0
	r.s.belief.leave(why)
}

// heard spreads the attempts of all who heard of a resignation.
func (r *river) heard() time.Duration { return rand.N(50 * time.Millisecond) }

// release deletes the row, and tells.
func (r *river) release(ctx context.Context) {
	term := r.term
	r.lost("stopped")
	if term == 0 {
		return
	}
	if n, err := r.s.db.Exec(ctx, conclavesql.LabRiverResign, r.s.Lab, r.s.ID().String(), term); err == nil && n == 1 {
		r.s.say(Event{What: "wake", At: stamp(time.Now())})
	}
}
