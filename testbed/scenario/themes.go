package scenario

import (
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
		b.faults(8 + b.IntN(17))
	}}
	generalTheme = theme{"single faults, and episodes among them", func(b *stormBuilder) {
		b.faults(6 + b.IntN(15))
		for range 1 + b.IntN(3) {
			episodes[b.IntN(len(episodes))](b, time.Second+b.between(0, 40*time.Second))
		}
	}}
	freezeTheme = theme{"nodes are paused while others are drained", func(b *stormBuilder) {
		b.s.Until, b.s.Load.Replace, b.s.Load.Guests = 45*time.Second, 2*time.Second, 2*time.Second
		for at := 2 * time.Second; at < 30*time.Second; at += b.between(5*time.Second, 14*time.Second) {
			b.freezeAndDrain(at)
		}
	}}
	outageTheme = theme{"a whole role is away, or two are", func(b *stormBuilder) {
		b.s.Until = 55 * time.Second
		b.outage(b.between(2*time.Second, 8*time.Second))
		if b.IntN(2) == 0 {
			b.outage(b.between(25*time.Second, 40*time.Second))
		}
		b.faults(b.IntN(4))
	}}
	operatorTheme = theme{"an operator acts at any moment", func(b *stormBuilder) {
		b.s.Until = 45 * time.Second
		for at := time.Second; at < 35*time.Second; at += b.between(2*time.Second, 12*time.Second) {
			b.operator(at)
		}
		if b.IntN(3) > 0 {
			b.faults(1 + b.IntN(4))
		}
	}}
	leaveTheme = theme{"clients withdraw and leave, and copies are lost", func(b *stormBuilder) {
		b.s.Until, b.s.Load.Replace, b.s.Load.Guests, b.s.Load.Readers = 45*time.Second, time.Second, time.Second, 2*time.Second
		for at := 6 * time.Second; at < 34*time.Second; at += b.between(6*time.Second, 16*time.Second) {
			if b.IntN(3) == 0 {
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
func (b *stormBuilder) drain(at time.Duration, node testbed.Selector, last time.Duration) {
	verb := testbed.Forbid
	if b.IntN(3) == 0 {
		verb = testbed.Stop
	}
	b.do(at, verb, node, last)
}

// freezeAndDrain pauses or slows a node, mostly a session, for long enough that
// data nodes compare their copies with it meanwhile. Data nodes are drained
// before, during or after that, and slots move back later.
func (b *stormBuilder) freezeAndDrain(at time.Duration) {
	paused := b.any("session", "session", "session", "data", "meta")
	last := b.between(time.Second, 10*time.Second)
	if b.IntN(4) == 0 {
		b.add(at, testbed.Step{Verb: testbed.Slow, Who: paused, By: b.between(100*time.Millisecond, 900*time.Millisecond), Jitter: 100 * time.Millisecond, For: last})
	} else {
		b.do(at, testbed.Pause, paused, last)
	}
	for range 1 + b.IntN(2) {
		b.drain(at+b.between(-time.Second, last), b.any("data"), b.between(time.Second, 14*time.Second))
	}
	if b.IntN(4) == 0 {
		b.do(at+b.between(0, last), testbed.Kill, b.any("data"), b.between(time.Second, 8*time.Second))
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
	bounds := outages[b.IntN(len(outages))]
	last := b.between(bounds[0], bounds[1])
	scatter := []time.Duration{time.Millisecond, 300 * time.Millisecond, 2 * time.Second}[b.IntN(3)]
	verb := []testbed.Verb{testbed.Kill, testbed.Kill, testbed.Pause}[b.IntN(3)]
	for _, role := range sets[b.IntN(len(sets))] {
		for _, node := range b.nodes(role) {
			from, to := b.between(0, scatter), last+b.between(0, scatter)
			b.do(at+from, verb, node, max(to-from, 100*time.Millisecond))
		}
	}
}

// operator runs a few commands within milliseconds to seconds, whatever the
// state of the cluster; often the same command on every node of a role.
func (b *stormBuilder) operator(at time.Duration) {
	within := []time.Duration{10 * time.Millisecond, time.Second, 4 * time.Second}[b.IntN(3)]
	last := func() time.Duration { return b.between(time.Second, 12*time.Second) }
	switch b.IntN(8) {
	case 0, 1, 2: // drains of a whole role
		role := []string{"session", "session", "data", "meta"}[b.IntN(4)]
		for _, node := range b.nodes(role) {
			b.do(at+b.between(0, within), testbed.Forbid, node, last())
		}
	case 3: // every meta quits
		for _, meta := range b.nodes("meta") {
			b.do(at+b.between(0, within), testbed.Quit, meta, last())
		}
	case 4: // a drain, and the node that remains is lost
		role := []string{"session", "data"}[b.IntN(2)]
		b.drain(at, b.any(role), last())
		verb := []testbed.Verb{testbed.Kill, testbed.Stop, testbed.Pause}[b.IntN(3)]
		b.do(at+b.between(0, within), verb, b.any(role), b.between(time.Second, 8*time.Second))
	default:
		for range 2 + b.IntN(3) {
			b.command(at+b.between(0, within), last())
		}
	}
}

// command adds one command of an operator, or a stop.
func (b *stormBuilder) command(at, last time.Duration) {
	switch b.IntN(9) {
	case 0, 1, 2, 3:
		b.do(at, testbed.Forbid, b.any("data", "data", "session", "meta"), last)
	case 4:
		b.do(at, testbed.Quit, b.any("meta"), last)
	case 5:
		b.do(at, testbed.Resign, "leader", 0)
	case 6:
		b.add(at, testbed.Step{Verb: testbed.Freeze, For: last})
	case 7:
		b.do(at, testbed.Stop, b.any("data", "session", "meta"), last)
	case 8:
		b.add(at, testbed.Step{Verb: testbed.Switch, Who: "stop-push", Whom: "on", For: last})
	}
}

// drainAndLose drains or stops a data node; within milliseconds to seconds
// another data node is lost, and mostly a session with it. Sometimes slow links
// delay the new copy.
func (b *stormBuilder) drainAndLose(at time.Duration) {
	if b.IntN(2) == 0 {
		slow := testbed.Step{Verb: testbed.Slow, Who: b.any("data"), By: b.between(20*time.Millisecond, 400*time.Millisecond), For: 3 * time.Second}
		b.add(at-300*time.Millisecond, slow)
	}
	b.drain(at, b.any("data"), b.between(2*time.Second, 10*time.Second))
	bounds := []time.Duration{2 * time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond, 1500 * time.Millisecond}
	within := bounds[b.IntN(len(bounds))]
	soon := func() time.Duration { return at + b.between(0, within) }
	lost := func(roles ...string) {
		verb := []testbed.Verb{testbed.Kill, testbed.Kill, testbed.Kill, testbed.Pause}[b.IntN(4)]
		b.do(soon(), verb, b.any(roles...), b.between(2*time.Second, 9*time.Second))
	}
	lost("data")
	if b.IntN(4) > 0 {
		lost("session")
	}
}

// loseTheLastCopy restarts one data node, which then loads its copies over slow
// links while clients move between sessions; a second data node is drained, and
// the third is lost, mostly with a session.
func (b *stormBuilder) loseTheLastCopy(at time.Duration) {
	data, session := b.nodes("data"), b.nodes("session")
	nodes := b.Perm(len(data))
	if len(nodes) < 3 {
		b.drainAndLose(at)
		return
	}
	sessions := b.Perm(len(session))
	cut, lost := session[sessions[0]], session[sessions[len(sessions)-1]]
	b.do(at-b.between(3500*time.Millisecond, 5*time.Second), testbed.Kill, data[nodes[0]], b.between(2500*time.Millisecond, 4*time.Second))
	b.add(at-1500*time.Millisecond, testbed.Step{Verb: testbed.Slow, Who: data[nodes[2]], Whom: data[nodes[0]], By: b.between(200*time.Millisecond, 1500*time.Millisecond), For: 6 * time.Second})
	b.add(at-3*time.Second, testbed.Step{Verb: testbed.Cut, Who: cut, Whom: "clients", For: b.between(2*time.Second, 4*time.Second)})
	b.drain(at, data[nodes[1]], b.between(3*time.Second, 10*time.Second))
	soon := at + b.between(0, 900*time.Millisecond)
	last := b.between(3*time.Second, 9*time.Second)
	b.do(soon, testbed.Kill, data[nodes[2]], last)
	if b.IntN(4) > 0 {
		b.do(soon, testbed.Kill, lost, last)
	}
}

// misconfigured are episodes that every eighth storm has in addition to those
// of its theme. They are drawn from a generator of their own.
var misconfigured = []func(*stormBuilder){(*stormBuilder).unreachable, (*stormBuilder).announce}

// unreachable makes it impossible to dial a session, and kills a data node
// meanwhile: for a short time among the faults of the storm, or after them for
// longer than data nodes wait for such a session, when nothing else happens (L20).
func (b *stormBuilder) unreachable() {
	at := b.between(time.Second, 20*time.Second)
	session := b.any("session")
	last := b.between(2*time.Second, 8*time.Second)
	if b.IntN(2) == 0 {
		at += b.s.Until
		last = b.between(32*time.Second, 40*time.Second)
		b.s.Until = at + last
	}
	b.do(at, testbed.ClosePort, session, last)
	b.add(at, testbed.Step{Verb: testbed.Reset, Who: "datas", Whom: session})
	b.do(at+b.between(0, 2*time.Second), testbed.Kill, b.any("data"), last)
}

// cutOffStream is the stream of cutOff. The seeds that docs and mutations name have
// none of it.
const cutOffStream = 0x5d1e

// cutOff cuts a session from all other nodes, but not from its clients, or a data
// node from all sessions, and sometimes from the other data nodes; in both
// directions or in one, for less than a session grace or for longer.
func (b *stormBuilder) cutOff() {
	verb := []testbed.Verb{testbed.Cut, testbed.Cut, testbed.CutOne}[b.IntN(3)]
	role, from := "session", []testbed.Selector{"metas", "datas"}
	if b.IntN(2) == 0 {
		role, from = "data", [][]testbed.Selector{{"sessions"}, {"sessions", "datas"}}[b.IntN(2)]
	}
	who, at, last := b.any(role), b.between(time.Second, 20*time.Second), b.between(4*time.Second, 40*time.Second)
	for _, whom := range from {
		b.add(at, testbed.Step{Verb: verb, Who: who, Whom: whom, For: last})
	}
}

// oneSessionLeft drains one session and kills the others, in either order,
// after the faults of the storm and for long enough that L22 checks what the
// session that is left does. About every tenth storm ends with it.
func (b *stormBuilder) oneSessionLeft() {
	at := b.s.Until + time.Second
	b.s.Until = at + b.between(36*time.Second, 42*time.Second)
	left := b.IntN(b.s.Cluster.Sessions)
	for n, session := range b.nodes("session") {
		verb := testbed.Kill
		if n == left {
			verb = testbed.Forbid
		}
		b.do(at+b.between(0, 3*time.Second), verb, session, time.Minute)
	}
}

// httpStream is the stream of clients without the SDK, which the storms that mutations
// name do not have with it.
const httpStream = 0x31bde

// sofaStream is the stream of clients of SOFARegistry, which those storms do not have either.
const sofaStream = 0x101104

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

// blip pauses a session after the faults of the storm, when nothing else has failed for
// a session grace. Its clients have moved when the connections of one are reset, and
// mostly no session can be dialled for 100 ms: I7 demands that it is back soon.
func (b *stormBuilder) blip() {
	sessions, healed := b.names("session"), b.s.Until
	paused := healed + check.SessionGrace + 7*time.Second
	at := paused + b.between(8*time.Second, 14*time.Second)
	b.s.Until = at + 12*time.Second
	b.add(healed, testbed.Step{Verb: testbed.HealAll})
	b.do(paused, testbed.Pause, sessions[0], b.s.Until-paused-time.Second)
	closed, client := b.IntN(4) > 0, b.any("client")
	for i, session := range sessions {
		if closed {
			b.do(at, testbed.ClosePort, session, 100*time.Millisecond)
		}
		if i > 0 {
			b.add(at, testbed.Step{Verb: testbed.Reset, Who: client, Whom: session})
		}
	}
}

// refusals are errors with which a database refuses statements: for what they
// contain, for now, and as it is being stopped.
var refusals = []int{1064, 1153, 1366, 1406, 1021, 1040, 1205, 1213, 1290, 1836, 1053, 1317}

// refusal has the database refuse statements of one kind, in every fourth storm. Every
// other time a data node is killed meanwhile, which is when something must be written.
func (b *stormBuilder) refusal() {
	at, last := b.between(time.Second, max(2*time.Second, b.s.Until-14*time.Second)), b.between(300*time.Millisecond, 9*time.Second)
	kind, number := testbed.Statements[b.IntN(len(testbed.Statements))], refusals[b.IntN(len(refusals))]
	b.add(at, testbed.Step{Verb: testbed.Refuse, Who: testbed.Database, Of: kind, Number: number, For: last})
	if b.IntN(2) == 0 && !b.limited {
		b.do(at+b.between(0, last), testbed.Kill, b.any("data"), b.between(time.Second, 8*time.Second))
	}
}

// load gives the nodes of every eighth storm budgets, adds a burst to the faults of
// every other one of these, and ends all of them with a burst when nothing else has
// failed for long enough that L23 and L24 check what is left of it. A session serves
// some 80 changes a second of the slowest kind, and 300 of the fastest; the clients
// make 20, and a burst 10 to 100 times what all sessions serve. It is the shorter the
// more it is, so that a storm with load does not take much longer than another one.
func (b *stormBuilder) load() {
	machine := budgets[b.IntN(len(budgets))]
	machine.Queue = []int{0, 32 << 10, 256 << 10}[b.IntN(3)]
	b.s.Cluster.Budgets.Session, b.s.Cluster.Budgets.Data = machine, machine
	if b.IntN(2) == 0 {
		b.s.Cluster.Budgets.Meta = machine
	}
	b.s.Load.Every, b.s.Load.Bulk = 200*time.Millisecond, 50+b.IntN(100)
	served := 0.16 * float64(b.s.Cluster.Sessions) * float64(time.Second) / float64(machine.Message+150*machine.Byte)
	burst := func() testbed.Step {
		times := 10 + b.IntN(91)
		factor := float64(times) * served / (float64(b.s.Load.Clients) / b.s.Load.Every.Seconds())
		lasts := min(max(500*time.Millisecond, time.Duration(burstChanges/(float64(times)*served)*float64(time.Second))), 5*time.Second)
		return testbed.Step{Verb: testbed.Burst, Factor: min(max(1, int(factor)), 1000), For: lasts.Round(100 * time.Millisecond)}
	}
	if b.IntN(2) == 0 {
		b.add(b.between(2*time.Second, b.s.Until-10*time.Second), burst())
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
	at := b.between(time.Second, 15*time.Second)
	var stopped testbed.Selector
	toLeader := false
	for range 1 + b.IntN(3) {
		stopped = b.any("data", "data", "session")
		told := stopped
		if b.IntN(3) == 0 {
			told, toLeader = b.any("meta"), true
		}
		b.do(at+b.between(0, time.Second), testbed.AnnounceStop, told, 0)
	}
	stop := at + b.between(2*time.Second, 20*time.Second)
	if b.IntN(2) == 0 {
		stop = b.s.Until + check.SessionGrace + b.between(6*time.Second, 10*time.Second)
		stop = max(stop, at+check.AnnouncementLasts+2*time.Second)
		if toLeader {
			stopped = b.any("data")
			stop = b.s.Until + check.AnnouncementLasts + 2*time.Second // a fault of a meta may lengthen it
		}
		b.s.Until = stop + 10*time.Second
	}
	b.do(stop, testbed.Stop, stopped, b.between(4*time.Second, 8*time.Second))
}
