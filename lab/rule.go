package lab

import (
	"context"
	"slices"
	"time"

	conclavesql "conclave/sql"
)

// Rule is one way to elect, as the lab plays it.
type Rule struct {
	Name     string // as in the report and in --rules
	From     string // whose it is, and in which version it was read
	About    string // the rule in a sentence
	Weakness string // what is known to be wrong with it; empty for what we know nothing about

	Own   Times // its own defaults
	Fixed bool  // it cannot be told others: it plays with its own
	Alone bool  // its waiters spin: it has the database to itself
	Tree  bool  // its store is ZooKeeper

	// What it promises, and what is held against it.
	Exclusive bool // no two processes believe at the same time
	Fences    bool // a write under its number is refused once there is a newer one

	migrate func(ctx context.Context, db *conclavesql.DB, lab string) error
	reset   string // frees the place as an operator would, where it stays taken for ever
	start   func(ctx context.Context, s *stand) (candidate, error)
}

// Times are what a rule's timing rests on.
type Times struct {
	Lease time.Duration `json:"leaseNanos"` // how long a silent leader is waited for
	Beat  time.Duration `json:"beatNanos"`  // between two signs of the leader's life
	Check time.Duration `json:"checkNanos"` // between two looks of who waits
}

// times are the rule's for a lease: its own proportions, unless they are fixed.
func (r Rule) times(lease time.Duration) Times {
	if r.Fixed || r.Own.Lease == lease {
		return r.Own
	}
	scale := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) * float64(lease) / float64(r.Own.Lease)).Round(time.Millisecond)
	}
	return Times{Lease: lease, Beat: scale(r.Own.Beat), Check: scale(r.Own.Check)}
}

// Rules are all of them, in the order of the report.
func Rules() []Rule {
	return []Rule{
		witnessRule, leaseRule, sofaRule, versionRule, rowRule, zookeeperRule,
		article003Rule, article001Rule,
		polarisRule, orchestratorRule, frenoRule, dolphinRule, riverRule, clientGoRule, curatorRule,
	}
}

// RuleNamed finds one.
func RuleNamed(name string) (Rule, bool) {
	rules := Rules()
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name })
	if i < 0 {
		return Rule{}, false
	}
	return rules[i], true
}

// candidate is one process's part in an election.
type candidate interface {
	// Run takes part until ctx ends, which is a crash, or Stop is called.
	Run(ctx context.Context) error
	// Stop leaves gracefully, in whatever way the rule has; Run returns.
	Stop(ctx context.Context) error
	// Leading is the check before an act. number orders the leaderships, where the
	// rule has a number for that; else it is 0.
	Leading() (number uint64, ok bool)
	// Wake is called when another process has handed over and says so.
	Wake()
	// Cost is what has been asked of the store, and how often a loop has turned.
	Cost() (statements, turns uint64)
}

// fencer is a candidate that can guard a write by its number.
type fencer interface {
	// fenced writes under number; false: it was refused.
	fenced(ctx context.Context, db *conclavesql.DB, number uint64) (bool, error)
}

// tables makes what the peers of a rule need, on a connection of its own: a table takes
// longer than a beat on a slow disk. seed may be empty.
func tables(seed string, statements ...string) func(context.Context, *conclavesql.DB, string) error {
	return func(ctx context.Context, db *conclavesql.DB, lab string) error {
		conn, err := db.Pin(ctx, nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		for _, s := range statements {
			if _, err := conn.Exec(ctx, s); err != nil {
				return err
			}
		}
		if seed == "" {
			return nil
		}
		_, err = conn.Exec(ctx, seed, lab)
		return err
	}
}
