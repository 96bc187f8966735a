package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/console"
	"conclave/testbed/scenario"
	"conclave/wire"
)

// capabilities returns what is possible in a scenario here: the cluster has its
// size.
func (s *Source) capabilities() *testbed.Capabilities {
	s.record.mu.Lock()
	have := s.record.size
	s.record.mu.Unlock()
	can := *s.can
	can.Events = s.record.aside != nil
	can.Size = func(c testbed.Size) testbed.Size {
		c.Metas, c.Sessions, c.Datas, c.Slots = have.Metas, have.Sessions, have.Datas, have.Slots
		c.Replicas, c.Takeover, c.Lease = have.Replicas, have.Takeover, have.Lease
		return c
	}
	return &can
}

// scenarios returns the names of those of the library that can be played here.
func (s *Source) scenarios() []string {
	if s.cfg.Cluster == nil {
		return nil
	}
	s.listing.Do(func() {
		for _, name := range scenario.Names() {
			if of, err := scenario.Builtin(name); err == nil && len(of.Refusals(s.capabilities())) == 0 {
				s.playable = append(s.playable, of.Name)
			}
		}
	})
	return s.playable
}

// scenario returns the one that a request names.
func (s *Source) scenario(r console.Request) (of scenario.Scenario, err error) {
	can := s.capabilities()
	if r.Do == "storm" {
		seed, err := strconv.ParseUint(r.Value, 10, 64)
		if err != nil {
			return of, fmt.Errorf("seed %q: want a number", r.Value)
		}
		of = scenario.Storm(seed, can)
		of.Cluster.Seed = seed
	} else if of, err = scenario.Builtin(r.Value); err != nil {
		return of, err
	}
	of.Cluster = can.Size(of.Cluster)
	if why := of.Refusals(can); len(why) > 0 {
		return of, fmt.Errorf("%s cannot be played here: it needs %s", of.Name, strings.Join(why, ", "))
	}
	return of, nil
}

// beginPlay begins a scenario. There is one at a time.
func (s *Source) beginPlay(r console.Request) error {
	of, err := s.scenario(r)
	switch {
	case err != nil:
		return err
	case s.record.current() == nil:
		return errors.New("the console has not begun")
	case of.Cluster.Slots == 0: // no datum would be found in its slot
		return errors.New("the cluster has no slot table yet")
	}
	s.mu.Lock()
	if s.stop != nil {
		s.mu.Unlock()
		return errors.New("a scenario is being played")
	}
	if s.work == nil || s.ended {
		s.mu.Unlock()
		return errors.New("the console is not running")
	}
	ctx, stop := context.WithCancel(s.work)
	s.stop = stop
	s.played++
	number := s.played
	s.mu.Unlock()
	p := &playing{of: s, began: time.Now()}
	p.show(func(shown *console.Play) {
		*shown = console.Play{Name: of.Name, About: scenario.FirstSentence(of.About), Began: p.began.UnixMilli(), Lasts: of.Until.Milliseconds(), State: "starting", Steps: planned(of)}
	})
	ended := func() {
		stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stop = nil
	}
	err = s.spawn(func(context.Context) {
		defer ended()
		p.play(ctx, of, number)
	})
	if err != nil {
		ended()
	}
	return err
}

// planned returns the lines of a scenario as steps.
func planned(of scenario.Scenario) (out []console.Step) {
	base := make([]time.Duration, len(of.Scenes)+1)
	for i, scene := range of.Scenes {
		if i+2 < len(base) {
			base[i+2] = base[i+1] + scene.Until
		}
	}
	for _, l := range of.Lines {
		text := ""
		if l.Step != nil {
			text = l.Step.String()
		} else {
			text = l.Expect.String()
		}
		for at := l.At; ; at += l.Every {
			out = append(out, console.Step{AtMs: (base[l.Scene] + at).Milliseconds(), What: text})
			if l.Every == 0 || at+l.Every > l.To {
				break
			}
		}
	}
	slices.SortStableFunc(out, func(a, b console.Step) int { return int(a.AtMs - b.AtMs) })
	return out
}

func (s *Source) stopPlay() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop == nil {
		return errors.New("no scenario is being played")
	}
	s.stop()
	return nil
}

// playing is a scenario that is played; it is its narrator.
type playing struct {
	of    *Source
	began time.Time
	shown console.Play // guarded by of.mu, like began
}

// show changes what is shown of the scenario.
func (p *playing) show(change func(*console.Play)) {
	p.of.mu.Lock()
	change(&p.shown)
	shown := p.shown
	shown.Steps, shown.Result = slices.Clone(shown.Steps), slices.Clone(shown.Result)
	p.of.play = &shown
	p.of.mu.Unlock()
	p.of.again.Set()
}

// group is what the names of the clients of a scenario, and of their dataIDs, begin with.
func (s *Source) group(number int) string { return fmt.Sprintf("client-%s-s%d.", s.boot, number) }

func (p *playing) play(ctx context.Context, of scenario.Scenario, number int) {
	of.Load.Group = p.of.group(number)
	group := newScoped(p.of.cfg.Cluster, of.Load.Group, p.of.capabilities())
	group.until = ctx
	group.do = func(ctx context.Context, a testbed.Action) error { // which the player records in its own history
		return p.of.do(ctx, a, []*check.Recorder{p.of.record.current()})
	}
	result, err := scenario.PlayInto(ctx, p.of.record.join(of), of, group, p)
	p.of.record.left()
	if ctx.Err() != nil || err != nil { // the player heals what it has done, unless it was ended
		p.of.healStopped()
	}
	p.show(func(shown *console.Play) {
		shown.State = "failed"
		switch {
		case ctx.Err() != nil:
			shown.State = "stopped"
		case err != nil:
			shown.Result = []string{err.Error()}
		case result.Skipped != "":
			shown.Result = []string{result.Skipped}
		case result.Ok():
			shown.State = "passed"
			for _, f := range result.Figures {
				shown.Result = append(shown.Result, f.String())
			}
		default:
			shown.Result = result.Problems()
			if len(result.Failures) > 0 {
				p.of.failed = failure{result.History.Began.Add(result.FailedAt), of.Name, result.Failures[0]} // show holds of.mu
			}
		}
		if group.unheard > 0 {
			shown.Result = append(shown.Result, fmt.Sprintf("not judged: whether %d clients have left in order; their good-byes had no answer, and they count as killed", group.unheard))
		}
	})
}

// Begins does nothing: the steps show the scenes.
func (p *playing) Begins(scenario.Scene) {}

// Ended does nothing.
func (p *playing) Ended(func() (*check.History, error)) {}

// Did shows an action.
func (p *playing) Did(a testbed.Action, err error) {
	what := a.String()
	if a.Verb.IsCommand() && wire.CodeOf(err) != "" { // a scenario may go on all the same
		what, err = fmt.Sprintf("%s: refused (%v)", what, err), nil
	}
	p.show(func(shown *console.Play) { p.step(shown, what, err) })
}

// Decided shows an expectation that was decided.
func (p *playing) Decided(e scenario.Expectation, _ testbed.Snapshot, took time.Duration, failure error) {
	p.show(func(shown *console.Play) {
		switch {
		case shown.State != "starting":
			p.step(shown, fmt.Sprintf("%s (after %s)", e, took.Round(time.Millisecond)), failure)
		case e.What == check.Full && failure == nil: // the cluster is at rest: times count from now
			p.began = time.Now()
			shown.State, shown.Began = "playing", p.began.UnixMilli()
		}
	})
}

func (p *playing) step(shown *console.Play, what string, err error) {
	step := console.Step{AtMs: time.Since(p.began).Milliseconds(), What: what, Done: true}
	if err != nil {
		step.Err = err.Error()
	}
	shown.Steps = append(shown.Steps, step)
}
