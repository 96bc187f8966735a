package scenario

import (
	"fmt"
	"time"

	"conclave/testbed"
	"conclave/testbed/check"
)

// theme is a kind of storm.
type theme struct {
	about string
	build func(b *stormBuilder)
}

// themes are drawn with equal probability; some are listed twice to be more
// likely.
var themes = []theme{limitedTheme, generalTheme, generalTheme, freezeTheme, outageTheme, outageTheme, operatorTheme, leaveTheme}

var (
	limitedTheme = theme{"single faults, at most one session in trouble at a time", func(b *stormBuilder) {
		b.limited = true
		b.faults(8 + b.r.IntN(17))
	}}
	generalTheme = theme{"single faults, and episodes among them", func(b *stormBuilder) {
		b.faults(6 + b.r.IntN(15))
		for range 1 + b.r.IntN(3) {
			episodes[b.r.IntN(len(episodes))](b, time.Second+between(b.r, 0, 40*time.Second))
		}
	}}
	freezeTheme = theme{"nodes are paused while others are drained", func(b *stormBuilder) {
		b.s.Until, b.s.Load.Replace, b.s.Load.Guests = 45*time.Second, 2*time.Second, 2*time.Second
		for at := 2 * time.Second; at < 30*time.Second; at += between(b.r, 5*time.Second, 14*time.Second) {
			b.freezeAndDrain(at)
		}
	}}
	outageTheme = theme{"a whole role is away, or two are", func(b *stormBuilder) {
		b.s.Until = 55 * time.Second
		b.outage(between(b.r, 2*time.Second, 8*time.Second))
		if b.r.IntN(2) == 0 {
			b.outage(between(b.r, 25*time.Second, 40*time.Second))
		}
		b.faults(b.r.IntN(4))
	}}
	operatorTheme = theme{"an operator acts at any moment", func(b *stormBuilder) {
		b.s.Until = 45 * time.Second
		for at := time.Second; at < 35*time.Second; at += between(b.r, 2*time.Second, 12*time.Second) {
			b.operator(at)
		}
		if b.r.IntN(3) > 0 {
			b.faults(1 + b.r.IntN(4))
		}
	}}
	leaveTheme = theme{"clients withdraw and leave, and copies are lost", func(b *stormBuilder) {
		b.s.Until, b.s.Load.Replace, b.s.Load.Guests, b.s.Load.Readers = 45*time.Second, time.Second, time.Second, 2*time.Second
		for at := 6 * time.Second; at < 34*time.Second; at += between(b.r, 6*time.Second, 16*time.Second) {
			if b.r.IntN(3) == 0 {
				b.drainAndLose(at)
			} else {
				b.loseTheLastCopy(at)
			}
		}
	}}
)

// episodes are the ones that the general theme draws from.
var episodes = []func(*stormBuilder, time.Duration){(*stormBuilder).freezeAndDrain, (*stormBuilder).outage, (*stormBuilder).operator, (*stormBuilder).drainAndLose, (*stormBuilder).loseTheLastCopy}

// drain puts a node on the blacklist for a while, or stops it with SIGTERM.
func (b *stormBuilder) drain(at time.Duration, node string, last time.Duration) {
	verb := testbed.Forbid
	if b.r.IntN(3) == 0 {
		verb = testbed.Stop
	}
	b.add(at, testbed.Step{Verb: verb, Who: testbed.Selector(node), For: last})
}

// freezeAndDrain pauses or slows a node, mostly a session, for long enough that
// data nodes compare their copies with it meanwhile. Data nodes are drained
// before, during or after that, and slots move back later.
func (b *stormBuilder) freezeAndDrain(at time.Duration) {
	paused := b.any("session", "session", "session", "data", "meta")
	last := between(b.r, time.Second, 10*time.Second)
	if b.r.IntN(4) == 0 {
		b.add(at, testbed.Step{Verb: testbed.Slow, Who: testbed.Selector(paused), By: between(b.r, 100*time.Millisecond, 900*time.Millisecond), Jitter: 100 * time.Millisecond, For: last})
	} else {
		b.add(at, testbed.Step{Verb: testbed.Pause, Who: testbed.Selector(paused), For: last})
	}
	for range 1 + b.r.IntN(2) {
		b.drain(at+between(b.r, -time.Second, last), b.any("data"), between(b.r, time.Second, 14*time.Second))
	}
	if b.r.IntN(4) == 0 {
		b.add(at+between(b.r, 0, last), testbed.Step{Verb: testbed.Kill, Who: testbed.Selector(b.any("data")), For: between(b.r, time.Second, 8*time.Second)})
	}
}

// outages are ranges for the length of an outage: below and above each grace.
var outages = [][2]time.Duration{
	{300 * time.Millisecond, 2 * time.Second},  // below the node lease
	{2500 * time.Millisecond, 5 * time.Second}, // about the node lease
	{5 * time.Second, 9 * time.Second},         // above the client lease
	{11 * time.Second, 16 * time.Second},       // about the session grace
	{16 * time.Second, 26 * time.Second},       // above it
}

// outage takes away every node of one or two roles at about one moment, and
// brings them back at about one moment.
func (b *stormBuilder) outage(at time.Duration) {
	sets := [][]string{{"session"}, {"session"}, {"session"}, {"data"}, {"session", "data"}, {"session", "data"}, {"meta"}, {"meta", "data"}, {"meta", "session"}}
	bounds := outages[b.r.IntN(len(outages))]
	last := between(b.r, bounds[0], bounds[1])
	scatter := []time.Duration{time.Millisecond, 300 * time.Millisecond, 2 * time.Second}[b.r.IntN(3)]
	verb := []testbed.Verb{testbed.Kill, testbed.Kill, testbed.Pause}[b.r.IntN(3)]
	for _, role := range sets[b.r.IntN(len(sets))] {
		for n := range b.count(role) {
			from, to := between(b.r, 0, scatter), last+between(b.r, 0, scatter)
			b.add(at+from, testbed.Step{Verb: verb, Who: testbed.Selector(fmt.Sprintf("%s-%d", role, n+1)), For: max(to-from, 100*time.Millisecond)})
		}
	}
}

// operator runs a few commands within milliseconds to seconds, whatever the
// state of the cluster; often the same command on every node of a role.
func (b *stormBuilder) operator(at time.Duration) {
	within := []time.Duration{10 * time.Millisecond, time.Second, 4 * time.Second}[b.r.IntN(3)]
	last := func() time.Duration { return between(b.r, time.Second, 12*time.Second) }
	switch b.r.IntN(8) {
	case 0, 1, 2: // drains of a whole role
		role := []string{"session", "session", "data", "meta"}[b.r.IntN(4)]
		for n := range b.count(role) {
			b.add(at+between(b.r, 0, within), testbed.Step{Verb: testbed.Forbid, Who: testbed.Selector(fmt.Sprintf("%s-%d", role, n+1)), For: last()})
		}
	case 3: // every meta quits
		for n := range b.s.Cluster.Metas {
			b.add(at+between(b.r, 0, within), testbed.Step{Verb: testbed.Quit, Who: testbed.Selector(fmt.Sprintf("meta-%d", n+1)), For: last()})
		}
	case 4: // a drain, and the node that remains is lost
		role := []string{"session", "data"}[b.r.IntN(2)]
		b.drain(at, b.any(role), last())
		verb := []testbed.Verb{testbed.Kill, testbed.Stop, testbed.Pause}[b.r.IntN(3)]
		b.add(at+between(b.r, 0, within), testbed.Step{Verb: verb, Who: testbed.Selector(b.any(role)), For: between(b.r, time.Second, 8*time.Second)})
	default:
		for range 2 + b.r.IntN(3) {
			b.command(at+between(b.r, 0, within), last())
		}
	}
}

// command adds one command of an operator, or a stop.
func (b *stormBuilder) command(at, last time.Duration) {
	switch b.r.IntN(9) {
	case 0, 1, 2, 3:
		b.add(at, testbed.Step{Verb: testbed.Forbid, Who: testbed.Selector(b.any("data", "data", "session", "meta")), For: last})
	case 4:
		b.add(at, testbed.Step{Verb: testbed.Quit, Who: testbed.Selector(b.any("meta")), For: last})
	case 5:
		b.add(at, testbed.Step{Verb: testbed.Resign, Who: "leader"})
	case 6:
		b.add(at, testbed.Step{Verb: testbed.Freeze, For: last})
	case 7:
		b.add(at, testbed.Step{Verb: testbed.Stop, Who: testbed.Selector(b.any("data", "session", "meta")), For: last})
	case 8:
		b.add(at, testbed.Step{Verb: testbed.Switch, Who: "stop-push", Whom: "on", For: last})
	}
}

// drainAndLose drains or stops a data node; within milliseconds to seconds
// another data node is lost, and mostly a session with it. Sometimes slow links
// delay the new copy.
func (b *stormBuilder) drainAndLose(at time.Duration) {
	if b.r.IntN(2) == 0 {
		slow := testbed.Step{Verb: testbed.Slow, Who: testbed.Selector(b.any("data")), By: between(b.r, 20*time.Millisecond, 400*time.Millisecond), For: 3 * time.Second}
		b.add(at-300*time.Millisecond, slow)
	}
	b.drain(at, b.any("data"), between(b.r, 2*time.Second, 10*time.Second))
	bounds := []time.Duration{2 * time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond, 1500 * time.Millisecond}
	within := bounds[b.r.IntN(len(bounds))]
	soon := func() time.Duration { return at + between(b.r, 0, within) }
	lost := func(roles ...string) {
		verb := []testbed.Verb{testbed.Kill, testbed.Kill, testbed.Kill, testbed.Pause}[b.r.IntN(4)]
		b.add(soon(), testbed.Step{Verb: verb, Who: testbed.Selector(b.any(roles...)), For: between(b.r, 2*time.Second, 9*time.Second)})
	}
	lost("data")
	if b.r.IntN(4) > 0 {
		lost("session")
	}
}

// loseTheLastCopy restarts one data node, which then loads its copies over slow
// links while clients move between sessions; a second data node is drained, and
// the third is lost, mostly with a session.
func (b *stormBuilder) loseTheLastCopy(at time.Duration) {
	nodes := b.r.Perm(b.s.Cluster.Datas)
	if len(nodes) < 3 {
		b.drainAndLose(at)
		return
	}
	name := func(i int) testbed.Selector { return testbed.Selector(fmt.Sprintf("data-%d", nodes[i]+1)) }
	sessions := b.r.Perm(b.s.Cluster.Sessions)
	cut, lost := sessions[0], sessions[len(sessions)-1]
	b.add(at-between(b.r, 3500*time.Millisecond, 5*time.Second), testbed.Step{Verb: testbed.Kill, Who: name(0), For: between(b.r, 2500*time.Millisecond, 4*time.Second)})
	b.add(at-1500*time.Millisecond, testbed.Step{Verb: testbed.Slow, Who: name(2), Whom: name(0), By: between(b.r, 200*time.Millisecond, 1500*time.Millisecond), For: 6 * time.Second})
	b.add(at-3*time.Second, testbed.Step{Verb: testbed.Cut, Who: testbed.Selector(fmt.Sprintf("session-%d", cut+1)), Whom: "clients", For: between(b.r, 2*time.Second, 4*time.Second)})
	b.drain(at, string(name(1)), between(b.r, 3*time.Second, 10*time.Second))
	soon := at + between(b.r, 0, 900*time.Millisecond)
	last := between(b.r, 3*time.Second, 9*time.Second)
	b.add(soon, testbed.Step{Verb: testbed.Kill, Who: name(2), For: last})
	if b.r.IntN(4) > 0 {
		b.add(soon, testbed.Step{Verb: testbed.Kill, Who: testbed.Selector(fmt.Sprintf("session-%d", lost+1)), For: last})
	}
}

// misconfigured are episodes that every eighth storm has in addition to those
// of its theme. They are drawn from a generator of their own.
var misconfigured = []func(*stormBuilder){(*stormBuilder).unreachable, (*stormBuilder).announce}

// unreachable makes it impossible to dial a session, and kills a data node
// meanwhile: for a short time among the faults of the storm, or after them for
// longer than data nodes wait for such a session, when nothing else happens (L20).
func (b *stormBuilder) unreachable() {
	at := between(b.r, time.Second, 20*time.Second)
	session := testbed.Selector(b.any("session"))
	last := between(b.r, 2*time.Second, 8*time.Second)
	if b.r.IntN(2) == 0 {
		at += b.s.Until
		last = between(b.r, 32*time.Second, 40*time.Second)
		b.s.Until = at + last
	}
	b.add(at, testbed.Step{Verb: testbed.ClosePort, Who: session, For: last})
	b.add(at, testbed.Step{Verb: testbed.Reset, Who: "datas", Whom: session})
	b.add(at+between(b.r, 0, 2*time.Second), testbed.Step{Verb: testbed.Kill, Who: testbed.Selector(b.any("data")), For: last})
}

// cutOffStream is the stream of cutOff. The seeds that docs and mutations name have
// none of it.
const cutOffStream = 0x5d1e

// cutOff cuts a session from all other nodes, but not from its clients, or a data
// node from all sessions, and sometimes from the other data nodes; in both
// directions or in one, for less than a session grace or for longer.
func (b *stormBuilder) cutOff() {
	verb := []testbed.Verb{testbed.Cut, testbed.Cut, testbed.CutOne}[b.r.IntN(3)]
	role, from := "session", []testbed.Selector{"metas", "datas"}
	if b.r.IntN(2) == 0 {
		role, from = "data", [][]testbed.Selector{{"sessions"}, {"sessions", "datas"}}[b.r.IntN(2)]
	}
	who, at, last := testbed.Selector(b.any(role)), between(b.r, time.Second, 20*time.Second), between(b.r, 4*time.Second, 40*time.Second)
	for _, whom := range from {
		b.add(at, testbed.Step{Verb: verb, Who: who, Whom: whom, For: last})
	}
}

// oneSessionLeft drains one session and kills the others, in either order,
// after the faults of the storm and for long enough that L22 checks what the
// session that is left does. About every tenth storm ends with it.
func (b *stormBuilder) oneSessionLeft() {
	at := b.s.Until + time.Second
	b.s.Until = at + between(b.r, 36*time.Second, 42*time.Second)
	left := b.r.IntN(b.s.Cluster.Sessions)
	for n := range b.s.Cluster.Sessions {
		s := testbed.Selector(fmt.Sprintf("session-%d", n+1))
		if n == left {
			b.add(at+between(b.r, 0, 3*time.Second), testbed.Step{Verb: testbed.Forbid, Who: s, For: time.Minute})
		} else {
			b.add(at+between(b.r, 0, 3*time.Second), testbed.Step{Verb: testbed.Kill, Who: s, For: time.Minute})
		}
	}
}

// deathStream is the stream of clientDies, which the seeds that docs and mutations
// name do not have either.
const deathStream = 0x5df2

// clientDies kills a client after the faults of the storm, when nothing else has
// failed for a session grace: I6 allows it only moments in the lists then.
func (b *stormBuilder) clientDies() {
	at := b.s.Until + check.SessionGrace + 7*time.Second
	for _, line := range []Line{
		{At: b.s.Until, Step: &testbed.Step{Verb: testbed.HealAll}},
		{At: at, Step: &testbed.Step{Verb: testbed.Kill, Who: testbed.Selector(b.any("client"))}},
	} {
		if b.on.Allows(*line.Step) == nil {
			b.s.Lines = append(b.s.Lines, line)
		}
	}
	b.s.Until = at + 4*time.Second
}

// refusals are errors with which a database refuses statements: for what they
// contain, for now, and as it is being stopped.
var refusals = []int{1064, 1153, 1366, 1406, 1021, 1040, 1205, 1213, 1290, 1836, 1053, 1317}

// refusal has the database refuse statements of one kind, in every fourth storm. Every
// other time a data node is killed meanwhile, which is when something must be written.
func (b *stormBuilder) refusal() {
	at, last := between(b.r, time.Second, max(2*time.Second, b.s.Until-14*time.Second)), between(b.r, 300*time.Millisecond, 9*time.Second)
	kind, number := testbed.Statements[b.r.IntN(len(testbed.Statements))], refusals[b.r.IntN(len(refusals))]
	b.add(at, testbed.Step{Verb: testbed.Refuse, Who: testbed.Database, Of: kind, Number: number, For: last})
	if b.r.IntN(2) == 0 && !b.limited {
		b.add(at+between(b.r, 0, last), testbed.Step{Verb: testbed.Kill, Who: testbed.Selector(b.any("data")), For: between(b.r, time.Second, 8*time.Second)})
	}
}

// load gives the nodes of every eighth storm budgets, adds a burst to the faults of
// every other one of these, and ends all of them with a burst when nothing else has
// failed for long enough that L23 and L24 check what is left of it. A session serves
// some 80 changes a second of the slowest kind, and 300 of the fastest; the clients
// make 20, and a burst 10 to 100 times what all sessions serve. It is the shorter the
// more it is, so that a storm with load does not take much longer than another one.
func (b *stormBuilder) load() {
	machine := budgets[b.r.IntN(len(budgets))]
	machine.Queue = []int{0, 32 << 10, 256 << 10}[b.r.IntN(3)]
	b.s.Cluster.Budgets.Session, b.s.Cluster.Budgets.Data = machine, machine
	if b.r.IntN(2) == 0 {
		b.s.Cluster.Budgets.Meta = machine
	}
	b.s.Load.Every, b.s.Load.Bulk = 200*time.Millisecond, 50+b.r.IntN(100)
	served := 0.16 * float64(b.s.Cluster.Sessions) * float64(time.Second) / float64(machine.Message+150*machine.Byte)
	burst := func() testbed.Step {
		times := 10 + b.r.IntN(91)
		factor := float64(times) * served / (float64(b.s.Load.Clients) / b.s.Load.Every.Seconds())
		lasts := min(max(500*time.Millisecond, time.Duration(burstChanges/(float64(times)*served)*float64(time.Second))), 5*time.Second)
		return testbed.Step{Verb: testbed.Burst, Factor: min(max(1, int(factor)), 1000), For: lasts.Round(100 * time.Millisecond)}
	}
	if b.r.IntN(2) == 0 {
		b.add(between(b.r, 2*time.Second, b.s.Until-10*time.Second), burst())
	}
	last := burst()
	faultsEnd := b.s.Until
	at := faultsEnd + check.SessionGrace + 7*time.Second
	b.s.Until = at + last.For + 16*time.Second
	// A command that could not be taken back, because the database was away, must
	// not last until the burst.
	b.add(faultsEnd, testbed.Step{Verb: testbed.HealAll})
	b.add(at, last)
}

// budgets are those of the nodes in storms with load, and burstChanges is about how
// many changes the clients make in a burst.
var budgets = []testbed.Budget{
	{Message: 500 * time.Microsecond, Byte: 500 * time.Nanosecond},
	{Message: 500 * time.Microsecond, Byte: 5 * time.Microsecond},
	{Message: time.Millisecond, Byte: time.Microsecond},
	{Message: 2 * time.Millisecond, Byte: time.Microsecond},
}

const burstChanges = 8_000

// announce announces a stop of the whole cluster to a few nodes, or to the
// leader, which does not come. A node is stopped: soon, or after the faults of
// the storm, when the announcement has ended (check.AnnouncementLasts) and
// nothing else happens.
func (b *stormBuilder) announce() {
	at := between(b.r, time.Second, 15*time.Second)
	var stopped string
	toLeader := false
	for range 1 + b.r.IntN(3) {
		stopped = b.any("data", "data", "session")
		told := stopped
		if b.r.IntN(3) == 0 {
			told, toLeader = b.any("meta"), true
		}
		b.add(at+between(b.r, 0, time.Second), testbed.Step{Verb: testbed.AnnounceStop, Who: testbed.Selector(told)})
	}
	stop := at + between(b.r, 2*time.Second, 20*time.Second)
	if b.r.IntN(2) == 0 {
		stop = b.s.Until + check.SessionGrace + between(b.r, 6*time.Second, 10*time.Second)
		stop = max(stop, at+check.AnnouncementLasts+2*time.Second)
		if toLeader {
			stopped = b.any("data")
			stop = b.s.Until + check.AnnouncementLasts + 2*time.Second // a fault of a meta may lengthen it
		}
		b.s.Until = stop + 10*time.Second
	}
	b.add(stop, testbed.Step{Verb: testbed.Stop, Who: testbed.Selector(stopped), For: between(b.r, 4*time.Second, 8*time.Second)})
}
