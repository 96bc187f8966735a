package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"conclave/internal/sleep"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
)

// Result is the outcome of one run.
type Result struct {
	Scenario Scenario
	Skipped  string        // why it was not played; "" if it was
	Failures []string      // expectations that were not met, and actions that failed
	FailedAt time.Duration // when the first of them did, since the scenario began
	Late     []string      // those of Failures that were not met within their time: too slow, not wrong
	History  *check.History
	Verdicts []check.Verdict
	Figures  []check.Figure
	Took     time.Duration // by the clock of the run
}

// Ok reports whether every expectation was met and no checker found a
// violation.
func (r *Result) Ok() bool {
	return len(r.Failures) == 0 && !slices.ContainsFunc(r.Verdicts, func(v check.Verdict) bool { return len(v.Violations) > 0 })
}

// Problems lists the expectations that were not met and the violations, one
// line each.
func (r *Result) Problems() []string {
	out := slices.Clone(r.Failures)
	for _, v := range r.Verdicts {
		for _, x := range v.Violations {
			out = append(out, fmt.Sprintf("%s (%s) at %s: %s", v.ID, v.Says, x.At.Round(time.Millisecond), x.What))
		}
	}
	return out
}

// Play plays a scenario on a cluster and checks its history. Time is that of
// package time, so it is virtual in a bubble. An error means that the scenario
// could not be played: the cluster did not start, or could not be observed; or
// that it could not be closed, and then the result is complete. The narrators
// are called while it is played.
func Play(ctx context.Context, s Scenario, d testbed.Cluster, narrators ...Narrator) (*Result, error) {
	s = s.withDefaults()
	return PlayInto(ctx, check.NewRecorder(s.Name, s.Cluster), s, d, narrators...)
}

// PlayInto is Play with the recorder of the history, in which there may be what was before,
// and which may get events from elsewhere than the cluster's gate.
func PlayInto(ctx context.Context, rec *check.Recorder, s Scenario, d testbed.Cluster, narrators ...Narrator) (*Result, error) {
	s = s.withDefaults()
	r := &Result{Scenario: s}
	p := &player{
		s: s, cluster: d, narrators: narrators, can: &testbed.Capabilities{}, rec: rec, active: map[string]testbed.Action{},
		targets: &targets{cluster: s.Cluster, clients: s.Load.Clients, dead: map[string]bool{}, back: map[string]bool{}, rand: rand.New(rand.NewPCG(s.Cluster.Seed, 0x57a6e))},
	}
	p.load = newTraffic(s.Load, d, rec, s.Cluster.Seed)
	p.targets.sessionsOf = p.load.sessionsOf
	began, gate := time.Now(), trace.NewGate(rec.Event)
	err := p.play(ctx, gate)
	r.Took = time.Since(began)
	hasEvents, terr := d.Events(rec.Late)
	if err == nil && terr != nil {
		err = fmt.Errorf("read the nodes' events: %w", terr)
	}
	r.History = rec.History(p.can.Events || hasEvents)
	if err == nil { // before the cluster is closed, which may fail
		r.Failures, r.FailedAt, r.Late = p.failures, p.failedAt, p.late
		r.Verdicts = check.Run(r.History)
		r.Figures = check.Figures(r.History, s.Figures)
	}
	for _, n := range s.Cluster.Nodes() {
		gate.Free(n) // of those that are still held
	}
	p.load.Wait() // no more clients arrive
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if cerr := d.Close(limit); err == nil && cerr != nil {
		err = fmt.Errorf("close the cluster: %w", cerr)
	}
	if errors.Is(err, testbed.ErrUnsupported) {
		r.Skipped = err.Error()
		return r, nil
	}
	return r, err
}

// closeTimeout bounds Cluster.Close, which may stop containers gracefully.
const closeTimeout = 3 * time.Minute

func (p *player) play(ctx context.Context, gate *trace.Gate) error {
	if err := p.cluster.Open(ctx, p.s.Cluster, gate); err != nil {
		return fmt.Errorf("open the cluster: %w", err)
	}
	p.can = p.cluster.Capabilities()
	switch {
	case p.s.Cluster.Budgets != (testbed.Budgets{}) && p.can.Usage == nil:
		return fmt.Errorf("%s: %w", errBudgets, testbed.ErrUnsupported)
	case p.can.Events:
	case p.s.Bubble:
		return fmt.Errorf("only in the bubble: %w", testbed.ErrUnsupported)
	case slices.Contains(p.s.Needs(), testbed.Hold), slices.Contains(p.s.Needs(), testbed.HoldOne):
		return fmt.Errorf("hold a node at a point: %w", testbed.ErrUnsupported)
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	defer p.load.EndBurst()
	if err := p.settle(ctx, work); err != nil {
		return err
	}
	p.noteUsage() // what the nodes had to do until now is no part of the scenario
	p.rec.Begin()
	p.start = time.Now()
	p.baseline, p.refused = p.cluster.Observe(ctx), p.rec.Refused()
	if err := p.playLines(ctx); err != nil {
		return err
	}
	if err := p.healAll(ctx); err != nil {
		return err
	}
	if err := p.progress(ctx); err != nil {
		return err
	}
	stop()
	p.load.Wait()
	if p.compared > 0 {
		p.reportCompared(nil)
	}
	return p.readAll(ctx)
}

// playLines plays the lines of the file, scene by scene.
func (p *player) playLines(ctx context.Context) error {
	for _, line := range p.s.of(0) {
		p.schedule(line, 0)
	}
	if len(p.s.Scenes) == 0 {
		return p.run(ctx, p.s.Until)
	}
	for i, scene := range p.s.Scenes {
		began := time.Since(p.start)
		if scene.Title != "" {
			for _, n := range p.narrators {
				n.Begins(scene)
			}
		}
		for _, line := range p.s.of(i + 1) {
			p.schedule(line, began)
		}
		if err := p.run(ctx, began+scene.Until); err != nil {
			return err
		}
		if rest := p.s.Scenes[i+1:]; len(rest) == 0 || rest[0].Title != "" {
			for _, n := range p.narrators {
				n.Ended(p.soFar)
			}
		}
	}
	return nil
}

// soFar returns what was recorded until now.
func (p *player) soFar() (*check.History, error) { return p.rec.SoFar(p.can.Events, p.cluster.Events) }

// settleTimeout bounds the time in which a cluster without faults must come to
// rest.
const settleTimeout = time.Minute

// settle waits until the cluster is at rest: it has a leader, its slots are
// spread evenly, and the clients see each other's registrations.
func (p *player) settle(ctx, work context.Context) error {
	wait := func(what string) error {
		o := &openExpectation{Expectation: Expectation{What: what, Within: settleTimeout}, began: time.Now()}
		o.due = o.began
		for {
			done, err := p.evaluate(o, p.cluster.Observe(ctx))
			if done {
				if err != nil {
					return fmt.Errorf("the cluster did not come to rest before the scenario began: %w", err)
				}
				return nil
			}
			if err := sleep.For(ctx, sampleOpen); err != nil {
				return err
			}
		}
	}
	for _, what := range []string{"leader", "even"} {
		if err := wait(what); err != nil {
			return err
		}
	}
	if err := p.load.Begin(work); err != nil {
		return err
	}
	// The first registrations count as live only after a moment.
	if err := sleep.For(ctx, 100*time.Millisecond); err != nil {
		return err
	}
	if err := wait("full"); err != nil {
		return err
	}
	if err := p.load.carry(ctx); err != nil {
		return fmt.Errorf("the cluster did not come to rest before the scenario began: %w", err)
	}
	return nil
}

// schedule adds a line of the file, with its repetitions, to the timeline; base
// is when its scene began.
func (p *player) schedule(s Line, base time.Duration) {
	for at := base + s.At; ; at += s.Every {
		if s.Expect != nil {
			p.at(at, func(context.Context) error {
				o := &openExpectation{Expectation: *s.Expect, line: s.Number, began: time.Now()}
				if o.due = o.began; p.acted.at == at && !p.acted.began.IsZero() {
					o.due = p.acted.began
				}
				p.open = append(p.open, o)
				return nil
			})
		} else {
			p.at(at, func(ctx context.Context) error {
				if p.acted.at != at || p.acted.began.IsZero() {
					p.acted = acted{at, time.Now()}
				}
				return p.perform(ctx, *s.Step)
			})
		}
		if s.Every == 0 || at+s.Every > base+s.To {
			return
		}
	}
}

// How often the cluster is observed: more often while an expectation is open.
const (
	sampleOpen = 10 * time.Millisecond
	sampleIdle = 100 * time.Millisecond
)

// run plays the scenario up to a moment, and then waits until every open
// expectation is decided.
func (p *player) run(ctx context.Context, until time.Duration) error {
	for {
		now := time.Since(p.start)
		for len(p.due) > 0 && p.due[0].at <= now && p.due[0].at <= until {
			do := p.due[0].do
			p.due = p.due[1:]
			if err := do(ctx); err != nil {
				return err
			}
			now = time.Since(p.start)
		}
		p.sample(ctx)
		if now >= until && len(p.open) == 0 {
			return nil
		}
		pause := sampleIdle
		if len(p.open) > 0 {
			pause = sampleOpen
		}
		for _, at := range []time.Duration{until, p.next()} {
			if wait := at - time.Since(p.start); wait > 0 {
				pause = min(pause, wait)
			}
		}
		if err := sleep.For(ctx, pause); err != nil {
			return err
		}
	}
}

func (p *player) next() time.Duration {
	if len(p.due) == 0 {
		return 0
	}
	return p.due[0].at
}

// sample observes the cluster and the clients once, records what has changed,
// and evaluates the open expectations.
func (p *player) sample(ctx context.Context) testbed.Snapshot {
	now := p.cluster.Observe(ctx)
	if p.can.Partial != nil && slices.ContainsFunc(p.open, func(o *openExpectation) bool { return o.What == "partial" }) {
		now.Partial = p.can.Partial(ctx)
	}
	s := p.targets.summarize(now)
	if !reflect.DeepEqual(s, p.last) {
		s.Up = slices.Clone(s.Up)
		p.last = s
		p.rec.Observe(s)
	}
	p.load.connections()
	p.compare(now.Table)
	p.noteUsage()
	p.noteRemoved(now)
	p.open = slices.DeleteFunc(p.open, func(o *openExpectation) bool {
		done, failure := p.evaluate(o, now)
		if failure != nil && !o.progress {
			p.fail("%w", failure)
			if o.For == 0 {
				p.late = append(p.late, failure.Error())
			}
		}
		if !done || !o.progress {
			return done
		}
		op := check.Op{Kind: check.OpProgress, Name: o.What}
		if failure != nil && o.What == check.Full {
			if op.Values = p.load.lacking(changing); len(op.Values) == 0 {
				failure = nil // never all at one look, but each of them a moment ago
			}
		}
		op.Err = failure
		p.rec.Op(op)
		if late := p.s.Cluster.Lease + 2*check.SessionGrace + check.GuardGrace; failure != nil && o.What == check.Full && o.Within < late {
			o.Within = late // by then the guard's time has ended
			return false
		}
		return true
	})
	return now
}

// fail notes an expectation that was not met, or an action that failed.
func (p *player) fail(format string, values ...any) {
	if len(p.failures) == 0 {
		p.failedAt = time.Since(p.start)
	}
	p.failures = append(p.failures, fmt.Errorf(format, values...).Error())
}

// progress expects, once all faults are healed, what a healthy cluster must
// reach: a leader within one lease; within ten seconds more, slots that are
// spread evenly and subscribers that see everything. After the loss of every
// copy and every session the push guard may hold lists back for one session
// grace (History.losses). The history records what is missing, and I10 checks
// it. Lists that are not full in time are checked again when the push guard can
// no longer hold any of them. A node that was the last to be healed may use an
// older table than the others for one lease (L15).
func (p *player) progress(ctx context.Context) error {
	lease := p.s.Cluster.Lease
	p.rec.Op(check.Op{Kind: check.OpHealed})
	now := time.Now()
	lists := lease + 10*time.Second
	lists = max(lists, p.rec.GuardEnds()-now.Sub(p.start))
	for _, e := range []Expectation{
		{What: "leader", Within: lease + lease/10}, {What: "even", Within: lease + 10*time.Second}, {What: check.Full, Within: lists},
	} {
		p.open = append(p.open, &openExpectation{Expectation: e, began: now, progress: true})
	}
	// What had ended before the healing is gone in the end; I6 checks it.
	ended, limit := p.load.ended(), check.DeadGone(p.s.Cluster)+check.ClientLease
	for p.load.shows(ended) && time.Since(now) < limit {
		if err := p.run(ctx, time.Since(p.start)+sampleIdle); err != nil {
			return err
		}
	}
	if err := p.run(ctx, time.Since(p.start)); err != nil {
		return err
	}
	sofar, err := p.soFar()
	if err != nil || !sofar.Behind() {
		return err
	}
	return p.run(ctx, now.Add(lease).Sub(p.start))
}

// readAll reads everything with a new client, while the cluster is at rest.
func (p *player) readAll(ctx context.Context) error {
	if p.s.Load.Clients == 0 {
		return nil
	}
	l := newTraffic(Load{Names: p.s.Load.Names, Group: p.s.Load.Group}, p.cluster, p.rec, 0)
	c, err := p.cluster.Client(check.Reader)
	if err != nil {
		return fmt.Errorf("start a reader: %w", err)
	}
	l.clients[check.Reader] = &worker{name: check.Reader, client: c}
	for n := range l.of.Names {
		if err := l.subscribe(l.clients[check.Reader], l.serviceName(n)); err != nil {
			return fmt.Errorf("start a reader: %w", err)
		}
	}
	l.live, l.names, l.ending = p.load.live, p.load.names, p.load.ending
	for began := time.Now(); time.Since(began) < 10*time.Second; {
		if full, _ := l.full(); full {
			break
		}
		if err := sleep.For(ctx, sampleOpen); err != nil {
			return err
		}
	}
	for n := range l.of.Names {
		name := l.serviceName(n)
		l.mu.Lock()
		seen, want := l.settled(l.last[[2]string{check.Reader, name}]), l.wanted(name)
		l.mu.Unlock()
		p.rec.Op(check.Op{Client: check.Reader, Kind: check.OpRead, Name: name, Values: seen})
		p.rec.Op(check.Op{Kind: check.OpWant, Name: name, Values: want})
	}
	return nil
}
