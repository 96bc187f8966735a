package lab

import (
	"context"
	"errors"
	"time"

	conclavesql "conclave/sql"
)

var frenoRule = Rule{
	Name: "freno", From: "github/freno, go/group/mysql.go",
	About:    "Every node executes, each second, one upsert that elects or renews, and then reads the leader's name.",
	Weakness: "A leader that cannot reach the database continues to lead, on purpose: \"graceful response to backend errors\". All nodes lock the row at every turn. Whole seconds.",
	Own:      Times{Lease: 5 * time.Second, Beat: time.Second, Check: time.Second},
	migrate:  tables("", statement("freno_table")),
	start: func(env *environment) (candidate, error) {
		return env.loop(&freno{env: env, lease: seconds(env.Times.Lease), keeps: true}, 0), nil
	},
}

var orchestratorRule = Rule{
	Name: "orchestrator", From: "openark/orchestrator, go/process/election_dao.go",
	About:    "The same upsert; a node that gets no answer from the database does not lead.",
	Weakness: "The flag is valid until the next turn, even if the node was stopped meanwhile. All nodes lock the row at every turn. Whole seconds.",
	Own:      Times{Lease: 5 * time.Second, Beat: time.Second, Check: time.Second},
	migrate:  tables("", statement("freno_table")),
	start: func(env *environment) (candidate, error) {
		return env.loop(&freno{env: env, lease: seconds(env.Times.Lease)}, 0), nil
	},
}

// freno is both rules: they have the same statements and differ in what an
// error means.
type freno struct {
	env   *environment
	lease int64
	keeps bool // keep the leadership if the database does not answer
}

// turn executes the upsert and then reads the leader.
func (f *freno) turn(ctx context.Context) time.Duration {
	me := f.env.ID().String()
	_, attempt := f.env.db.Exec(ctx, statement("freno_attempt"), f.env.Lab, me, f.lease)
	var leader string
	err := f.env.db.QueryRow(ctx, statement("freno_read"), []any{f.env.Lab}, &leader)
	switch {
	case err != nil && !errors.Is(err, conclavesql.ErrNoRows), attempt != nil && !f.keeps:
		if !f.keeps {
			f.env.perceived.leave("no answer")
		}
	case leader == me:
		f.env.perceived.lead(0, time.Time{})
	default:
		f.env.perceived.leave("another node leads")
	}
	return f.env.Times.Beat
}

// release deletes the row, as an operator does with "reelect"; neither project
// does it by itself.
func (f *freno) release(ctx context.Context) {
	_, led := f.env.perceived.leading()
	f.env.perceived.leave("stopped")
	if led {
		_, _ = f.env.db.Exec(ctx, statement("freno_reelect"), f.env.Lab) // if it fails, the lease expires
	}
}
