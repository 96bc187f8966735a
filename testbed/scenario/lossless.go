package scenario

import (
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
		var round []theme
		for n, idle := 1, 0; idle < 2; n++ {
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			if len(round) == 0 {
				round = slices.DeleteFunc(slices.Clone(losslessThemes), func(t theme) bool { return !strings.Contains(t.about, only) })
				r.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
				idle++ // a round without a possible storm is the last
			}
			if len(round) == 0 {
				return
			}
			s := Scenario{Name: fmt.Sprintf("storm-%d-%d", seed, n), About: fmt.Sprintf("Storm %d of seed %d.", n, seed), Cluster: size}
			b := &stormBuilder{Rand: r, s: &s, on: on}
			t := round[0]
			round = round[1:]
			if t.build(b); b.impossible {
				continue
			}
			idle = 0
			s.sort()
			for i := range s.Lines {
				s.Lines[i].Scene = 1
			}
			s.Scenes = []Scene{{Title: t.about, Until: last(s.Lines) + 2*time.Second}}
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

// away draws the length of an outage: shorter or longer than a lease or
// grace.
func (b *stormBuilder) away() time.Duration {
	around := []time.Duration{nodeLease, check.ClientLease, check.SessionGrace}[b.IntN(3)]
	if b.IntN(2) == 0 {
		return max(500*time.Millisecond, around-b.between(500*time.Millisecond, 2*second))
	}
	return min(LongestOutage, around+b.between(500*time.Millisecond, 4*second))
}

// losslessThemes are the kinds of lossless storms. Offsets, lengths and nodes are
// drawn from the seed.
var losslessThemes = []theme{
	// A data node hands its slots over while comparisons with a paused session are in
	// progress, and remains as their follower because no other node is left; then the
	// slots move back. Data nodes compare their copies every six seconds with each
	// session that is not yet lost.
	{"a session freezes during a drain, and the slots come back", func(b *stormBuilder) {
		data := b.names("data")
		b.do(0, testbed.Kill, data[len(data)-1], 0)
		begin := b.between(5*second, 7*second) // the other nodes have its slots by then
		freeze := b.between(2500*time.Millisecond, 6*second)
		b.do(begin, testbed.Pause, b.any("session"), freeze)
		drain := begin + b.between(200*time.Millisecond, 1500*time.Millisecond)
		allow := max(begin+freeze, drain+3*second) + b.between(300*time.Millisecond, 3*second)
		b.do(drain, testbed.Forbid, data[0], allow-drain)
		b.do(allow+b.between(4*second, 6*second), testbed.Start, data[len(data)-1], 0)
	}},
	// Two nodes are drained at the same time, so that both remain as followers of the
	// third; then the third is drained.
	{"a session freezes during two drains in a row", func(b *stormBuilder) {
		data, freeze := b.names("data"), b.between(2500*time.Millisecond, 6*second)
		b.do(0, testbed.Pause, b.any("session"), freeze)
		drain := b.between(200*time.Millisecond, 1200*time.Millisecond)
		allow := max(freeze, drain+4*second) + b.between(0, 2*second)
		b.do(drain, testbed.Forbid, data[0], allow-drain)
		b.do(drain+b.between(0, 500*time.Millisecond), testbed.Forbid, data[1], allow-drain+b.between(0, 2*second))
		b.do(allow+b.between(3*second, 5*second), testbed.Forbid, data[2%len(data)], b.between(3*second, 5*second))
	}},
	{"a follower is drained, then the leader and a session die", func(b *stormBuilder) { doubleLoss(b, testbed.Forbid, 6*second, 10*second) }},
	{"a data node stops, then another and a session die", func(b *stormBuilder) { doubleLoss(b, testbed.Stop, 12*second, 12*second) }},
	// A restarted data node loads its copies over slow links while the node with the only
	// other complete copies is drained or stopped. Then their leader dies, and a session
	// to which clients have just moved.
	{"the last complete copy is drained, and its leader and a session die", func(b *stormBuilder) {
		data, session := b.names("data"), b.names("session")
		back := b.between(3*second, 4500*time.Millisecond)
		b.do(0, testbed.Kill, data[2], back)
		b.do(b.between(0, second), testbed.Pause, session[1], b.between(3*second, 4500*time.Millisecond))
		b.add(back-100*time.Millisecond, testbed.Step{Verb: testbed.Slow, Who: data[1], Whom: data[2], By: b.between(700*time.Millisecond, 1500*time.Millisecond)})
		away := back + b.between(800*time.Millisecond, 2*second)
		if b.IntN(2) == 0 {
			b.do(away, testbed.Forbid, data[0], b.between(9*second, 12*second))
		} else {
			b.do(away, testbed.Stop, data[0], 14*second)
		}
		loss := away + b.between(300*time.Millisecond, 700*time.Millisecond)
		b.do(loss, testbed.Kill, data[1], b.between(6*second, 9*second))
		b.do(loss+b.between(0, 150*time.Millisecond), testbed.Kill, session[0], b.between(5*second, 8*second))
		b.add(back+8*second, testbed.Step{Verb: testbed.Mend, Who: data[1], Whom: data[2]})
	}},
	{"all sessions are down", func(b *stormBuilder) { b.roleAway("session", b.away(), testbed.Kill) }},
	{"all sessions are down for longer than the grace", func(b *stormBuilder) {
		b.roleAway("session", check.SessionGrace+b.between(second, 5*second), testbed.Kill)
	}},
	{"all sessions are frozen", func(b *stormBuilder) { b.roleAway("session", b.away(), testbed.Pause) }},
	{"all data nodes are down", func(b *stormBuilder) { b.roleAway("data", b.away(), testbed.Kill) }},
	{"all data nodes are frozen", func(b *stormBuilder) { b.roleAway("data", b.away(), testbed.Pause) }},
	{"all metas are down", func(b *stormBuilder) { b.roleAway("meta", b.away(), testbed.Kill) }},
	{"all metas are frozen, and a node dies", func(b *stormBuilder) {
		length := b.away()
		b.roleAway("meta", length, testbed.Pause)
		b.do(b.between(0, length), testbed.Kill, b.any([]string{"session", "data"}[b.IntN(2)]), b.between(second, 5*second))
	}},
	{"power cut of data nodes and sessions", func(b *stormBuilder) { powerCut(b, b.away(), 500*time.Millisecond) }},
	{"power cut of data nodes and sessions, at once", func(b *stormBuilder) { powerCut(b, b.between(500*time.Millisecond, 4*second), 0) }},
	// The last drains may be refused.
	{"the last of a role is drained", func(b *stormBuilder) {
		role, verb := []string{"session", "session", "data", "meta"}[b.IntN(4)], testbed.Forbid
		if role == "meta" {
			verb = testbed.Quit
		}
		at := time.Duration(0)
		for _, n := range b.names(role) {
			b.do(at, verb, n, 0)
			at += b.between(100*time.Millisecond, 2*second)
		}
	}},
	{"one session is drained, the other dies", func(b *stormBuilder) {
		s := b.names("session")
		b.do(0, testbed.Forbid, s[0], 0)
		kill := b.between(500*time.Millisecond, 3*second)
		for _, other := range s[1:] {
			b.do(kill, testbed.Kill, other, 0)
		}
	}},
	{"the leader and a session die", func(b *stormBuilder) {
		b.do(0, testbed.Kill, "leader", b.between(2*second, 8*second))
		b.do(b.between(0, second), testbed.Kill, b.any("session"), b.between(2*second, 8*second))
		if b.IntN(2) == 0 {
			b.do(b.between(0, 3*second), testbed.Kill, b.any("data"), b.between(2*second, 8*second))
		}
	}},
	{"operator acts within a second", func(b *stormBuilder) {
		data, session, meta := b.names("data"), b.names("session"), b.names("meta")
		acts := []func(at time.Duration){
			func(at time.Duration) { b.do(at, testbed.Forbid, data[0], b.between(4*second, 8*second)) },
			func(at time.Duration) { b.do(at, testbed.Forbid, data[1], b.between(4*second, 8*second)) },
			func(at time.Duration) { b.do(at, testbed.Forbid, session[0], b.between(4*second, 8*second)) },
			func(at time.Duration) { b.do(at, testbed.Resign, "leader", 0) },
			func(at time.Duration) { b.do(at, testbed.Quit, meta[0], b.between(3*second, 8*second)) },
			func(at time.Duration) {
				b.add(at, testbed.Step{Verb: testbed.Freeze, For: b.between(second, 5*second)})
			},
		}
		b.some(acts, 2, 5, second)
	}},
	{"every meta quits", func(b *stormBuilder) {
		metas, apart := b.names("meta"), b.between(0, second)
		for i, m := range metas {
			b.do(time.Duration(i)*apart, testbed.Quit, m, 0)
		}
	}},
	{"switches are set to extremes", func(b *stormBuilder) {
		b.add(0, testbed.Step{Verb: testbed.Switch, Who: []testbed.Selector{"protection-floor", "push-window-ms"}[b.IntN(2)], Whom: "1000000"})
		if b.IntN(2) == 0 {
			b.do(b.between(200*time.Millisecond, second), testbed.Kill, b.any("data"), 3*second)
		}
	}},
	{"the database is away", func(b *stormBuilder) {
		b.do(0, []testbed.Verb{testbed.Kill, testbed.Pause}[b.IntN(2)], testbed.Database, b.away())
		b.do(b.between(0, 2*second), testbed.Forbid, b.any("data"), b.between(5*second, 9*second))
	}},
	{"the database is away while nodes die", func(b *stormBuilder) {
		length := b.away()
		b.do(0, testbed.Pause, testbed.Database, length)
		b.do(b.between(0, length), testbed.Kill, b.any("data"), b.between(second, 6*second))
		if b.IntN(2) == 0 {
			b.do(b.between(0, length), testbed.Kill, "leader", b.between(second, 6*second))
		}
	}},
	{"rolling restart with a frozen node", func(b *stormBuilder) {
		nodes := b.names([]string{"data", "session", "meta"}[b.IntN(3)])
		at := time.Duration(0)
		for _, n := range nodes {
			away := b.between(second, 4*second)
			b.do(at, testbed.Stop, n, away)
			at += away + b.between(200*time.Millisecond, 2*second)
		}
		b.do(b.between(0, at), testbed.Pause, b.any([]string{"data", "session", "meta"}[b.IntN(3)]), b.between(second, 6*second))
	}},
	{"a clean stop of a session", func(b *stormBuilder) { b.do(0, testbed.Stop, b.any("session"), stopLimit) }},
	{"a clean stop of a data node", func(b *stormBuilder) { b.do(0, testbed.Stop, b.any("data"), stopLimit) }},
	{"a clean stop of a meta", func(b *stormBuilder) { b.do(0, testbed.Stop, b.any("meta"), stopLimit) }},
	{"faults at random", atRandom},
	{"more faults at random", atRandom},
	// A data node is cut from one session or from another data node.
	{"links are cut during a drain", func(b *stormBuilder) {
		data, peer := b.names("data"), b.any("session")
		if b.IntN(2) == 0 {
			peer = data[1]
		}
		b.add(0, testbed.Step{Verb: testbed.Cut, Who: data[0], Whom: peer, For: b.between(2*second, 8*second)})
		b.do(b.between(200*time.Millisecond, 2*second), testbed.Forbid, data[0], b.between(3*second, 8*second))
	}},
	{"links are cut and slow", func(b *stormBuilder) {
		data, session, meta := b.names("data"), b.names("session"), b.names("meta")
		cut := func(who, whom testbed.Selector) func(time.Duration) {
			return func(at time.Duration) {
				b.add(at, testbed.Step{Verb: testbed.Cut, Who: who, Whom: whom, For: b.away()})
			}
		}
		all := []func(at time.Duration){
			cut(meta[0], testbed.Database), cut("leader", testbed.Database),
			cut(data[0], meta[0]), cut(data[0], session[0]), cut(session[0], meta[1%len(meta)]),
			func(at time.Duration) { b.add(at, testbed.Step{Verb: testbed.Reset, Who: data[1], Whom: session[0]}) },
			func(at time.Duration) {
				by := b.between(100*time.Millisecond, 400*time.Millisecond)
				b.add(at, testbed.Step{Verb: testbed.Slow, Who: data[1], Whom: session[0], By: by})
				b.add(at+b.away(), testbed.Step{Verb: testbed.Mend, Who: data[1], Whom: session[0]})
			},
		}
		b.some(all, 1, 3, 4*second)
		b.do(b.between(0, 4*second), testbed.Forbid, data[2%len(data)], b.between(2*second, 6*second))
	}},
}

// doubleLoss: the node that hands its slots over has the only complete copy of some of
// them when their leader and a session die, while it does so or soon after.
func doubleLoss(b *stormBuilder, away testbed.Verb, least, most time.Duration) {
	data, session := b.names("data"), b.any("session")
	at := b.between(200*time.Millisecond, 1200*time.Millisecond)
	b.do(at, away, data[0], b.between(least, most))
	loss := at + b.between(0, []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, second}[b.IntN(3)])
	b.do(loss, testbed.Kill, data[1], b.between(4*second, 8*second))
	b.do(loss+b.between(0, 300*time.Millisecond), testbed.Kill, session, b.between(4*second, 8*second))
}

// roleAway takes away every node of a role at about the same time.
func (b *stormBuilder) roleAway(role string, length time.Duration, verb testbed.Verb) {
	for _, node := range b.names(role) {
		b.do(b.between(0, 400*time.Millisecond), verb, node, length+b.between(0, 800*time.Millisecond))
	}
}

// powerCut takes away the data nodes and sessions, all within a time, and brings them
// back within four times that; the metas and the clients stay.
func powerCut(b *stormBuilder, length, within time.Duration) {
	for _, node := range append(b.names("data"), b.names("session")...) {
		b.do(b.between(0, within), testbed.Kill, node, length+b.between(0, 4*within))
	}
}

// some does at least and at most so many of the acts, each at a moment within a time.
func (b *stormBuilder) some(acts []func(at time.Duration), least, most int, within time.Duration) {
	b.Shuffle(len(acts), func(i, j int) { acts[i], acts[j] = acts[j], acts[i] })
	for _, act := range acts[:least+b.IntN(most-least+1)] {
		act(b.between(0, within))
	}
}

// atRandom overlaps two to four faults and commands. No data node is paused
// here: if a session and a slot's leader die while the follower is paused,
// withdrawals are lost, which ARCHITECTURE.md lists as not guaranteed.
func atRandom(b *stormBuilder) {
	data, session := b.names("data"), b.names("session")
	all := []func(at time.Duration){
		func(at time.Duration) { b.do(at, testbed.Kill, data[0], b.away()) },
		func(at time.Duration) { b.do(at, testbed.Kill, session[0], b.away()) },
		func(at time.Duration) { b.do(at, testbed.Pause, session[1%len(session)], b.away()) },
		func(at time.Duration) { b.do(at, testbed.Kill, "leader", b.away()) },
		func(at time.Duration) { b.do(at, testbed.Pause, "leader", b.away()) },
		func(at time.Duration) { b.do(at, testbed.Pause, testbed.Database, b.away()) },
		func(at time.Duration) { b.do(at, testbed.Forbid, data[1], b.between(2*second, 12*second)) },
		func(at time.Duration) { b.do(at, testbed.Forbid, session[0], b.between(2*second, 12*second)) },
		func(at time.Duration) { b.do(at, testbed.Resign, "leader", 0) },
	}
	b.some(all, 2, 4, 6*second)
}
