package lab

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"conclave/internal/sleep"
	"conclave/lab/article000/sofaloop"
	"conclave/lab/article001/rowlock"
	"conclave/lab/article003/versioncas"
	conclavesql "conclave/sql"
)

var article000Rule = Rule{
	Name: "article-000", From: "article 000 as published; lab/article000/sofaloop",
	About:    "The statements of sofaregistry in the original's loop: a leader believes the row that it read last, for half of the lease by its own wall clock. All clocks are right.",
	Weakness: "Nothing but the clocks keeps two from leading (see article-000-skew). For the other half of the lease, and up to two seconds more, no node leads.",
	Own:      sofaTimes,
	migrate:  migrateArticle000,
	start: func(env *environment) (candidate, error) {
		return env.article000(0)
	},
}

var article000SkewRule = Rule{
	Name: "article-000-skew", From: "article 000 as published; lab/article000/sofaloop",
	About:    "The same. The wall clock of every candidate is behind the database's by half of the lease and 3 s.",
	Weakness: "A leader that does not reach the database leads for as much longer: a second or two after another has won, unless it is healed before.",
	Own:      sofaTimes,
	migrate:  migrateArticle000,
	start: func(env *environment) (candidate, error) {
		return env.article000(env.Times.Lease/2 + 3*time.Second)
	},
}

func migrateArticle000(ctx context.Context, db *conclavesql.DB, lab string) error {
	return sofaloop.Migrate(ctx, db, lockOf(lab))
}

// article000 returns a candidate whose wall clock is behind the database's. Its
// name is the owner in the row, without its incarnation.
func (env *environment) article000(behind time.Duration) (candidate, error) {
	loop, err := sofaloop.New(sofaloop.Config{
		DB: env.db, Lock: lockOf(env.Lab), Myself: env.Name, Duration: env.Times.Lease, Interval: env.Times.Beat,
		Now: func() time.Time { return time.Now().Add(-behind) },
	})
	if err != nil {
		return candidate{}, err
	}
	return env.article(loop.Run, loop.AmILeader, nil), nil
}

var article003Rule = Rule{
	Name: "article-003", From: "article 003 as published; lab/article003/versioncas, Service",
	About:    "Compare and swap of a version; a tick every 5 s, counted as missed after 5 s by the reader's wall clock.",
	Weakness: "A re-elected leader remembers the wrong version and steps down at its first tick. A leader that stalled notices its replacement only at its next tick. A follower that comes to its re-election late reads the row again, and wins from a leader that has just won or ticked (see article-003-late).",
	Own:      article003Times, Fixed: true,
	migrate: versioncas.MigrateArticle,
	start: func(env *environment) (candidate, error) {
		return env.article003(nil)
	},
}

// article003LateRule shows the two faults of article 003 that need a process to
// be late: with each tick more than a second late, a follower finds the leader
// crashed before it ticks, and re-elects after it, and so does the other one.
var article003LateRule = Rule{
	Name: "article-003-late", From: "article 003 as published; lab/article003/versioncas, Service",
	About:    "The same, with a pause of 1.2 to 1.7 s before each tick and between each check and its re-election, as a busy machine or a collection of garbage makes it now and then. No faults are injected.",
	Weakness: "A living leader that has just ticked is deposed, and of the followers that found it crashed all win, one after the other.",
	Own:      article003Times, Fixed: true, Faultless: true,
	migrate: versioncas.MigrateArticle,
	start: func(env *environment) (candidate, error) {
		return env.article003(func(ctx context.Context) {
			_ = sleep.For(ctx, 1200*time.Millisecond+rand.N(500*time.Millisecond))
		})
	},
}

var article003Times = Times{Lease: versioncas.ArticleTick, Beat: versioncas.ArticleTick, Check: versioncas.ArticleTick}

// article003 returns a candidate of article 003. A process that could not start
// is started again.
func (env *environment) article003(pause func(context.Context)) (candidate, error) {
	service, err := versioncas.NewService(versioncas.ServiceConfig{DB: env.db, Key: env.Lab, Pause: pause})
	if err != nil {
		return candidate{}, err
	}
	run := func(ctx context.Context) error {
		for ctx.Err() == nil {
			_ = service.Run(ctx)
			_ = sleep.For(ctx, env.Times.Beat/10)
		}
		return ctx.Err()
	}
	return env.article(run, service.IsLeader, nil), nil
}

var article001Rule = Rule{
	Name: "article-001", From: "article 001 as published; lab/article001/rowlock, Registry",
	About:    "A row with a unique key; a task refreshes the held rows and deletes expired ones, by the process's clock.",
	Weakness: "A process that holds no lock does not delete expired rows: a dead holder's row stays for ever.",
	Own:      Times{Lease: 6 * time.Second, Beat: 2 * time.Second, Check: 2 * time.Second}, Fixed: true,
	reset:   statement("row_free"),
	migrate: func(ctx context.Context, db *conclavesql.DB, _ string) error { return rowlock.MigrateArticle(ctx, db) },
	start: func(env *environment) (candidate, error) {
		registry, err := rowlock.NewRegistry(rowlock.RegistryConfig{DB: env.db, Owner: env.ID().String()})
		if err != nil {
			return candidate{}, err
		}
		run := func(ctx context.Context) error {
			var group sync.WaitGroup
			defer group.Wait()
			group.Go(func() {
				for ctx.Err() == nil && registry.Acquire(ctx, env.Lab) != nil {
					time.Sleep(env.Times.Beat / 10)
				}
			})
			return registry.Run(ctx)
		}
		return env.article(run, func() bool { return registry.Holds(env.Lab) }, func(ctx context.Context) error {
			return registry.Release(ctx, env.Lab)
		}), nil
	},
}

// article returns a candidate that runs an article's own form of an election. The form
// has a flag for its perceived leadership, which is read every millisecond.
func (env *environment) article(run func(context.Context) error, leads func() bool, release func(context.Context) error) candidate {
	c := env.loops(func(ctx context.Context) {
		var group sync.WaitGroup
		group.Go(func() {
			for sleep.For(ctx, time.Millisecond) == nil {
				if leads() {
					env.perceived.lead(0, time.Time{})
				} else {
					env.perceived.leave("the flag was cleared")
				}
			}
		})
		_ = run(ctx) // returns ctx's error
		group.Wait()
	}, func(ctx context.Context) error {
		env.perceived.leave("stopped")
		if release == nil { // the form gives nothing back
			return nil
		}
		return release(ctx)
	})
	c.leading = func() (uint64, bool) {
		number, ok := env.perceived.leading()
		return number, ok && leads()
	}
	c.cost = func() (statements, turns uint64) { // a turn of a waiting loop has one statement
		n := env.db.Statements()
		return n, n
	}
	return c
}
