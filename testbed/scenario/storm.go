package scenario

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
)

// stormLasts is how long the faults of a general storm last. No invariant may
// be violated in that time. Then all faults are healed, and progress is
// expected.
const stormLasts = time.Minute

// Storm makes a scenario from a seed: faults at random moments, of all kinds
// that the cluster can do; nil is the simulator. On another kind of cluster the
// same seed gives another storm, as far as a fault that is not possible there
// is drawn again. Faults that last end by themselves.
//
// The seed first draws a theme (themes.go): single faults, of which at most one
// at a time affects a session; single faults without that limit and episodes
// among them; or episodes of one kind. Every eighth storm of the simulator has
// finite machines and load as well. Faults overlap, and any number of nodes
// may be in trouble at the same time.
func Storm(seed uint64, on *testbed.Capabilities) Scenario {
	r := rand.New(rand.NewPCG(seed, 0x570a))
	s := Scenario{
		Name:    fmt.Sprintf("storm-%d", seed),
		About:   fmt.Sprintf("Storm of seed %d.", seed),
		Cluster: testbed.Size{Metas: 3, Sessions: 2, Datas: 3, Slots: 8, Replicas: 2, Seed: seed},
		Load: Load{
			Clients: 4, Names: 6, Every: 400 * time.Millisecond, Replace: 5 * time.Second,
			Guests: 3 * time.Second, Readers: 4 * time.Second,
		},
		Until:   stormLasts,
		Figures: []string{"leaderless", "refused", "unserved", "push", "held", "healed"},
	}
	if r.IntN(3) == 0 {
		s.Cluster.Takeover = "lease"
	}
	if r.IntN(4) == 0 {
		s.Cluster.Sessions = 3
	}
	s.Cluster = on.Fit(s.Cluster)
	b := stormBuilder{Rand: r, s: &s, on: on}
	t := themes[r.IntN(len(themes))]
	s.About = fmt.Sprintf("Storm of seed %d: %s.", seed, t.about)
	t.build(&b)
	// The seeds that docs and mutations name have no refusal with this stream.
	b.Rand = rand.New(rand.NewPCG(seed, 0x102cb))
	if b.IntN(4) == 0 {
		for range 1 + b.IntN(3) {
			b.refusal()
		}
	}
	b.Rand = rand.New(rand.NewPCG(seed, 0x570b))
	if b.IntN(8) == 0 && !b.limited {
		misconfigured[b.IntN(len(misconfigured))](&b)
	}
	b.Rand = rand.New(rand.NewPCG(seed, 0x570c))
	if b.IntN(8) == 0 && !b.limited {
		b.oneSessionLeft()
	}
	b.Rand = rand.New(rand.NewPCG(seed, cutOffStream))
	if b.IntN(6) == 0 && !b.limited {
		b.cutOff()
	}
	b.Rand = rand.New(rand.NewPCG(seed, deathStream))
	if b.IntN(6) == 0 {
		b.clientDies()
	}
	// Nor have they load with this one.
	b.Rand = rand.New(rand.NewPCG(seed, 0x5716))
	if b.IntN(8) == 0 && on.HasBudgets() {
		b.load()
	}
	// Nor have they updates or blips with these.
	b.Rand = rand.New(rand.NewPCG(seed, 0x5eab))
	if b.IntN(6) == 0 && on.Lingers() {
		s.Load.Rolling = b.between(2*time.Second, 6*time.Second)
	}
	b.Rand = rand.New(rand.NewPCG(seed, 0x5ece))
	if b.IntN(6) == 0 && !b.limited && s.Cluster.Budgets == (testbed.Budgets{}) {
		b.blip()
	}
	// Half the clients of two thirds of the storms are a third of all.
	b.Rand = rand.New(rand.NewPCG(seed, httpStream))
	if b.IntN(3) > 0 && on.SpeaksHTTP() && s.Cluster.Budgets == (testbed.Budgets{}) { // a request is several messages
		s.Load.HTTP = 2
	}
	// With these numbers a quarter of all clients.
	b.Rand = rand.New(rand.NewPCG(seed, sofaStream))
	if b.IntN(4) > 0 && on.ServesSofa() && s.Cluster.Budgets == (testbed.Budgets{}) {
		s.Load.Sofa = 2 + s.Load.HTTP
	}
	s.sort()
	return s.withDefaults()
}

// window is a time of the scenario.
type window struct{ from, to time.Duration }

// stormBuilder draws the steps of one storm.
type stormBuilder struct {
	*rand.Rand
	s          *Scenario
	on         *testbed.Capabilities
	limited    bool     // at most one session is in trouble at a time
	sessions   []window // the times in which a session is in trouble
	impossible bool     // the cluster cannot do one of the steps
}

// faults adds n single faults at random moments.
func (b *stormBuilder) faults(n int) {
	for range n {
		at := time.Second + b.between(0, b.s.Until-12*time.Second)
		if d := b.fault(at); d != nil {
			b.s.Lines = append(b.s.Lines, Line{At: at, Step: d})
		}
	}
}

// add adds an action of an episode to the scenario if the cluster can do it. If the end
// of the storm is set, the action ends before.
func (b *stormBuilder) add(at time.Duration, d testbed.Step) {
	at, d.For = max(at, 0).Round(time.Millisecond), d.For.Round(time.Millisecond)
	if end := b.s.Until; end > 0 {
		if d.Verb.Undo() != "" {
			d.For = min(d.For, end-at-100*time.Millisecond)
		}
		if at >= end || d.Verb.Undo() != "" && d.For <= 0 {
			return
		}
	}
	if b.on.Allows(d) != nil {
		b.impossible = true
		return
	}
	b.s.Lines = append(b.s.Lines, Line{At: at, Step: &d})
}

// do adds an action on nodes, which lasts for a time if it can end.
func (b *stormBuilder) do(at time.Duration, verb testbed.Verb, who testbed.Selector, last time.Duration) {
	b.add(at, testbed.Step{Verb: verb, Who: who, For: last})
}

func (s *Scenario) sort() {
	slices.SortStableFunc(s.Lines, func(a, b Line) int { return cmp.Compare(a.At, b.At) })
}

// between draws a duration of at least from, and less than to if that is more.
func (b *stormBuilder) between(from, to time.Duration) time.Duration {
	if from == to {
		return from
	}
	return (from + time.Duration(b.Int64N(int64(to-from)))).Round(time.Millisecond)
}

// nodes returns the nodes of a role, or its clients.
func (b *stormBuilder) nodes(role string) (out []testbed.Selector) {
	for _, name := range (&targets{cluster: b.s.Cluster, clients: b.s.Load.Clients}).all(role) {
		out = append(out, testbed.Selector(name))
	}
	return out
}

// names returns the nodes of a role in a random order.
func (b *stormBuilder) names(role string) []testbed.Selector {
	out := b.nodes(role)
	b.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// any returns a node of one of the roles.
func (b *stormBuilder) any(roles ...string) testbed.Selector {
	role := roles[b.IntN(len(roles))]
	nodes := b.nodes(role)
	if len(nodes) == 0 {
		return testbed.Selector(role) // db
	}
	return nodes[b.IntN(len(nodes))]
}

// spare reports whether a session may be in trouble for that long, and if so
// reserves the time. The clients of a lost session must reconnect, and its
// grace at the data nodes must end, before the next session may be lost.
func (b *stormBuilder) spare(at, last time.Duration, hosts ...testbed.Selector) bool {
	if !b.limited || !slices.ContainsFunc(hosts, func(h testbed.Selector) bool { return strings.HasPrefix(string(h), "session-") }) {
		return true
	}
	want := window{at, at + last + 10*time.Second}
	for _, s := range b.sessions {
		if s.from <= want.to && want.from <= s.to {
			return false
		}
	}
	b.sessions = append(b.sessions, want)
	return true
}

// redraws is how often a fault that is not possible is drawn again.
const redraws = 50

// fault draws one fault that is possible; nil if spare refuses it or both ends
// of a link are the same.
func (b *stormBuilder) fault(at time.Duration) *testbed.Step {
	d, x := b.draw()
	for range redraws {
		if b.playable(d) {
			break
		}
		d, x = b.draw()
	}
	if d.Whom == d.Who || !b.playable(d) || !b.spare(at, d.For, x, d.Whom) {
		return nil
	}
	return d
}

// playable reports whether the cluster can do a fault. If a pair cannot
// be cut there, it cuts one of the two from all others instead.
func (b *stormBuilder) playable(d *testbed.Step) bool {
	if b.on.Allows(*d) == nil {
		return true
	}
	if d.Verb == testbed.Cut || d.Verb == testbed.CutOne {
		alone := *d
		alone.Verb, alone.Whom = testbed.Cut, "everyone"
		if b.on.Allows(alone) == nil {
			*d = alone
			return true
		}
	}
	return false
}

// draw returns one fault and the host, or the role, that it affects.
func (b *stormBuilder) draw() (*testbed.Step, testbed.Selector) {
	short, long := b.between(300*time.Millisecond, 3*time.Second), b.between(time.Second, 8*time.Second)
	x := b.any("meta", "meta", "data", "data", "session", "db")
	y := b.any("meta", "data", "session", "db")
	d := &testbed.Step{Who: x, For: long}
	switch b.IntN(20) {
	case 0, 1, 2:
		d.Verb = testbed.Kill
	case 3:
		d.Verb, d.Who = testbed.Kill, "leader"
		x = "meta"
	case 4, 5:
		d.Verb = testbed.Stop
		if x == testbed.Database {
			d.Verb = testbed.Kill
		}
	case 6, 7:
		d.Verb = testbed.Pause
	case 8, 9:
		d.Verb, d.Whom = testbed.Cut, y
	case 10, 11:
		d.Verb, d.Whom = testbed.CutOne, y
	case 12, 13:
		d.Verb, d.By, d.Jitter = testbed.Slow, b.between(2*time.Millisecond, 250*time.Millisecond), b.between(time.Millisecond, 100*time.Millisecond)
	case 14:
		d.Verb, d.For = testbed.Reset, 0
	case 15:
		d.Verb, d.For = testbed.HalfOpen, 0
	case 16:
		x = b.any("meta")
		*d = testbed.Step{Verb: testbed.LoseNext, Who: x, Whom: testbed.Database}
	case 17:
		d.Verb, d.By = testbed.Skew, b.between(-time.Hour, time.Hour)
	case 18:
		points := trace.Points()
		point := points[b.IntN(len(points))]
		*d = testbed.Step{Verb: testbed.Hold, Who: holder(b, point), Point: point, For: short}
		x = d.Who
	case 19:
		if b.IntN(2) == 0 {
			x = b.any("client")
			*d = testbed.Step{Verb: testbed.Kill, Who: x}
		} else {
			*d = testbed.Step{Verb: testbed.Resign, Who: "leader"}
			x = "meta"
		}
	}
	return d, x
}

// holder returns a node that reaches the point.
func holder(b *stormBuilder, point trace.Kind) testbed.Selector {
	switch point {
	case trace.Finishing, trace.Storing, trace.Merging:
		return b.any("data")
	case trace.Answering, trace.Expiring:
		return b.any("session")
	case trace.Swapping, trace.Swapped:
		return "follower"
	}
	return "leader"
}

// Shrink looks for a shorter scenario that still fails. It removes steps, half
// of them at first, then fewer, as long as fails returns true; then it shortens
// faults that last. (Delta debugging: Zeller and Hildebrandt, 2002.)
func Shrink(s Scenario, fails func(Scenario) bool) Scenario {
	with := func(steps []Line) Scenario {
		out := s
		out.Lines = steps
		return out
	}
	for n := 2; len(s.Lines) > 0; {
		size := (len(s.Lines) + n - 1) / n
		shorter := false
		for from := 0; from < len(s.Lines); from += size {
			rest := slices.Delete(slices.Clone(s.Lines), from, min(from+size, len(s.Lines)))
			if fails(with(rest)) {
				s, shorter = with(rest), true
				break
			}
		}
		switch {
		case shorter:
			n = max(2, n-1)
		case size == 1:
			return shorten(s, fails)
		default:
			n = min(2*n, len(s.Lines))
		}
	}
	return s
}

func shorten(s Scenario, fails func(Scenario) bool) Scenario {
	for i := range s.Lines {
		for d := s.Lines[i].Step; d != nil && d.For > 200*time.Millisecond; d = s.Lines[i].Step {
			half := *d
			half.For = (d.For / 2).Round(time.Millisecond)
			steps := slices.Clone(s.Lines)
			steps[i].Step = &half
			next := s
			next.Lines = steps
			if !fails(next) {
				break
			}
			s = next
		}
	}
	return s
}
