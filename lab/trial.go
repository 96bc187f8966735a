package lab

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"conclave/internal/sleep"
)

// Fault is a fault that is injected into a leader.
type Fault string

// The faults.
const (
	Kill      Fault = "kill"      // SIGKILL
	Term      Fault = "term"      // SIGTERM: it stops gracefully, as its rule does
	Pause     Fault = "pause"     // SIGSTOP, and SIGCONT once another leads
	Partition Fault = "partition" // nothing passes between it and its store, until another leads
)

// Faults returns all faults, in the order in which they are injected.
func Faults() []Fault { return []Fault{Kill, Term, Pause, Partition} }

// trial is one fault and its outcome.
type trial struct {
	fault      Fault
	followed   bool          // another candidate led within the limit
	leaderless time.Duration // from the fault until then
	costKnown  bool          // statements and turns are known
	statements uint64        // of the waiting candidates, from the fault until one led
	turns      uint64
	overlap    time.Duration
	endless    bool // the old leader still believed at the time-out that it leads: overlap is a lower bound
	stale      uint64
	landed     uint64 // guarded writes that took effect
	fenced     uint64 // of these, stale ones
	refused    uint64 // guarded writes that were refused
	writes     uint64
}

// runTrial injects a fault into the leader, waits for another leader, repairs
// the fault, and waits until one candidate leads alone again.
func (g *group) runTrial(ctx context.Context, fault Fault) (t trial, err error) {
	// 1. Calm: all take part, and one leads; it must still lead after the
	// queries, which take time.
	var (
		place     int
		before    written
		cost      Event
		costKnown bool
	)
	for calm := false; !calm; {
		if place, err = g.waitForLeader(ctx); err != nil {
			return t, err
		}
		if before, err = g.written(ctx); err != nil {
			return t, err
		}
		cost, costKnown = g.costWithout(ctx, place, queryWhileCalm)
		calm = slices.Equal(g.leadersAt(stamp(time.Now())), []int{place})
	}
	old := g.processes[place]

	// 2. The fault.
	t.fault = fault
	g.setCalm(false)
	at := stamp(time.Now())
	defer func() { g.faults = append(g.faults, Span{old.id, at, stamp(time.Now())}) }()
	repair := g.inject(ctx, fault, place, at)

	// 3. Another leader.
	var next Leadership
	err = g.waitFor(ctx, g.successorTimeout(), func() bool {
		leaderships, _ := g.history()
		next, t.followed = Successor(leaderships, old.id, at)
		return t.followed
	})
	if err != nil && !errors.Is(err, errTimeout) {
		repair()
		return t, err
	}
	if t.followed {
		t.leaderless = time.Duration(next.From - at)
		if after, ok := g.costWithout(ctx, place, queryDuringTakeover); ok && costKnown {
			t.costKnown, t.statements, t.turns = true, after.Statements-cost.Statements, after.Turns-cost.Turns
		}
		_ = sleep.For(ctx, g.times.Lease*3/10)
	}

	// 4. The fault is repaired, and the old leader should notice that it was
	// replaced.
	repair()
	err = g.waitFor(ctx, g.times.Lease+time.Second, func() bool { return len(g.leadersAt(stamp(time.Now()))) <= 1 })
	if err != nil && !errors.Is(err, errTimeout) {
		return t, err
	}
	t.endless = errors.Is(err, errTimeout)
	_ = sleep.For(ctx, g.times.Lease/10) // for the writes that have been sent
	end := stamp(time.Now())

	// 5. An old leader that did not notice, or that has ended, is replaced.
	if t.endless || old.hasEnded() {
		old.kill()
		g.markDead(old.id, stamp(time.Now()))
		if err := g.start(place); err != nil {
			return t, err
		}
	}
	if !t.followed && g.rule.reset != "" && len(g.leadersAt(stamp(time.Now()))) == 0 { // otherwise the old leader still leads
		if _, err := g.db.Exec(ctx, g.rule.reset, g.lab); err != nil {
			return t, err
		}
	}
	leaderships, stops := g.history()
	t.overlap = Overlap(leaderships, stops, at, end)
	after, err := g.written(ctx)
	if err != nil {
		return t, err
	}
	t.writes, t.stale = after.writes-before.writes, after.stale-before.stale
	t.landed, t.fenced, t.refused = after.fenced-before.fenced, after.fencedStale-before.fencedStale, after.refused-before.refused
	err = g.waitFor(ctx, g.leaderTimeout(), func() bool { return len(g.leadersAt(stamp(time.Now()))) == 1 })
	if errors.Is(err, errTimeout) {
		return t, g.noLeaderError()
	}
	g.setCalm(true)
	return t, err
}

// successorTimeout returns how long to wait for a successor. If a rule promises
// something, a missing successor breaks a promise: such a rule gets more time,
// because the machine may be busy.
func (g *group) successorTimeout() time.Duration {
	switch {
	case g.cfg.successorTimeout != 0:
		return g.cfg.successorTimeout
	case g.rule.Fences || g.rule.Exclusive:
		return g.leaderTimeout()
	}
	return 2*g.times.Lease + 3*time.Second
}

// setCalm sets whether a leadership that begins now has no fault as its reason.
func (g *group) setCalm(calm bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calm = calm
}

// inject injects a fault and returns a function that repairs it.
func (g *group) inject(ctx context.Context, fault Fault, place int, at int64) (repair func()) {
	p := g.processes[place]
	switch fault {
	case Kill:
		p.signal(syscall.SIGKILL)
		<-p.ended
		g.markDead(p.id, at)
		return func() {}
	case Term:
		p.signal(syscall.SIGTERM)
		return func() { // it has had time until another led; if it needs much more, it is stuck
			select {
			case <-p.ended:
			case <-ctx.Done():
				p.kill()
			case <-time.After(g.times.Lease + 2*time.Second):
				p.kill()
			}
			g.markDead(p.id, stamp(time.Now()))
		}
	case Pause:
		p.signal(syscall.SIGSTOP)
		return func() {
			g.mu.Lock()
			g.stops = append(g.stops, Span{p.id, at, stamp(time.Now())})
			g.mu.Unlock()
			p.signal(syscall.SIGCONT)
		}
	default:
		g.forEachPath(p.name, g.net.Cut)
		return func() { g.forEachPath(p.name, g.net.Mend) }
	}
}

// forEachPath calls do for both directions between a candidate and each store.
func (g *group) forEachPath(name string, do func(from, to string)) {
	for _, store := range g.stores {
		do(g.host(name), store)
		do(store, g.host(name))
	}
}
