package lab

import (
	"context"
	"errors"
	"time"

	conclavesql "conclave/sql"
)

var frenoRule = Rule{
	Name: "freno", From: "github/freno, go/group/mysql.go",
	About:    "One upsert that elects and beats, said by every node each second; then a read: is it me?",
	Weakness: "Who cannot reach the database keeps leading, on purpose: \"graceful response to backend errors\". All nodes lock the row at every turn. Whole seconds.",
	Own:      Times{Lease: 5 * time.Second, Beat: time.Second, Check: time.Second},
	migrate:  tables("", conclavesql.LabFrenoTable),
	start: func(_ context.Context, s *stand) (candidate, error) {
		return s.loop(&freno{s: s, lease: seconds(s.Times.Lease), keeps: true}), nil
	},
}

var orchestratorRule = Rule{
	Name: "orchestrator", From: "openark/orchestrator, go/process/election_dao.go",
	About:    "The same upsert; without an answer of the database a node is no leader.",
	Weakness: "The flag is good until the next turn, whatever has happened since. All nodes lock the row at every turn. Whole seconds.",
	Own:      Times{Lease: 5 * time.Second, Beat: time.Second, Check: time.Second},
	migrate:  tables("", conclavesql.LabFrenoTable),
	start: func(_ context.Context, s *stand) (candidate, error) {
		return s.loop(&freno{s: s, lease: seconds(s.Times.Lease)}), nil
	},
}

// freno is both: they share the statements, and differ in what an error means.
type freno struct {
	s     *stand
	lease int64
	keeps bool // the flag, when the database does not answer
}

// turn attempts, and then asks who leads.
func (f *freno) turn(ctx context.Context) time.Duration {
	me := f.s.ID().String()
	_, attempt := f.s.db.Exec(ctx, conclavesql.LabFrenoAttempt, f.s.Lab, me, f.lease)
	var leader string
	err := f.s.db.QueryRow(ctx, conclavesql.LabFrenoRead, []any{f.s.Lab}, &leader)
	switch {
	case err != nil && !errors.Is(err, conclavesql.ErrNoRows), attempt != nil && !f.keeps:
		if !f.keeps {
			f.s.belief.leave("no answer")
		}
	case leader == me:
		f.s.belief.lead(0, time.Time{})
	default:
		f.s.belief.leave("another leads")
	}
	return f.s.Times.Beat
}

// release is the operator's "reelect", which deletes the row; neither does it by itself.
func (f *freno) release(ctx context.Context) {
	_, led := f.s.belief.holds()
	f.s.belief.leave("stopped")
	if led {
		_, _ = f.s.db.Exec(ctx, conclavesql.LabFrenoReelect, f.s.Lab) // else the lease
	}
}
