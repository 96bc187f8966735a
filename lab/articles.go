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
	Name: "article-003", From: "article 003 to the letter; elector/versioncas, Service",
	About:    "Compare and swap of a version; a tick each 5 s, missed after 5 s by the reader's wall clock.",
	Weakness: "Who was re-elected remembers the wrong version and steps down at its first tick. A leader that stalls finds out at its next tick.",
	Own:      Times{Lease: versioncas.ArticleTick, Beat: versioncas.ArticleTick, Check: versioncas.ArticleTick}, Fixed: true,
	migrate: versioncas.MigrateArticle,
	start: func(_ context.Context, s *stand) (candidate, error) {
		service, err := versioncas.NewService(versioncas.ServiceConfig{DB: s.db, Key: s.Lab})
		if err != nil {
			return nil, err
		}
		return s.article(service.Run, service.IsLeader, func(context.Context) error { return nil }), nil
	},
}

var article001Rule = Rule{
	Name: "article-001", From: "article 001 to the letter; elector/rowlock, Registry",
	About:    "A row under a unique key; a task refreshes the held rows and deletes expired ones, by the process's clock.",
	Weakness: "Who holds nothing cleans nothing: a dead holder's row stays for ever.",
	Own:      Times{Lease: 6 * time.Second, Beat: 2 * time.Second, Check: 2 * time.Second}, Fixed: true,
	reset:   conclavesql.LabRowFree,
	migrate: func(ctx context.Context, db *conclavesql.DB, _ string) error { return rowlock.MigrateArticle(ctx, db) },
	start: func(_ context.Context, s *stand) (candidate, error) {
		registry, err := rowlock.NewRegistry(rowlock.RegistryConfig{DB: s.db, Owner: s.ID().String()})
		if err != nil {
			return nil, err
		}
		run := func(ctx context.Context) error {
			var group sync.WaitGroup
			defer group.Wait()
			group.Go(func() {
				for ctx.Err() == nil && registry.Acquire(ctx, s.Lab) != nil {
					time.Sleep(s.Times.Beat / 10) // an answer that was lost, say
				}
			})
			return registry.Run(ctx)
		}
		return s.article(run, func() bool { return registry.Holds(s.Lab) }, func(ctx context.Context) error {
			return registry.Release(ctx, s.Lab)
		}), nil
	},
}

// faithful is a candidate that is an article's own code. What it believes is a flag of
// its own, which is looked at each millisecond.
type faithful struct {
	s       *stand
	run     func(context.Context) error
	leads   func() bool
	release func(context.Context) error
	once    sync.Once
	stop    chan struct{} // closed by Stop
	done    chan struct{} // closed by Run
}

func (s *stand) article(run func(context.Context) error, leads func() bool, release func(context.Context) error) candidate {
	return &faithful{s: s, run: run, leads: leads, release: release, stop: make(chan struct{}), done: make(chan struct{})}
}

func (f *faithful) Run(ctx context.Context) error {
	defer close(f.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() { f.watch(ctx) })
	group.Go(func() { _ = f.run(ctx) }) // it runs until it is told not to
	select {
	case <-f.stop:
	case <-ctx.Done():
	}
	cancel()
	group.Wait()
	return nil
}

// watch tells what the flag says.
func (f *faithful) watch(ctx context.Context) {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if f.leads() {
			f.s.belief.lead(0, time.Time{})
		} else {
			f.s.belief.leave("the flag fell")
		}
	}
}

func (f *faithful) Stop(ctx context.Context) error {
	f.once.Do(func() { close(f.stop) })
	<-f.done
	f.s.belief.leave("stopped")
	return f.release(ctx)
}

func (f *faithful) Leading() (uint64, bool) { return 0, f.leads() }
func (f *faithful) Wake()                   {}

// Cost counts each statement as a turn: these loops do one at a time.
func (f *faithful) Cost() (statements, turns uint64) {
	n := f.s.db.Statements()
	return n, n
}
