package soak

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"conclave/testbed/check/blackbox"
	"conclave/testbed/scenario"
)

// errNotHealed ends a run whose cluster does not serve any more: later episodes
// would only show the same again.
var errNotHealed = errors.New("the cluster did not heal")

// Run opens the cluster, plays lossless storms under load until Config.For has passed,
// and stops the cluster. With an error the report is incomplete.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	r := &runner{cfg: cfg, cluster: cfg.Cluster, logged: map[string]int{}, began: time.Now()}
	r.oracle = blackbox.New(r.elapsed, bounds, checks...)
	r.processes = newProcesses(r.oracle)
	err := r.run(ctx)
	r.report.finish(r)
	return &r.report, err
}

func (r *runner) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, r.cluster.Close(context.WithoutCancel(ctx))) }()
	if err := r.cluster.Open(ctx, r.cfg.Size, nil); err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	ready, cancel := context.WithTimeout(ctx, servedBound)
	defer cancel()
	if err := r.cluster.AwaitReady(ready); err != nil {
		return fmt.Errorf("the new cluster is not ready: %w", err)
	}
	if err = r.watched(ctx); err == nil {
		err = r.stop(ctx)
	}
	return errors.Join(err, r.checkLogs(context.WithoutCancel(ctx)))
}

// watched plays the episodes while the processes and the metas are watched.
func (r *runner) watched(ctx context.Context) error {
	watching, end := context.WithCancel(ctx)
	defer end()
	all, watching := errgroup.WithContext(watching)
	all.Go(func() error {
		return every(watching, r.cluster.Capabilities().ProcessesEvery, func() { r.processes.look(watching, r.cluster) })
	})
	for name, address := range r.metas() {
		all.Go(func() error { return r.runTerms(watching, name, address) })
	}
	all.Go(func() error {
		defer end()
		return r.loaded(watching, r.episodes)
	})
	return all.Wait()
}

// episodes plays storms until Config.For has passed.
func (r *runner) episodes(ctx context.Context) error {
	first, number := r.elapsed(), 0
	for s := range scenario.Storms(r.cfg.Seed, r.size(), r.cluster.Capabilities(), r.cfg.Only) {
		if number > 0 && r.elapsed()-first >= r.cfg.For {
			return nil
		}
		number++
		e := EpisodeReport{Number: number, Name: s.Scenes[0].Title, AtMs: r.elapsed().Milliseconds()}
		r.oracle.Begin(number)
		r.say("episode %d: %s", number, e.Name)
		var err error
		if e.Steps, err = r.play(ctx, s); err != nil {
			return err
		}
		rested := r.rest(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.checkLogs(ctx); err != nil {
			return err
		}
		e.TookMs = r.elapsed().Milliseconds() - e.AtMs
		r.report.Episodes = append(r.report.Episodes, e)
		outcome := "healed and checked"
		if !rested {
			outcome = "NOT HEALED"
		}
		r.say("  %s, %.1f s after its first step; %d violations so far", outcome, float64(e.TookMs)/1000, r.oracle.Broken())
		if !rested {
			return errNotHealed
		}
	}
	return errors.New("the cluster can play no storm")
}

// stop stops the cluster and checks how its processes ended.
func (r *runner) stop(ctx context.Context) error {
	r.say("stopping the cluster")
	stopping, cancel := context.WithTimeout(ctx, downBound)
	defer cancel()
	err := r.cluster.Stop(stopping)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.oracle.Expect(checkExit, err == nil, "stop of the cluster: %v", err)
	all, err := r.cluster.Processes(ctx)
	for _, p := range all {
		r.oracle.Expect(checkExit, clean(p), "%s, stopped with the cluster: running %t, exit code %d %s", p.Name, p.Running, p.Code, p.Signal)
	}
	return err
}
