package lab

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"conclave/internal/sleep"
)

// Fault is what happens to a leader.
type Fault string

// The faults.
const (
	Kill      Fault = "kill"      // SIGKILL
	Term      Fault = "term"      // SIGTERM: it leaves as its rule has it
	Pause     Fault = "pause"     // SIGSTOP, and SIGCONT once another leads
	Partition Fault = "partition" // nothing passes between it and its store, until another leads
)

// Faults are all of them, in the order in which they are played.
func Faults() []Fault { return []Fault{Kill, Term, Pause, Partition} }

// trial is one fault, and what came of it.
type trial struct {
	fault      Fault
	followed   bool          // somebody else led before the limit
	leaderless time.Duration // from the fault until then
	costs      bool          // what follows is known
	statements uint64        // of those who waited, from the fault until somebody led
	turns      uint64
	overlap    time.Duration
	endless    bool // the old leader still believed when we had waited long enough: the overlap is at least that
	stale      uint64
	landed     uint64 // of the guarded writes
	fenced     uint64 // of these stale
	refused    uint64 // by the guard
	unheard    int    // candidates that did not say what they have counted
	writes     uint64
}

// play breaks the leader, waits for another, mends what was broken, and waits until one
// leads alone again.
func (g *group) play(ctx context.Context, fault Fault) (t trial, err error) {
	// 1. Calm: one leads, all take part; still, when everything has been asked.
	var (
		place  int
		before written
		counts map[string]Event
		spent  Event
		known  bool
	)
	for asked := false; !asked; {
		if place, err = g.steady(ctx); err != nil {
			return t, err
		}
		if before, err = g.written(ctx); err != nil {
			return t, err
		}
		counts = g.tallies(ctx)
		spent, known = g.spent(ctx, place, patient)
		asked = slices.Equal(g.believers(stamp(time.Now())), []int{place})
	}
	old := g.kids[place]

	// 2. The fault.
	t.fault = fault
	g.calmly(false)
	at := stamp(time.Now())
	mend := g.strike(ctx, fault, place, at)

	// 3. Another one.
	var next Belief
	err = g.await(ctx, g.follow(), func() bool {
		beliefs, _ := g.history()
		next, t.followed = Successor(beliefs, old.who, at)
		return t.followed
	})
	if err != nil && !errors.Is(err, errLate) {
		mend()
		return t, err
	}
	if t.followed {
		t.leaderless = time.Duration(next.From - at)
		if after, ok := g.spent(ctx, place, hasty); ok && known {
			t.costs, t.statements, t.turns = true, after.Statements-spent.Statements, after.Turns-spent.Turns
		}
		_ = sleep.For(ctx, g.times.Lease*3/10)
	}

	// 4. Mended: the old leader finds out, or does not.
	mend()
	err = g.await(ctx, g.times.Lease+time.Second, func() bool { return len(g.believers(stamp(time.Now()))) <= 1 })
	if err != nil && !errors.Is(err, errLate) {
		return t, err
	}
	t.endless = errors.Is(err, errLate)
	_ = sleep.For(ctx, g.times.Lease/10) // what is on its way arrives
	sum, unheard := g.counted(ctx, counts)
	t.refused, t.landed, t.fenced, t.unheard = sum.Refused, sum.Landed, sum.Stale, unheard
	end := stamp(time.Now())

	// 5. Who does not come round by itself, or is gone, begins anew.
	if t.endless || old.ended() {
		old.end()
		g.gone(old.who, stamp(time.Now()))
		if err := g.start(place); err != nil {
			return t, err
		}
	}
	if !t.followed && g.rule.reset != "" && len(g.believers(stamp(time.Now()))) == 0 { // else the old leader has it still
		if _, err := g.db.Exec(ctx, g.rule.reset, g.lab); err != nil {
			return t, err
		}
	}
	beliefs, stops := g.history()
	t.overlap = Overlap(beliefs, stops, at, end)
	after, err := g.written(ctx)
	if err != nil {
		return t, err
	}
	t.writes, t.stale = after.writes-before.writes, after.stale-before.stale
	t.landed += after.fenced - before.fenced
	t.fenced += after.fencedStale - before.fencedStale
	err = g.await(ctx, g.patience(), func() bool { return len(g.believers(stamp(time.Now()))) == 1 })
	if errors.Is(err, errLate) {
		return t, g.unsteady()
	}
	g.calmly(true)
	return t, err
}

// follow is how long a successor is waited for. Of a rule that promises something it is
// a broken promise if none comes, so that a busy machine is given time.
func (g *group) follow() time.Duration {
	switch {
	case g.cfg.follow != 0:
		return g.cfg.follow
	case g.rule.Fences || g.rule.Exclusive:
		return g.patience()
	}
	return 2*g.times.Lease + 3*time.Second
}

// calmly says whether whoever begins to lead now does so without a reason.
func (g *group) calmly(calm bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calm = calm
}

// strike does the fault and returns what mends it.
func (g *group) strike(ctx context.Context, fault Fault, place int, at int64) (mend func()) {
	k := g.kids[place]
	switch fault {
	case Kill:
		k.signal(syscall.SIGKILL)
		<-k.over
		g.gone(k.who, at)
		return func() {}
	case Term:
		k.signal(syscall.SIGTERM)
		return func() { // it has had until another led; else it is stuck
			select {
			case <-k.over:
			case <-ctx.Done():
				k.end()
			case <-time.After(g.times.Lease + 2*time.Second):
				k.end()
			}
			g.gone(k.who, stamp(time.Now()))
		}
	case Pause:
		k.signal(syscall.SIGSTOP)
		return func() {
			g.mu.Lock()
			g.stops = append(g.stops, Span{k.who, at, stamp(time.Now())})
			g.mu.Unlock()
			k.signal(syscall.SIGCONT)
		}
	default:
		g.cut(k.name, g.net.Cut)
		return func() { g.cut(k.name, g.net.Mend) }
	}
}

// cut does something to both ways between a candidate and its stores.
func (g *group) cut(name string, do func(from, to string)) {
	for _, store := range []string{hostSQL, hostTree} {
		do(g.host(name), store)
		do(store, g.host(name))
	}
}
