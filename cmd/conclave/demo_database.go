package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"conclave/internal/sleep"
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
	frozen := time.Now() // the last renewal was before this
	led, stopped, err := lastLed(ctx, frozen, func(ctx context.Context) (bool, error) { return o.anyLeads(ctx), nil })
	if err != nil {
		return fmt.Errorf("a meta leads without a database: %w", err)
	}
	o.claims.judge(claimCut, led <= o.lease, "somebody led %v after the database froze", led.Round(time.Millisecond))
	o.story.figure("nobody leads after", ms(stopped.Milliseconds()), fmt.Sprintf("a leader's own clock says so; its lease is %v", o.lease))
	for time.Since(began) < freezeWait {
		if err := sleep.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		asked := time.Since(frozen)
		o.claims.judge(claimCut, asked <= o.lease || !o.anyLeads(ctx), "a meta says that it leads, %v after the database froze", asked.Round(time.Millisecond))
	}
	o.published(ctx, "frozen")
	thawed := time.Now()
	if err := o.stage.Unpause(ctx, "db"); err != nil {
		return err
	}
	return o.leaderReturns(ctx, before.Term, thawed, "the thaw", o.lease)
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

// lastLed asks until the answer is no. led is when the last question was sent that
// was answered yes: somebody led then, however late that was heard; stopped is when
// the no was heard. Both count from since. Who does not answer is asked again.
func lastLed(ctx context.Context, since time.Time, leads func(ctx context.Context) (bool, error)) (led, stopped time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, sceneWait)
	defer cancel()
	err = poll(ctx, func() (bool, error) {
		asked := time.Since(since)
		yes, err := leads(ctx)
		if yes && err == nil {
			led = asked
		}
		return !yes && err == nil, nil
	})
	return led, time.Since(since), err
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
// the scene. What is wanted is a figure: on a busy machine it says nothing against
// the cluster.
func (o *outages) leaderReturns(ctx context.Context, term uint64, from time.Time, what string, wanted time.Duration) error {
	now, err := o.awaitTerm(ctx, term-1)
	if err != nil {
		return err
	}
	took := max(0, time.Since(from))
	o.story.figure("a leader is back after", ms(took.Milliseconds()), fmt.Sprintf("since %s: %s, term %d, cause %q", what, now.Leader, now.Term, now.Cause))
	o.story.figure("wanted", either(took <= wanted, "reached", "MISSED"), fmt.Sprintf("at most %v", wanted))
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
	return o.leaderReturns(ctx, before.Term, up, "the database's first answer", o.lease)
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
	if err := sleep.For(ctx, darkWait); err != nil {
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
	return o.leaderReturns(ctx, before.Term+1, up, what, o.lease+time.Second)
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
