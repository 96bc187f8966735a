package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/scenario"
)

// storm is a lossless storm that is played on the cluster of a run. It is the
// player's cluster, which stays open when the storm has ended, and its narrator.
type storm struct {
	*scenario.Timeline
	run    *runner
	ctx    context.Context
	number int // of actions
}

// play plays a storm, which ends with the healing of all its faults, and returns what
// was done.
func (r *runner) play(ctx context.Context, s scenario.Scenario) (steps []string, err error) {
	p := &storm{Timeline: scenario.NewTimeline(r.cluster, r), run: r, ctx: ctx}
	result, err := scenario.Play(ctx, s, p, p)
	if err == nil && result.Skipped != "" {
		err = errors.New(result.Skipped)
	}
	if err != nil {
		return nil, err
	}
	lasting := map[string]error{} // by fault: why it has not ended
	for _, e := range result.History.Entries {
		f := e.Fault
		if f == nil {
			continue
		}
		steps = append(steps, fmt.Sprintf("%5.1f s  %s: %s", e.At.Seconds(), f, outcome(f)))
		if f.EndsFault() {
			if lasting[f.Key()] = f.Err; f.Err == nil {
				delete(lasting, f.Key())
			}
		}
	}
	r.oracle.Expect(checkHeals, len(lasting) == 0, "not ended: %v", lasting)
	return steps, nil
}

func outcome(f *check.Fault) string {
	switch {
	case f.Err == nil:
		return "done"
	case f.Verb.IsCommand():
		return fmt.Sprintf("refused: %v", f.Err)
	}
	return fmt.Sprintf("failed: %v", f.Err)
}

// Open, Close and Events do nothing: the runner opens and closes the cluster.
func (p *storm) Open(context.Context, testbed.Size, *trace.Gate) error { return nil }

// Close implements testbed.Cluster.
func (p *storm) Close(context.Context) error { return nil }

// Events implements testbed.Cluster.
func (p *storm) Events(func(time.Time, trace.Claim)) (had bool, err error) { return false, nil }

// Do carries out an action.
func (p *storm) Do(ctx context.Context, a testbed.Action) error {
	p.number++
	p.run.processes.before(a, p.number == 1)
	err := p.Timeline.Do(ctx, a)
	p.run.processes.after(a, err)
	return err
}

// Ended implements scenario.Narrator. Before the faults are healed, it checks that the
// cluster serves after the commands that it has accepted, if nothing but nodes was
// killed, of which every storm leaves one of each role.
func (p *storm) Ended(soFar func() (*check.History, error)) {
	h, _ := soFar() // Events does not fail
	accepted := map[string]bool{}
	for _, e := range h.Entries {
		switch f := e.Fault; {
		case f == nil, f.EndsFault() && !f.Verb.IsCommand():
		case f.Verb.IsCommand() && f.Err == nil:
			accepted[f.String()] = true
		case !f.Verb.IsCommand() && (f.Verb != testbed.Kill || f.Node == testbed.Database):
			return
		}
	}
	if len(accepted) == 0 {
		return
	}
	after := "after [" + strings.Join(slices.Sorted(maps.Keys(accepted)), ", ") + "], all accepted"
	if p.run.expect(p.ctx, checkServes, serveBound, after, p.run.idle()) {
		p.run.expect(p.ctx, checkServes, leaderBound, after, p.run.leaderMissing)
	}
}
