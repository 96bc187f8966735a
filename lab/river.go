package lab

import (
	"context"
	"math/rand/v2"
	"time"
)

var riverRule = Rule{
	Name: "river", From: "riverqueue/river, internal/leadership",
	About:    "Delete the row if it has expired, then insert it if it is missing; the database issues the term, and trust counts from before the request. Other nodes are notified of a resignation.",
	Weakness: "The term guards only its own renewal: the leader's writes are not checked.",
	Own:      Times{Lease: 15 * time.Second, Beat: 5 * time.Second, Check: 5 * time.Second},
	migrate:  tables("", statement("river_table")),
	start: func(env *environment) (candidate, error) {
		return env.loop(&river{env: env, second: env.Times.Lease / 15}, 50*time.Millisecond), nil
	},
}

// river is river's elector, with MySQL's syntax. NOTIFY is replaced by an event
// that the lab forwards to the other candidates.
type river struct {
	env    *environment
	second time.Duration // a fifteenth of the lease (1 s of 15 s): its jitter, back-off and margin of trust
	term   uint64        // 0 if this node does not lead
}

func (r *river) turn(ctx context.Context) time.Duration {
	if r.term != 0 {
		return r.renew(ctx)
	}
	sent := time.Now()
	if _, err := r.env.db.Exec(ctx, statement("river_expire"), r.env.Lab); err != nil {
		return r.second
	}
	me := r.env.ID().String()
	n, err := r.env.db.Exec(ctx, statement("river_elect"), r.env.Lab, me, r.env.Times.Lease.Microseconds())
	if err != nil {
		return r.second
	}
	if n == 1 {
		var term uint64
		if err := r.env.db.QueryRow(ctx, statement("river_term"), []any{r.env.Lab, me}, &term); err != nil {
			return r.second
		}
		r.term = term
		r.trust(sent)
		return r.env.Times.Beat
	}
	return r.env.Times.Check + rand.N(r.second)
}

// renew is a leader's turn.
func (r *river) renew(ctx context.Context) time.Duration {
	sent := time.Now()
	n, err := r.env.db.Exec(ctx, statement("river_reelect"), r.env.Times.Lease.Microseconds(), r.env.Lab, r.env.ID().String(), r.term)
	switch {
	case err == nil && n == 1:
		r.trust(sent)
		return r.env.Times.Beat
	case err == nil:
		r.lost("lost its re-election")
	default:
		if _, trusted := r.env.perceived.leading(); !trusted {
			r.lost("trust ended")
		}
	}
	return r.second
}

// trust extends the leadership: to a lease after the request was sent, less a
// margin.
func (r *river) trust(sent time.Time) {
	r.env.perceived.lead(r.term, sent.Add(r.env.Times.Lease-r.second))
}

func (r *river) lost(why string) {
	r.term = 0
	r.env.perceived.leave(why)
}

// release deletes the row and notifies the other nodes.
func (r *river) release(ctx context.Context) {
	term := r.term
	r.lost("stopped")
	if term == 0 {
		return
	}
	if n, err := r.env.db.Exec(ctx, statement("river_resign"), r.env.Lab, r.env.ID().String(), term); err == nil && n == 1 {
		r.env.report(Event{What: "wake", At: stamp(time.Now())})
	}
}
