package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"conclave/internal/sleep"
)

// The scenes with outages of the database.

// freezeWait is the duration of the outage: eight leases.
const freezeWait = 25 * time.Second

// freezeDatabase suspends the database, without which no meta can lead.
func (o *outages) freezeDatabase(ctx context.Context) error {
	before, err := o.leader(ctx)
	if err != nil {
		return err
	}
	o.story.scene("FREEZE THE DATABASE", fmt.Sprintf("docker pause db for %v: no meta can lead, and the registry continues", freezeWait))
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
	o.claims.judge(claimCut, led <= o.lease, "a meta led %v after the database was suspended", led.Round(time.Millisecond))
	o.story.figure("no meta leads after", ms(stopped.Milliseconds()), fmt.Sprintf("the leader stopped by its own clock; its lease is %v", o.lease))
	for time.Since(began) < freezeWait {
		if err := sleep.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		asked := time.Since(frozen)
		o.claims.judge(claimCut, asked <= o.lease || !o.anyLeads(ctx), "a meta reports that it leads, %v after the database was suspended", asked.Round(time.Millisecond))
	}
	o.published(ctx, "frozen")
	thawed := time.Now()
	if err := o.stage.Unpause(ctx, "db"); err != nil {
		return err
	}
	return o.leaderReturns(ctx, before.Term, thawed, "the thaw", o.lease)
}

// published waits until all subscribers have received what was published until
// now, before the database is back.
func (o *outages) published(ctx context.Context, how string) {
	seeing, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	err := o.ledger.AwaitMark(seeing, o.ledger.Mark())
	o.claims.judge(claimOutage, err == nil, "not everything that was published while the database was %s has arrived: %v", how, err)
	v := o.ledger.Phase().Values()
	o.story.figure("updates received meanwhile", fmt.Sprint(v.N), fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, the slowest %.0f ms", v.P50, v.P99, v.Max))
}

// lastLed queries until the answer is no. led is when the last query with the
// answer yes was sent, so a meta led at that time; stopped is when the answer
// no arrived. Both count from since. A query without an answer is repeated.
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

// anyLeads reports whether any meta answers that it leads.
func (o *outages) anyLeads(ctx context.Context) bool {
	any := make(chan bool, len(o.admin.Metas))
	for _, at := range o.admin.Metas {
		go func() { // ends after the timeout of leads; the channel has room for all answers
			_, leads, _ := o.leads(ctx, at) // a meta that does not answer does not lead
			any <- leads
		}()
	}
	found := false
	for range o.admin.Metas {
		found = <-any || found
	}
	return found
}

// leaderReturns measures the time until there is a leader of this term or a
// later one, and ends the scene. A missed target is not a failure, because the
// machine may be busy.
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
	o.lookAt("election list")
	return o.settle(ctx)
}

// restartDatabase restarts the database, which loses all connections and named
// locks.
func (o *outages) restartDatabase(ctx context.Context) error {
	before, err := o.leader(ctx)
	if err != nil {
		return err
	}
	o.story.scene("RESTART THE DATABASE", "docker restart db: all connections and named locks are lost, the tables stay")
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

// darkWait is how long metas and database are down: three leases, so that no
// lease and no lock is left.
const darkWait = 10 * time.Second

// blackout kills all metas and the database and starts them together. No meta
// has observed the lock row, so the first must wait a whole lease before it
// replaces a leader that might be alive.
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

// each calls a function for all at the same time.
func each(names []string, do func(name string) error) error {
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, n := range names {
		all.Go(func() { errs[i] = do(n) })
	}
	all.Wait()
	return errors.Join(errs...)
}
