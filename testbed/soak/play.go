package soak

import (
	"context"
	"errors"
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
	testbed.RealCluster
	*Runner
	ctx   context.Context
	began time.Time
	steps []StepReport
	calm  bool // no fault but kills of nodes until now
}

// play plays a storm, which ends with the healing of all its faults, and returns
// what was done.
func (r *Runner) play(ctx context.Context, s scenario.Scenario) ([]StepReport, error) {
	p := &storm{RealCluster: r.cluster, Runner: r, ctx: ctx, calm: true}
	result, err := scenario.Play(ctx, s, p, p)
	if err != nil {
		return p.steps, err
	}
	if result.Skipped != "" {
		return p.steps, errors.New(result.Skipped)
	}
	for _, failure := range result.Failures {
		r.say("  %s", failure)
	}
	return p.steps, nil
}

// Open, Close and Events do nothing: the runner opens and closes the cluster.
func (p *storm) Open(context.Context, testbed.Size, *trace.Gate) error { return nil }

// Close is a method of Cluster.
func (p *storm) Close(context.Context) error { return nil }

// Events is a method of Cluster.
func (p *storm) Events(func(time.Time, trace.Claim)) (had bool, err error) { return false, nil }

// Begins, Did and Decided are methods of Narrator; Do has seen every action.
func (p *storm) Begins(scenario.Scene) { p.began = time.Now() }

// Did is a method of Narrator.
func (p *storm) Did(testbed.Action, error) {}

// Decided is a method of Narrator.
func (p *storm) Decided(scenario.Expectation, testbed.Snapshot, time.Duration, error) {}

// Do carries out an action and records it.
func (p *storm) Do(ctx context.Context, a testbed.Action) error {
	p.before(a)
	err := p.RealCluster.Do(ctx, a)
	p.after(a, err)
	outcome := "done"
	if err != nil {
		outcome = "failed: "
		if a.Verb.IsCommand() {
			outcome = "refused: "
		}
		outcome += strings.Join(strings.Fields(err.Error()), " ")
	}
	step := StepReport{AtMs: time.Since(p.began).Milliseconds(), Step: a.String(), Outcome: outcome}
	if n := len(p.steps); n == 0 || p.steps[n-1].Step != step.Step || p.steps[n-1].Outcome != outcome { // the healing repeats commands
		p.steps = append(p.steps, step)
		p.say("  +%4.1f s  %s: %s", float64(step.AtMs)/1000, step.Step, outcome)
	}
	return err
}

// before notes what the processes' states are to become.
func (p *storm) before(a testbed.Action) {
	s := p.states
	if since, clean := s.cleanStop(a.Node); clean && a.Verb == testbed.Kill { // the player does so before it starts a node
		p.oracle.Expect(checkExit, time.Since(since) < endBound, "%s was stopped without other faults and has not ended within %s", a.Node, endBound)
	}
	if !a.Verb.IsCommand() && !a.EndsFault() {
		p.calm = p.calm && a.Verb == testbed.Kill && a.Node != testbed.Database
		s.unclean()
	}
	switch was := s.get(a.Node); a.Verb {
	case testbed.Kill:
		s.set(a.Node, down)
	case testbed.Stop:
		if was != down {
			s.set(a.Node, stopping)
		}
	case testbed.Pause:
		if was == up {
			s.set(a.Node, paused)
		}
	case testbed.Resume:
		if was == paused {
			s.set(a.Node, up)
		}
	case testbed.Start:
		if s.lost() { // up to now
			p.oracle.Lost()
		}
	}
}

// after notes what an action has changed.
func (p *storm) after(a testbed.Action, err error) {
	switch {
	case a.Verb == testbed.Kill && p.states.lost():
		p.oracle.Lost()
	case a.Verb == testbed.Start && err == nil && p.states.get(a.Node) == down:
		p.states.set(a.Node, up)
	}
}

// Ended checks, before the storm's faults are healed, that the cluster serves after
// the commands that it has accepted, if nothing but nodes is lost and each role has
// one that runs.
func (p *storm) Ended(func() (*check.History, error)) {
	var accepted []string
	for _, s := range p.steps {
		verb, _, _ := strings.Cut(s.Step, " ")
		if s.Outcome == "done" && testbed.Verb(verb).IsCommand() {
			accepted = append(accepted, s.Step)
		}
	}
	if len(accepted) == 0 || !p.calm || !p.states.eachRoleRuns() {
		return
	}
	limited, cancel := context.WithTimeout(p.ctx, serveBound)
	defer cancel()
	where, err := p.load.probe(limited)
	if p.ctx.Err() != nil {
		return
	}
	commands := strings.Join(slices.Compact(accepted), ", ")
	p.oracle.Expect(checkServes, err == nil, "after [%s], all accepted, the cluster does not serve within %s: %s: %v", commands, serveBound, where, err)
	if led := p.led(p.ctx); p.ctx.Err() == nil {
		p.oracle.Expect(checkServes, led, "after [%s], all accepted, there is no leader within %s", commands, leaderBound)
	}
}
