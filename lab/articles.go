package lab

import (
	"context"
	"sync"
	"time"

	"conclave/elector/rowlock"
	"conclave/elector/versioncas"
	conclavesql "conclave/sql"
)

var article003Rule = Rule{
	Name: "article-003", From: "article 003 as published; elector/versioncas, Service",
	About:    "Compare and swap of a version; a tick every 5 s, counted as missed after 5 s by the reader's wall clock.",
	Weakness: "A re-elected leader remembers the wrong version and steps down at its first tick. A leader that stalled notices its replacement only at its next tick.",
	Own:      Times{Lease: versioncas.ArticleTick, Beat: versioncas.ArticleTick, Check: versioncas.ArticleTick}, Fixed: true,
	migrate: versioncas.MigrateArticle,
	start: func(_ context.Context, env *environment) (candidate, error) {
		service, err := versioncas.NewService(versioncas.ServiceConfig{DB: env.db, Key: env.Lab})
		if err != nil {
			return nil, err
		}
		return env.article(service.Run, service.IsLeader, func(context.Context) error { return nil }), nil
	},
}

var article001Rule = Rule{
	Name: "article-001", From: "article 001 as published; elector/rowlock, Registry",
	About:    "A row with a unique key; a task refreshes the held rows and deletes expired ones, by the process's clock.",
	Weakness: "A process that holds no lock does not delete expired rows: a dead holder's row stays for ever.",
	Own:      Times{Lease: 6 * time.Second, Beat: 2 * time.Second, Check: 2 * time.Second}, Fixed: true,
	reset:   rowFreeSQL,
	migrate: func(ctx context.Context, db *conclavesql.DB, _ string) error { return rowlock.MigrateArticle(ctx, db) },
	start: func(_ context.Context, env *environment) (candidate, error) {
		registry, err := rowlock.NewRegistry(rowlock.RegistryConfig{DB: env.db, Owner: env.ID().String()})
		if err != nil {
			return nil, err
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

// articleCandidate is a candidate that runs an article's own form of an
// election. The form has a flag for its perceived leadership, which the
// candidate reads every millisecond.
type articleCandidate struct {
	env     *environment
	run     func(context.Context) error
	leads   func() bool
	release func(context.Context) error
	once    sync.Once
	stop    chan struct{} // closed by Stop
	done    chan struct{} // closed by Run
}

func (env *environment) article(run func(context.Context) error, leads func() bool, release func(context.Context) error) candidate {
	return &articleCandidate{env: env, run: run, leads: leads, release: release, stop: make(chan struct{}), done: make(chan struct{})}
}

func (a *articleCandidate) Run(ctx context.Context) error {
	defer close(a.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() { a.pollFlag(ctx) })
	group.Go(func() { _ = a.run(ctx) }) // returns ctx's error
	select {
	case <-a.stop:
	case <-ctx.Done():
	}
	cancel()
	group.Wait()
	return nil
}

// pollFlag reports the changes of the flag.
func (a *articleCandidate) pollFlag(ctx context.Context) {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		}
		if a.leads() {
			a.env.perceived.lead(0, time.Time{})
		} else {
			a.env.perceived.leave("the flag was cleared")
		}
	}
}

func (a *articleCandidate) Stop(ctx context.Context) error {
	a.once.Do(func() { close(a.stop) })
	<-a.done
	a.env.perceived.leave("stopped")
	return a.release(ctx)
}

func (a *articleCandidate) Leading() (uint64, bool) { return 0, a.leads() }
func (a *articleCandidate) Wake()                   {}

// Cost counts each statement as a turn: a turn of these loops has one
// statement.
func (a *articleCandidate) Cost() (statements, turns uint64) {
	n := a.env.db.Statements()
	return n, n
}
