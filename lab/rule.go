package lab

import (
	"context"
	"embed"
	"time"

	conclavesql "conclave/sql"
)

//go:embed sql/*.sql
var files embed.FS

// statement returns a statement in the folder sql by its name.
var statement = conclavesql.Statements(files)

// Rule is one way to elect a leader.
type Rule struct {
	Name     string // as in the report and in --rules
	From     string // its project or article, and the source that was read
	About    string // how it works, in a sentence or two
	Weakness string // what is known to be wrong with it; may be empty

	Own   Times // its own defaults
	Fixed bool  // its times cannot be configured: it runs with Own
	Alone bool  // its waiters spin: no other rule runs at the same time

	Faultless bool // no faults are injected: its candidates have their own

	// What it promises. The report lists broken promises.
	Exclusive bool // no two processes believe at the same time that they lead
	Fences    bool // a write under its number is refused once there is a newer one

	migrate func(ctx context.Context, db *conclavesql.DB, lab string) error // nil if it needs no tables
	reset   string                                                          // a statement that frees a leadership that would stay taken for ever; may be empty
	start   func(env *environment) (candidate, error)
}

// Times are the intervals of a rule.
type Times struct {
	Lease time.Duration `json:"leaseNanos"` // after which a silent leader is replaced
	Beat  time.Duration `json:"beatNanos"`  // between two renewals of the leader
	Check time.Duration `json:"checkNanos"` // between two checks of a waiting candidate
}

// times returns the rule's times scaled to a lease, unless they are fixed.
func (r Rule) times(lease time.Duration) Times {
	if r.Fixed || r.Own.Lease == lease {
		return r.Own
	}
	scale := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) * float64(lease) / float64(r.Own.Lease)).Round(time.Millisecond)
	}
	return Times{Lease: lease, Beat: scale(r.Own.Beat), Check: scale(r.Own.Check)}
}

// Rules returns all rules, in the order of the report.
func Rules() []Rule {
	return []Rule{
		witnessRule, leaseRule, sofaRule, versionRule,
		article000Rule, article000SkewRule, article003Rule, article003LateRule, article001Rule,
		polarisRule, orchestratorRule, frenoRule, dolphinRule, riverRule, clientGoRule, curatorRule,
	}
}

// RuleNamed returns the rule with a name; ok is false if there is none.
func RuleNamed(name string) (rule Rule, ok bool) {
	for _, r := range Rules() {
		if r.Name == name {
			return r, true
		}
	}
	return Rule{}, false
}

// candidate takes part in an election.
type candidate struct {
	// run takes part until stop is called, or until ctx ends, which is like a
	// crash.
	run func(ctx context.Context) error
	// stop leaves the election gracefully, as the rule does, and ends run.
	stop func(ctx context.Context) error
	// leading reports whether the candidate believes that it leads; a leader
	// checks it before each write. number orders the leaderships.
	leading func() (number uint64, ok bool)
	// wake notifies the candidate that another one has resigned.
	wake func()
	// cost returns the numbers of requests to the store and of turns of the
	// candidate's loops so far.
	cost func() (statements, turns uint64)
	// write writes under a term, and reports whether the write took effect; nil if
	// the rule's number cannot guard a write.
	write guardedWrite
}

type guardedWrite = func(ctx context.Context, db *conclavesql.DB, term uint64) (bool, error)

// tables returns a migration that executes statements, and then seed (which may
// be empty) with the election's name.
func tables(seed string, statements ...string) func(context.Context, *conclavesql.DB, string) error {
	return func(ctx context.Context, db *conclavesql.DB, lab string) error {
		if err := db.Create(ctx, statements...); err != nil || seed == "" {
			return err
		}
		_, err := db.Exec(ctx, seed, lab)
		return err
	}
}
