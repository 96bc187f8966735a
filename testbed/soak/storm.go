package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/internal/sleep"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/scenario"
)

// storm is a lossless storm that is played on the cluster of a run. It is the
// player's cluster, which stays open when the storm has ended, and its narrator.
type storm struct {
	*scenario.Timeline
	run     *runner
	ctx     context.Context
	lines   []scenario.Line
	leaving sync.WaitGroup // of Begins
	number  int            // of actions
}

// play plays a storm, which ends with the healing of all its faults, and returns what
// was done.
func (r *runner) play(ctx context.Context, s scenario.Scenario) (steps []string, err error) {
	ctx, end := context.WithCancel(ctx)
	s = r.aimed(ctx, s)
	p := &storm{Timeline: scenario.NewTimeline(r.cluster, r), run: r, ctx: ctx, lines: s.Lines}
	defer p.leaving.Wait()
	defer end()
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
		switch {
		case !f.EndsFault():
		case f.Err == nil:
			delete(lasting, f.Key())
		default:
			lasting[f.Key()] = f.Err
		}
	}
	r.oracle.Expect(checkHeals, len(lasting) == 0 && len(result.Failures) == 0, "not ended: %v; failed: %q", lasting, result.Failures)
	return steps, nil
}

// aimed returns the storm with the meta that leads now, or any other if none is known,
// in place of the selector leader: the player would wait for a leader, and would not do
// meanwhile what is due.
func (r *runner) aimed(ctx context.Context, s scenario.Scenario) scenario.Scenario {
	leader := testbed.Selector(cmp.Or(r.cluster.Observe(ctx).Leader, s.Cluster.NodesOf("meta")[0]))
	s.Lines = slices.Clone(s.Lines)
	for i := range s.Lines {
		step := *s.Lines[i].Step
		for _, who := range []*testbed.Selector{&step.Who, &step.Whom} {
			if *who == "leader" {
				*who = leader
			}
		}
		s.Lines[i].Step = &step
	}
	return s
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

func (p *storm) Close(context.Context) error { return nil }

func (p *storm) Events(func(time.Time, trace.Claim)) (had bool, err error) { return false, nil }

func (p *storm) Begins(scenario.Scene) {
	for _, at := range departures(p.lines) {
		p.leaving.Go(func() {
			if sleep.For(p.ctx, at) == nil {
				p.run.clients.Leave()
			}
		})
	}
}

// departures returns when the guests leave: just before a data node hands its slots
// over, while it does so, and just before they come back.
func departures(lines []scenario.Line) (out []time.Duration) {
	const before, within = 700 * time.Millisecond, 100 * time.Millisecond
	for _, l := range lines {
		if v := l.Step.Verb; (v == testbed.Forbid || v == testbed.Stop) && strings.HasPrefix(string(l.Step.Who), "data-") {
			out = append(out, l.At-before, l.At+within, l.At+l.Step.For-before)
		}
	}
	return out
}

// Do carries out an action.
func (p *storm) Do(ctx context.Context, a testbed.Action) error {
	ctx, cancel := context.WithTimeout(ctx, stepBound)
	defer cancel()
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
