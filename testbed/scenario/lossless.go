package scenario

import (
	"cmp"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"conclave/testbed"
	"conclave/testbed/check"
)

// Storms returns the lossless storms of a seed for a cluster of this size, without
// end: storms in which nothing is lost that ARCHITECTURE.md does not list as not
// guaranteed, so that an observer need not excuse anything. None loses a session
// and the leader of a slot together while that slot's follower is paused or cut
// off, and none cuts the clients off from every session. The load is left to the
// caller, whose clients should withdraw while slots are handed over.
//
// Each theme whose name contains only, and whose faults are possible on the
// cluster, occurs once in each round, in an order given by the seed, so that a
// series of moderate length omits none. Equal seeds give equal storms.
func Storms(seed uint64, size testbed.Size, on *testbed.Capabilities, only string) iter.Seq[Scenario] {
	return func(yield func(Scenario) bool) {
		var round []losslessTheme
		for n, idle := 1, 0; idle < 2; n++ {
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			if len(round) == 0 {
				round = slices.DeleteFunc(slices.Clone(losslessThemes), func(t losslessTheme) bool { return !strings.Contains(t.about, only) })
				r.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
				idle++ // a round without a possible storm is the last
			}
			if len(round) == 0 {
				return
			}
			d := &draw{Rand: r, size: size, on: on}
			t := round[0]
			round = round[1:]
			if t.build(d); d.impossible {
				continue
			}
			idle = 0
			slices.SortStableFunc(d.lines, func(a, b Line) int { return cmp.Compare(a.At, b.At) })
			s := Scenario{
				Name: fmt.Sprintf("storm-%d-%d", seed, n), About: fmt.Sprintf("Storm %d of seed %d.", n, seed), Cluster: size, Lines: d.lines,
				Scenes: []Scene{{Title: t.about, Until: last(d.lines) + 2*time.Second}},
			}
			if !yield(s.withDefaults()) {
				return
			}
		}
	}
}

// LosslessThemes returns the names of the themes of Storms.
func LosslessThemes() (names []string) {
	for _, t := range losslessThemes {
		names = append(names, t.about)
	}
	return names
}

// losslessTheme is a kind of lossless storm.
type losslessTheme struct {
	about string
	build func(*draw)
}

// draw collects the steps of one storm.
type draw struct {
	*rand.Rand
	size       testbed.Size
	on         *testbed.Capabilities
	lines      []Line
	impossible bool // the cluster cannot do one of the steps
}

// at adds a step.
func (d *draw) at(at time.Duration, s testbed.Step) {
	d.impossible = d.impossible || d.on.Allows(s) != nil
	d.lines = append(d.lines, Line{Scene: 1, At: at.Round(10 * time.Millisecond), Step: &s})
}

// between draws a duration, in steps of ten milliseconds.
func (d *draw) between(least, most time.Duration) time.Duration {
	return (least + time.Duration(d.Int64N(int64(most-least)+1))).Round(10 * time.Millisecond)
}

// The leases of the processes, around which outages are drawn: they are shorter
// and longer than each, and than the session grace.
const (
	nodeLease = testbed.DefaultLease

	// LongestOutage is the longest that any fault of a lossless storm lasts, but for
	// the last few seconds of an outage of all sessions.
	LongestOutage = 20 * time.Second

	// stopLimit is when a stop without other faults must have ended: a node hands over,
	// and waits at most its own stop deadline (15 s by default).
	stopLimit = 25 * time.Second
	second    = time.Second
)

// outage draws the length of an outage: shorter or longer than a lease or
// grace.
func (d *draw) outage() time.Duration {
	around := []time.Duration{nodeLease, check.ClientLease, check.SessionGrace}[d.IntN(3)]
	if d.IntN(2) == 0 {
		return max(500*time.Millisecond, around-d.between(500*time.Millisecond, 2*second))
	}
	return min(LongestOutage, around+d.between(500*time.Millisecond, 4*second))
}

// names returns the nodes of a role in a random order.
func (d *draw) names(role string) (out []testbed.Selector) {
	for _, n := range d.size.NodesOf(role) {
		out = append(out, testbed.Selector(n))
	}
	d.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func (d *draw) one(role string) testbed.Selector { return d.names(role)[0] }

// do adds an action on a node that lasts for a time, and then ends; 0: until the
// storm ends.
func (d *draw) do(verb testbed.Verb, at, length time.Duration, node testbed.Selector) {
	d.at(at, testbed.Step{Verb: verb, Who: node, For: length})
}

// cut cuts the link between two nodes and mends it.
func (d *draw) cut(at, length time.Duration, node, peer testbed.Selector) {
	d.at(at, testbed.Step{Verb: testbed.Cut, Who: node, Whom: peer, For: length})
}

// losslessThemes are the kinds of lossless storms. Offsets, lengths and nodes are
// drawn from the seed.
var losslessThemes = []losslessTheme{
	{"a session freezes during a drain, and the slots come back", freezeDuringDrain},
	{"a session freezes during two drains in a row", freezeDuringTwoDrains},
	{"a follower is drained, then the leader and a session die", func(d *draw) { doubleLoss(d, testbed.Forbid, 6*second, 10*second) }},
	{"a data node stops, then another and a session die", func(d *draw) { doubleLoss(d, testbed.Stop, 12*second, 12*second) }},
	{"the last complete copy is drained, and its leader and a session die", lastCopy},
	{"all sessions are down", func(d *draw) { d.roleAway("session", d.outage(), testbed.Kill) }},
	{"all sessions are down for longer than the grace", func(d *draw) { d.roleAway("session", check.SessionGrace+d.between(second, 5*second), testbed.Kill) }},
	{"all sessions are frozen", func(d *draw) { d.roleAway("session", d.outage(), testbed.Pause) }},
	{"all data nodes are down", func(d *draw) { d.roleAway("data", d.outage(), testbed.Kill) }},
	{"all data nodes are frozen", func(d *draw) { d.roleAway("data", d.outage(), testbed.Pause) }},
	{"all metas are down", func(d *draw) { d.roleAway("meta", d.outage(), testbed.Kill) }},
	{"all metas are frozen, and a node dies", metasFrozen},
	{"power cut of data nodes and sessions", func(d *draw) { powerCut(d, d.outage(), 500*time.Millisecond) }},
	{"power cut of data nodes and sessions, at once", func(d *draw) { powerCut(d, d.between(500*time.Millisecond, 4*second), 0) }},
	{"the last of a role is drained", drainLast},
	{"one session is drained, the other dies", drainOneKillOther},
	{"the leader and a session die", leaderAndSession},
	{"operator acts within a second", actsAtOnce},
	{"every meta quits", everyMetaQuits},
	{"switches are set to extremes", extremeSwitches},
	{"the database is away", databaseAway},
	{"the database is away while nodes die", databaseAwayAndMore},
	{"rolling restart with a frozen node", rolling},
	{"a clean stop of a session", func(d *draw) { d.do(testbed.Stop, 0, stopLimit, d.one("session")) }},
	{"a clean stop of a data node", func(d *draw) { d.do(testbed.Stop, 0, stopLimit, d.one("data")) }},
	{"a clean stop of a meta", func(d *draw) { d.do(testbed.Stop, 0, stopLimit, d.one("meta")) }},
	{"faults at random", atRandom},
	{"more faults at random", atRandom},
	{"links are cut during a drain", cutDuringDrain},
	{"links are cut and slow", linksAtRandom},
}

// freezeDuringDrain: a data node hands its slots over while comparisons with a
// paused session are in progress, and remains as their follower because no
// other node is left; then the slots move back. Data nodes compare their copies
// every six seconds with each session that is not yet lost.
func freezeDuringDrain(d *draw) {
	data := d.names("data")
	d.do(testbed.Kill, 0, 0, data[len(data)-1])
	begin := d.between(5*second, 7*second) // the other nodes have its slots by then
	freeze := d.between(2500*time.Millisecond, 6*second)
	d.do(testbed.Pause, begin, freeze, d.one("session"))
	drain := begin + d.between(200*time.Millisecond, 1500*time.Millisecond)
	allow := max(begin+freeze, drain+3*second) + d.between(300*time.Millisecond, 3*second)
	d.do(testbed.Forbid, drain, allow-drain, data[0])
	d.do(testbed.Start, allow+d.between(4*second, 6*second), 0, data[len(data)-1])
}

// freezeDuringTwoDrains: two nodes are drained at the same time, so that both
// remain as followers of the third; then the third is drained.
func freezeDuringTwoDrains(d *draw) {
	data, freeze := d.names("data"), d.between(2500*time.Millisecond, 6*second)
	d.do(testbed.Pause, 0, freeze, d.one("session"))
	drain := d.between(200*time.Millisecond, 1200*time.Millisecond)
	allow := max(freeze, drain+4*second) + d.between(0, 2*second)
	d.do(testbed.Forbid, drain, allow-drain, data[0])
	d.do(testbed.Forbid, drain+d.between(0, 500*time.Millisecond), allow-drain+d.between(0, 2*second), data[1])
	d.do(testbed.Forbid, allow+d.between(3*second, 5*second), d.between(3*second, 5*second), data[2%len(data)])
}

// doubleLoss: the node that hands its slots over has the only complete copy of some of
// them when their leader and a session die, while it does so or soon after.
func doubleLoss(d *draw, away testbed.Verb, least, most time.Duration) {
	data, session := d.names("data"), d.one("session")
	at := d.between(200*time.Millisecond, 1200*time.Millisecond)
	d.do(away, at, d.between(least, most), data[0])
	loss := at + d.between(0, []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, second}[d.IntN(3)])
	d.do(testbed.Kill, loss, d.between(4*second, 8*second), data[1])
	d.do(testbed.Kill, loss+d.between(0, 300*time.Millisecond), d.between(4*second, 8*second), session)
}

// lastCopy: a restarted data node loads its copies over slow links while the
// node with the only other complete copies is drained or stopped. Then their
// leader dies, and a session to which clients have just moved.
func lastCopy(d *draw) {
	data, session := d.names("data"), d.names("session")
	back := d.between(3*second, 4500*time.Millisecond)
	d.do(testbed.Kill, 0, back, data[2])
	d.do(testbed.Pause, d.between(0, second), d.between(3*second, 4500*time.Millisecond), session[1])
	d.at(back-100*time.Millisecond, testbed.Step{Verb: testbed.Slow, Who: data[1], Whom: data[2], By: d.between(700*time.Millisecond, 1500*time.Millisecond)})
	away := back + d.between(800*time.Millisecond, 2*second)
	if d.IntN(2) == 0 {
		d.do(testbed.Forbid, away, d.between(9*second, 12*second), data[0])
	} else {
		d.do(testbed.Stop, away, 14*second, data[0])
	}
	loss := away + d.between(300*time.Millisecond, 700*time.Millisecond)
	d.do(testbed.Kill, loss, d.between(6*second, 9*second), data[1])
	d.do(testbed.Kill, loss+d.between(0, 150*time.Millisecond), d.between(5*second, 8*second), session[0])
	d.at(back+8*second, testbed.Step{Verb: testbed.Mend, Who: data[1], Whom: data[2]})
}

// roleAway takes away every node of a role at about the same time.
func (d *draw) roleAway(role string, length time.Duration, verb testbed.Verb) {
	for _, node := range d.names(role) {
		d.do(verb, d.between(0, 400*time.Millisecond), length+d.between(0, 800*time.Millisecond), node)
	}
}

func metasFrozen(d *draw) {
	length := d.outage()
	d.roleAway("meta", length, testbed.Pause)
	d.do(testbed.Kill, d.between(0, length), d.between(second, 5*second), d.one([]string{"session", "data"}[d.IntN(2)]))
}

// powerCut takes away the data nodes and sessions, all within a time, and brings them
// back within four times that; the metas and the clients stay.
func powerCut(d *draw, length, within time.Duration) {
	for _, node := range append(d.names("data"), d.names("session")...) {
		d.do(testbed.Kill, d.between(0, within), length+d.between(0, 4*within), node)
	}
}

// drainLast drains all nodes of a role; the last drains may be refused.
func drainLast(d *draw) {
	role, verb := []string{"session", "session", "data", "meta"}[d.IntN(4)], testbed.Forbid
	if role == "meta" {
		verb = testbed.Quit
	}
	at := time.Duration(0)
	for _, n := range d.names(role) {
		d.do(verb, at, 0, n)
		at += d.between(100*time.Millisecond, 2*second)
	}
}

func drainOneKillOther(d *draw) {
	s := d.names("session")
	d.do(testbed.Forbid, 0, 0, s[0])
	kill := d.between(500*time.Millisecond, 3*second)
	for _, other := range s[1:] {
		d.do(testbed.Kill, kill, 0, other)
	}
}

func leaderAndSession(d *draw) {
	d.do(testbed.Kill, 0, d.between(2*second, 8*second), "leader")
	d.do(testbed.Kill, d.between(0, second), d.between(2*second, 8*second), d.one("session"))
	if d.IntN(2) == 0 {
		d.do(testbed.Kill, d.between(0, 3*second), d.between(2*second, 8*second), d.one("data"))
	}
}

// actsAtOnce runs two to five operator commands within a second.
func actsAtOnce(d *draw) {
	data, session, meta := d.names("data"), d.names("session"), d.names("meta")
	acts := []func(at time.Duration){
		func(at time.Duration) { d.do(testbed.Forbid, at, d.between(4*second, 8*second), data[0]) },
		func(at time.Duration) { d.do(testbed.Forbid, at, d.between(4*second, 8*second), data[1]) },
		func(at time.Duration) { d.do(testbed.Forbid, at, d.between(4*second, 8*second), session[0]) },
		func(at time.Duration) { d.do(testbed.Resign, at, 0, "leader") },
		func(at time.Duration) {
			d.do(testbed.Quit, at, d.between(3*second, 8*second), meta[0])
		},
		func(at time.Duration) {
			d.at(at, testbed.Step{Verb: testbed.Freeze, For: d.between(second, 5*second)})
		},
	}
	d.Shuffle(len(acts), func(i, j int) { acts[i], acts[j] = acts[j], acts[i] })
	for _, act := range acts[:2+d.IntN(4)] {
		act(d.between(0, second))
	}
}

func everyMetaQuits(d *draw) {
	metas, apart := d.names("meta"), d.between(0, second)
	for i, m := range metas {
		d.do(testbed.Quit, time.Duration(i)*apart, 0, m)
	}
}

func extremeSwitches(d *draw) {
	d.at(0, testbed.Step{Verb: testbed.Switch, Who: []testbed.Selector{"protection-floor", "push-window-ms"}[d.IntN(2)], Whom: "1000000"})
	if d.IntN(2) == 0 {
		d.do(testbed.Kill, d.between(200*time.Millisecond, second), 3*second, d.one("data"))
	}
}

func databaseAway(d *draw) {
	d.do([]testbed.Verb{testbed.Kill, testbed.Pause}[d.IntN(2)], 0, d.outage(), testbed.Database)
	d.do(testbed.Forbid, d.between(0, 2*second), d.between(5*second, 9*second), d.one("data"))
}

func databaseAwayAndMore(d *draw) {
	length := d.outage()
	d.do(testbed.Pause, 0, length, testbed.Database)
	d.do(testbed.Kill, d.between(0, length), d.between(second, 6*second), d.one("data"))
	if d.IntN(2) == 0 {
		d.do(testbed.Kill, d.between(0, length), d.between(second, 6*second), "leader")
	}
}

func rolling(d *draw) {
	nodes := d.names([]string{"data", "session", "meta"}[d.IntN(3)])
	at := time.Duration(0)
	for _, n := range nodes {
		away := d.between(second, 4*second)
		d.do(testbed.Stop, at, away, n)
		at += away + d.between(200*time.Millisecond, 2*second)
	}
	d.do(testbed.Pause, d.between(0, at), d.between(second, 6*second), d.one([]string{"data", "session", "meta"}[d.IntN(3)]))
}

// atRandom overlaps two to four faults and commands. No data node is paused
// here: if a session and a slot's leader die while the follower is paused,
// withdrawals are lost, which ARCHITECTURE.md lists as not guaranteed.
func atRandom(d *draw) {
	data, session := d.names("data"), d.names("session")
	all := []func(at time.Duration){
		func(at time.Duration) { d.do(testbed.Kill, at, d.outage(), data[0]) },
		func(at time.Duration) { d.do(testbed.Kill, at, d.outage(), session[0]) },
		func(at time.Duration) { d.do(testbed.Pause, at, d.outage(), session[1%len(session)]) },
		func(at time.Duration) { d.do(testbed.Kill, at, d.outage(), "leader") },
		func(at time.Duration) { d.do(testbed.Pause, at, d.outage(), "leader") },
		func(at time.Duration) { d.do(testbed.Pause, at, d.outage(), testbed.Database) },
		func(at time.Duration) { d.do(testbed.Forbid, at, d.between(2*second, 12*second), data[1]) },
		func(at time.Duration) { d.do(testbed.Forbid, at, d.between(2*second, 12*second), session[0]) },
		func(at time.Duration) { d.do(testbed.Resign, at, 0, "leader") },
	}
	d.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, fault := range all[:2+d.IntN(3)] {
		fault(d.between(0, 6*second))
	}
}

// cutDuringDrain cuts a data node from one session or from another data node
// while it hands its slots over.
func cutDuringDrain(d *draw) {
	data, peer := d.names("data"), d.one("session")
	if d.IntN(2) == 0 {
		peer = data[1]
	}
	d.cut(0, d.between(2*second, 8*second), data[0], peer)
	d.do(testbed.Forbid, d.between(200*time.Millisecond, 2*second), d.between(3*second, 8*second), data[0])
}

func linksAtRandom(d *draw) {
	data, session, meta := d.names("data"), d.names("session"), d.names("meta")
	all := []func(at time.Duration){
		func(at time.Duration) { d.cut(at, d.outage(), meta[0], testbed.Database) },
		func(at time.Duration) { d.cut(at, d.outage(), "leader", testbed.Database) },
		func(at time.Duration) { d.cut(at, d.outage(), data[0], meta[0]) },
		func(at time.Duration) { d.cut(at, d.outage(), data[0], session[0]) },
		func(at time.Duration) { d.cut(at, d.outage(), session[0], meta[1%len(meta)]) },
		func(at time.Duration) { d.at(at, testbed.Step{Verb: testbed.Reset, Who: data[1], Whom: session[0]}) },
		func(at time.Duration) {
			by := d.between(100*time.Millisecond, 400*time.Millisecond)
			d.at(at, testbed.Step{Verb: testbed.Slow, Who: data[1], Whom: session[0], By: by})
			d.at(at+d.outage(), testbed.Step{Verb: testbed.Mend, Who: data[1], Whom: session[0]})
		},
	}
	d.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, fault := range all[:1+d.IntN(3)] {
		fault(d.between(0, 4*second))
	}
	d.do(testbed.Forbid, d.between(0, 4*second), d.between(2*second, 6*second), data[2%len(data)])
}
