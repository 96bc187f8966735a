package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// The outages of the database, the metas' only authority.

// freezeWait is how long the database is away: eight leases.
const freezeWait = 25 * time.Second

// freezeDatabase takes the metas' only authority away.
func (o *outages) freezeDatabase(ctx context.Context) error {
	before, err := o.leader(ctx)
	if err != nil {
		return err
	}
	o.story.scene("FREEZE THE DATABASE", fmt.Sprintf("docker pause db, for %v: nobody can lead, and the registry goes on", freezeWait))
	o.ledger.Phase()
	began := time.Now()
	if err := o.stage.Pause(ctx, "db"); err != nil {
		return err
	}
	frozen := time.Now()
	waiting, cancel := context.WithTimeout(ctx, sceneWait)
	defer cancel()
	if err := poll(waiting, func() (bool, error) { return !o.anyLeads(waiting), nil }); err != nil {
		return fmt.Errorf("somebody leads without a database: %w", err)
	}
	stopped := time.Since(frozen)
	o.claims.judge(claimCut, stopped <= o.lease, "somebody led for %v after the database froze", stopped.Round(time.Millisecond))
	o.story.figure("nobody leads after", ms(stopped.Milliseconds()), fmt.Sprintf("a leader's own clock says so; its lease is %v", o.lease))
	leaderless := time.Now()
	for time.Since(began) < freezeWait {
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		o.claims.judge(claimCut, !o.anyLeads(ctx), "a meta says that it leads, %v after it found the database gone", time.Since(leaderless).Round(time.Millisecond))
	}
	o.published(ctx, "frozen")
	thawed := time.Now()
	if err := o.stage.Unpause(ctx, "db"); err != nil {
		return err
	}
	return o.leaderReturns(ctx, before.Term, thawed, "the thaw", claimReturns, o.lease)
}

// published waits until whatever was published until now is seen: before the
// database is back.
func (o *outages) published(ctx context.Context, how string) {
	seeing, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	err := o.ledger.AwaitMark(seeing, o.ledger.Mark())
	o.claims.judge(claimOutage, err == nil, "not everything that was published while the database was %s has arrived: %v", how, err)
	v := o.ledger.Phase().Values()
	o.story.figure("updates seen meanwhile", fmt.Sprint(v.N), fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, the slowest %.0f ms", v.P50, v.P99, v.Max))
}

// anyLeads asks every meta whether it leads.
func (o *outages) anyLeads(ctx context.Context) bool {
	any := make(chan bool, len(o.admin.Metas))
	for _, at := range o.admin.Metas {
		go func() { // bounded by the limit of leads; the channel takes all of them
			_, leads, _ := o.leads(ctx, at) // who does not answer leads nobody
			any <- leads
		}()
	}
	found := false
	for range o.admin.Metas {
		found = <-any || found
	}
	return found
}

// leaderReturns times the return of a leader, of this term or a later one, and ends
// the scene: within limit, claims the scene.
func (o *outages) leaderReturns(ctx context.Context, term uint64, from time.Time, what, claim string, limit time.Duration) error {
	now, err := o.awaitTerm(ctx, term-1)
	if err != nil {
		return err
	}
	took := max(0, time.Since(from))
	o.claims.judge(claim, took <= limit, "it took %v after %s, %v were allowed", took.Round(time.Millisecond), what, limit)
	o.story.figure("a leader is back after", ms(took.Milliseconds()), fmt.Sprintf("since %s: %s, term %d, cause %q", what, now.Leader, now.Term, now.Cause))
	if err := o.judge(ctx); err != nil {
		return err
	}
	o.story.look("conclave elections")
	return o.settle(ctx)
}

// restartDatabase has the database forget every connection and every named lock.
func (o *outages) restartDatabase(ctx context.Context) error {
	before, err := o.leader(ctx)
	if err != nil {
		return err
	}
	o.story.scene("RESTART THE DATABASE", "docker restart db: every connection and every named lock is gone, the tables stay")
	o.ledger.Phase()
	began := time.Now()
	if err := o.stage.Restart(ctx, "db"); err != nil {
		return err
	}
	o.story.figure("the engine restarted it in", ms(since(began)), "")
	waiting, cancel := context.WithTimeout(ctx, sceneWait)
	defer cancel()
	up, err := o.stage.Answered(waiting, "db", began)
	if err != nil {
		return err
	}
	o.story.figure("the database answers after", ms(up.Sub(began).Milliseconds()), "")
	return o.leaderReturns(ctx, before.Term, up, "the database's first answer", claimReturns, o.lease)
}

// darkWait is how long nothing of the cluster's brain is there: three leases, so that
// no lease and no lock can be left from before.
const darkWait = 10 * time.Second

// blackout kills all metas and the database, and starts them together: nobody has
// seen anything, and whoever comes first must wait a whole lease before it takes the
// place of a leader who might live.
func (o *outages) blackout(ctx context.Context) error {
	before, err := o.leader(ctx)
	if err != nil {
		return err
	}
	o.story.scene("BLACKOUT", fmt.Sprintf("docker kill for all metas and the database; %v later all are started together", darkWait))
	o.ledger.Phase()
	dark := []string{"db", "meta-1", "meta-2", "meta-3"}
	if err := each(dark, func(name string) error { return o.demo.stage.Kill(ctx, name) }); err != nil {
		return err
	}
	if err := sleep(ctx, darkWait); err != nil {
		return err
	}
	o.published(ctx, "killed")
	began := time.Now()
	if err := each(dark, func(name string) error { return o.demo.stage.Start(ctx, name) }); err != nil {
		return err
	}
	started := time.Now()
	waiting, cancel := context.WithTimeout(ctx, sceneWait)
	defer cancel()
	up, err := o.stage.Answered(waiting, "db", began)
	if err != nil {
		return err
	}
	what := "the database's first answer"
	if started.After(up) {
		up, what = started, "the start of the last meta"
	}
	return o.leaderReturns(ctx, before.Term+1, up, what, claimBlack, o.lease+time.Second)
}

// each does something to all at once.
func each(names []string, do func(name string) error) error {
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, n := range names {
		all.Go(func() { errs[i] = do(n) })
	}
	all.Wait()
	return errors.Join(errs...)
}
