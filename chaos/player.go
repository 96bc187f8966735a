package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"conclave"
	"conclave/internal/sleep"
	"conclave/internal/trace"
)

// Result is what came of one run.
type Result struct {
	Scenario Scenario
	Skipped  string   // why it was not played; "" when it was
	Failures []string // expectations that were not met
	History  *History
	Verdicts []Verdict
	Figures  []Figure
	Took     time.Duration // by the clock of the run
}

// Ok says that all was met and no judge found anything.
func (r *Result) Ok() bool {
	return len(r.Failures) == 0 && !slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return len(v.Violations) > 0 })
}

// Problems lists what was not met and what was found, one line each.
func (r *Result) Problems() []string {
	out := slices.Clone(r.Failures)
	for _, v := range r.Verdicts {
		for _, x := range v.Violations {
			out = append(out, fmt.Sprintf("%s (%s) at %s: %s", v.ID, v.Says, x.At.Round(time.Millisecond), x.What))
		}
	}
	return out
}

// Play tells the story on a driver, and judges it. Time is package time's, so
// that it is virtual in a bubble. An error means that the story could not be
// told: the cluster did not start, or the driver broke.
func Play(ctx context.Context, s Scenario, d Driver) (*Result, error) {
	s = s.withDefaults()
	r := &Result{Scenario: s}
	rec := NewRecorder(s.Name, s.Cluster)
	p := &player{
		s: s, driver: d, rec: rec, gate: trace.NewGate(rec.Claim), active: map[string]Act{}, seen: map[string]string{},
		cast: &cast{cluster: s.Cluster, clients: s.Load.Clients, dead: map[string]bool{}, back: map[string]bool{}, rand: rand.New(rand.NewPCG(s.Cluster.Seed, 0x57a6e))},
	}
	p.load = newLoad(s.Load, d, rec)
	began := time.Now()
	err := p.play(ctx)
	r.Took = time.Since(began)
	told, terr := d.Told(rec.Late)
	if err == nil && terr != nil {
		err = fmt.Errorf("read what the nodes claimed: %w", terr)
	}
	r.History = rec.History(d.Claims() || told)
	p.freeAll()
	p.load.working.Wait() // no client comes any more
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if cerr := d.Close(limit); err == nil && cerr != nil {
		err = fmt.Errorf("close the cluster: %w", cerr)
	}
	if errors.Is(err, ErrUnsupported) {
		r.Skipped = err.Error()
		return r, nil
	}
	if err != nil {
		return r, err
	}
	r.Failures = p.failures
	r.Verdicts = Judge(r.History)
	r.Figures = Figures(r.History, s.Figures)
	return r, nil
}

// player tells one story. One goroutine does everything but the clients' work.
type player struct {
	s      Scenario
	driver Driver
	rec    *Recorder
	gate   *trace.Gate
	load   *load
	cast   *cast

	start    time.Time
	due      []event
	seq      int
	open     []*open
	baseline Sight             // before the last act
	active   map[string]Act    // what ends each fault that lasts, by the fault
	seen     map[string]string // of connections
	last     Sighting
	refused  int                    // before the story
	evicted  map[int]conclave.Epoch // slots whose evicted leader was ahead, at the epoch of the next one
	compared int64                  // pairs of copies, since the last entry about them
	failures []string
}

// event is something due in the story.
type event struct {
	at  time.Duration
	seq int // in the order of the file
	do  func(ctx context.Context) error
}

func (p *player) play(ctx context.Context) error {
	if err := p.driver.Open(ctx, p.s.Cluster, p.gate); err != nil {
		return fmt.Errorf("open the cluster: %w", err)
	}
	switch {
	case p.driver.Claims():
	case p.s.Bubble:
		return fmt.Errorf("only in the bubble: %w", ErrUnsupported)
	case slices.Contains(p.s.Needs(), Hold), slices.Contains(p.s.Needs(), HoldOne):
		return fmt.Errorf("hold a node at a point: %w", ErrUnsupported)
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	if err := p.settle(ctx, work); err != nil {
		return err
	}
	p.rec.Begin()
	p.start = time.Now()
	p.baseline, p.refused = p.driver.Look(ctx), p.rec.Refused()
	for _, step := range p.s.Steps {
		p.schedule(step)
	}
	if err := p.run(ctx, p.s.Until); err != nil {
		return err
	}
	if err := p.healAll(ctx); err != nil {
		return err
	}
	if err := p.progress(ctx); err != nil {
		return err
	}
	stop()
	p.load.working.Wait()
	if p.compared > 0 {
		p.reportCompared(nil)
	}
	return p.readAll(ctx)
}

// settled is within what time a cluster without faults is ready to be broken.
const settled = time.Minute

// settle waits for a cluster at rest: a leader, slots that are served evenly,
// and clients that see each other.
func (p *player) settle(ctx, work context.Context) error {
	wait := func(what string) error {
		o := &open{Expectation: Expectation{What: what, Within: settled}, began: time.Now()}
		for {
			done, err := p.look(o, p.driver.Look(ctx))
			if done {
				if err != nil {
					return fmt.Errorf("the cluster does not come to rest before the story: %w", err)
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
	if err := p.load.begin(work, p.s.Cluster.Seed); err != nil {
		return err
	}
	// What is published first takes a moment to be counted as live.
	if err := sleep.For(ctx, 100*time.Millisecond); err != nil {
		return err
	}
	return wait("full")
}

// schedule puts a line of the file on the timeline.
func (p *player) schedule(s Step) {
	for at := s.At; ; at += s.Every {
		if s.Expect != nil {
			p.at(at, func(context.Context) error {
				p.open = append(p.open, &open{Expectation: *s.Expect, line: s.Line, began: time.Now()})
				return nil
			})
		} else {
			p.at(at, func(ctx context.Context) error { return p.deed(ctx, *s.Deed) })
		}
		if s.Every == 0 || at+s.Every > s.To {
			return
		}
	}
}

func (p *player) at(at time.Duration, do func(context.Context) error) {
	p.seq++
	p.due = append(p.due, event{at, p.seq, do})
	slices.SortFunc(p.due, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) })
}

// How often is looked: closely while something is expected.
const (
	sampleOpen = 10 * time.Millisecond
	sampleIdle = 100 * time.Millisecond
)

// run tells the story up to a moment; expectations that are open then go on to
// their own ends.
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

// sample looks once: at the cluster, at the clients, at what is expected.
func (p *player) sample(ctx context.Context) Sight {
	now := p.driver.Look(ctx)
	if c, can := p.driver.(PartialCounter); can && slices.ContainsFunc(p.open, func(o *open) bool { return o.What == "partial" }) {
		now.Partial = c.Partial(ctx)
	}
	s := sighting(now, p.cast)
	up := s.Up
	if changed := !slices.Equal(s.Up, p.last.Up); changed || !same(s, p.last) {
		p.last = s
		p.last.Up = slices.Clone(up)
		p.rec.Sight(p.last)
	}
	p.load.connections(p.seen)
	p.compare(now.Table)
	p.open = slices.DeleteFunc(p.open, func(o *open) bool {
		done, failure := p.look(o, now)
		if failure != nil && !o.progress {
			p.failures = append(p.failures, failure.Error())
		}
		if !done || !o.progress {
			return done
		}
		op := Op{Kind: OpProgress, Name: o.What, Err: failure}
		if failure != nil && o.What == full {
			op.Values = p.load.missing()
		}
		p.rec.Op(op)
		if late := p.s.Cluster.Lease + 2*sessionGrace + guardGrace; failure != nil && o.What == full && o.Within < late {
			o.Within = late // the guard's time has ended
			return false
		}
		return true
	})
	return now
}

func same(a, b Sighting) bool {
	return a.Leader == b.Leader && a.Term == b.Term && a.Leads == b.Leads && a.Epoch == b.Epoch && a.Stable == b.Stable &&
		a.Even == b.Even && a.Frozen == b.Frozen && a.Unled == b.Unled
}

// progress demands, once all is healed, what a healthy cluster must come to: a
// leader within one lease; and within ten seconds more, slots that are even and
// subscribers that see everything. After a loss of every copy and every session
// the push guard may hold lists back for one session grace (History.losses). What
// is missing is in the history; I10 judges it. Lists that are not full in time are
// looked at again when the push guard can hold none of them any longer.
func (p *player) progress(ctx context.Context) error {
	lease := p.s.Cluster.Lease
	p.rec.Op(Op{Kind: OpHealed})
	now := time.Now()
	lists := lease + 10*time.Second
	for _, s := range p.rec.losses() {
		lists = max(lists, s.to-now.Sub(p.start)+guardGrace)
	}
	for _, e := range []Expectation{
		{What: "leader", Within: lease + lease/10}, {What: "even", Within: lease + 10*time.Second}, {What: full, Within: lists},
	} {
		p.open = append(p.open, &open{Expectation: e, began: now, progress: true})
	}
	return p.run(ctx, time.Since(p.start))
}

// reader is the client that reads at the end.
const reader = "reader"

// readAll asks for everything with a client that has seen nothing, at rest.
func (p *player) readAll(ctx context.Context) error {
	if p.s.Load.Clients == 0 {
		return nil
	}
	l := newLoad(Load{Names: p.s.Load.Names}, p.driver, p.rec)
	c, err := p.driver.Client(reader)
	if err != nil {
		return fmt.Errorf("start a reader: %w", err)
	}
	l.clients[reader] = &worker{name: reader, client: c}
	for n := range l.of.Names {
		if err := l.subscribe(l.clients[reader], serviceName(n)); err != nil {
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
		name := serviceName(n)
		l.mu.Lock()
		seen := l.settled(l.last[[2]string{reader, name}])
		l.mu.Unlock()
		p.rec.Op(Op{Client: reader, Kind: OpRead, Name: name, Values: seen})
		p.rec.Op(Op{Kind: OpWant, Name: name, Values: p.load.wants(name)})
	}
	return nil
}

// freeAll lets everybody go who is still held.
func (p *player) freeAll() {
	for _, n := range p.cast.nodes() {
		p.gate.Free(n)
	}
}
