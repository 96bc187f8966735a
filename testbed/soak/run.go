package soak

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"conclave/testbed"
	"conclave/testbed/scenario"
)

// errNotHealed ends a run whose cluster does not serve any more: later episodes
// would only show the same again.
var errNotHealed = errors.New("the cluster did not heal")

// Run opens the cluster, plays episodes until Config.For has passed, and stops
// the cluster. With an error the report is incomplete.
func (r *Runner) Run(ctx context.Context) (*Report, error) {
	err := r.run(ctx)
	r.checkGrowth()
	r.report.finish(r)
	return &r.report, err
}

func (r *Runner) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, r.cluster.Close(context.WithoutCancel(ctx))) }()
	if err := r.cluster.Open(ctx, r.cfg.Size, nil); err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	watching, unwatch := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	end := func() { unwatch(); watchers.Wait() }
	defer end()
	r.oracle.Events() // the record begins
	watchers.Go(func() { r.runEvents(watching) })
	watchers.Go(func() { r.runProcesses(watching) })
	for name, address := range r.cluster.Addresses() {
		if testbed.Selector(name).IsMeta() {
			watchers.Go(func() { r.runTerms(watching, name, address) })
		}
	}
	r.load.begin(ctx)
	finish := sync.OnceFunc(r.load.finish)
	defer finish()
	if err := r.loaded(ctx); err != nil {
		return err
	}
	r.say("ready: %d registrations on %d dataIds, %d subscribers", r.load.Publishers*r.load.Each, r.load.Services, r.load.Subscribers)
	if err := r.episodes(ctx); err != nil {
		return err
	}
	finish()
	end()
	return r.stop(ctx)
}

// settle waits until every process of the new cluster is ready.
func (r *Runner) settle(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, servedBound)
	defer cancel()
	if err := r.cluster.AwaitReady(waiting); err != nil {
		return fmt.Errorf("the new cluster is not ready: %w", err)
	}
	all, err := r.cluster.Processes(ctx)
	for _, p := range all {
		r.states.set(p.Name, up)
	}
	return err
}

// loaded waits until every lasting registration is stored.
func (r *Runner) loaded(ctx context.Context) error {
	var failed error
	ok := r.await(ctx, servedBound, func(context.Context) (ready bool) {
		ready, failed = r.load.ready()
		return ready || failed != nil
	})
	if failed == nil && !ok {
		failed = errors.New("the load's registrations are not stored")
	}
	return errors.Join(ctx.Err(), failed)
}

// episodes plays storms until Config.For has passed.
func (r *Runner) episodes(ctx context.Context) error {
	first, number := r.elapsed(), 0
	for s := range scenario.Storms(r.cfg.Seed, r.size(), r.cluster.Capabilities(), r.cfg.Only) {
		if number > 0 && r.elapsed()-first >= r.cfg.For {
			return nil
		}
		number++
		name := s.Scenes[0].Title
		r.oracle.BeginEpisode(number)
		r.say("episode %d: %s", number, name)
		began := r.elapsed()
		played, err := r.play(ctx, s)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		rested := r.rest(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := r.load.ready(); err != nil {
			return fmt.Errorf("the load failed: %w", err)
		}
		if err := r.checkLogs(ctx); err != nil {
			return err
		}
		r.say("  %s, %s after its first step; %d violations so far", map[bool]string{true: "healed and checked", false: "NOT HEALED"}[rested],
			(r.elapsed() - began).Round(100*time.Millisecond), r.oracle.Broken())
		r.report.Episodes = append(r.report.Episodes, EpisodeReport{
			Number: number, Name: name, AtMs: began.Milliseconds(), TookMs: (r.elapsed() - began).Milliseconds(), Steps: played,
		})
		if !rested {
			return errNotHealed
		}
	}
	return errors.New("the cluster can play no storm")
}

// stop stops the cluster and checks how its processes ended.
func (r *Runner) stop(ctx context.Context) error {
	r.say("stopping the cluster")
	err := r.cluster.Stop(ctx)
	r.oracle.Expect(checkExit, err == nil, "stop of the cluster: %v", err)
	all, perr := r.cluster.Processes(ctx)
	for _, p := range all {
		r.oracle.Expect(checkExit, !p.Running && p.Code == 0 && p.Signal == "", "%s, stopped with the cluster: running %t, exit code %d %s", p.Name, p.Running, p.Code, p.Signal)
	}
	return errors.Join(perr, r.checkLogs(ctx))
}

// runEvents writes the event log.
func (r *Runner) runEvents(ctx context.Context) {
	f, err := os.Create(filepath.Join(r.cfg.Dir, "events.log"))
	if err != nil {
		r.load.fail(err)
		return
	}
	defer f.Close() // the last write has been checked
	out := bufio.NewWriter(f)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for done := false; !done; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			done = true
		}
		for _, line := range r.oracle.Events() {
			fmt.Fprintln(out, line)
		}
		if err := out.Flush(); err != nil {
			r.load.fail(err)
			return
		}
	}
}

// finish fills in the counts of the run.
func (r *Report) finish(from *Runner) {
	r.Seed, r.ForMs, r.TookMs, r.Raced = from.cfg.Seed, from.cfg.For.Milliseconds(), from.elapsed().Milliseconds(), from.cfg.Raced
	r.Checks, r.Violations, r.Memory = from.oracle.Checks(), from.oracle.Violations(), from.memory.growth()
	from.oracle.mu.Lock()
	r.Pushes, r.Acks = from.oracle.pushes, from.oracle.acks
	from.oracle.mu.Unlock()
	r.Ok = from.oracle.Broken() == 0
	if r.Episodes == nil {
		r.Episodes = []EpisodeReport{}
	}
	if r.Violations == nil {
		r.Violations = []Violation{}
	}
	if r.Memory == nil {
		r.Memory = []Growth{}
	}
}
