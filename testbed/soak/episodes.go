package soak

import (
	"strings"
	"time"

	"conclave/testbed"
)

// shape is a kind of episode.
type shape struct {
	name  string
	links bool // whether it needs links between two given nodes to be cut
	make  func(*draw)
}

const second = time.Second

// shapes are all kinds of episodes. Offsets, lengths and nodes are drawn from
// the seed.
var shapes = []shape{
	{name: "a session freezes during a drain, and the slots come back", make: freezeDuringDrain},
	{name: "a session freezes during two drains in a row", make: freezeDuringTwoDrains},
	{name: "a follower is drained, then the leader and a session die", make: drainThenDoubleLoss},
	{name: "a data node stops, then another and a session die", make: stopThenDoubleLoss},
	{name: "the last complete copy is drained, and its leader and a session die", links: true, make: lastCopy},
	{name: "all sessions are down", make: func(d *draw) { d.roleDown("session") }},
	{name: "all sessions are down for longer than the grace", make: func(d *draw) { d.roleAway("session", sessionGrace+d.between(second, 5*second), d.down) }},
	{name: "all sessions are frozen", make: func(d *draw) { d.roleFrozen("session") }},
	{name: "all data nodes are down", make: func(d *draw) { d.roleDown("data") }},
	{name: "all data nodes are frozen", make: func(d *draw) { d.roleFrozen("data") }},
	{name: "all metas are down", make: func(d *draw) { d.roleDown("meta") }},
	{name: "all metas are frozen, and a node dies", make: metasFrozen},
	{name: "power cut of data nodes and sessions", make: powerCut},
	{name: "power cut of data nodes and sessions, at once", make: powerCutAtOnce},
	{name: "the last of a role is drained", make: drainLast},
	{name: "one session is drained, the other dies", make: drainOneKillOther},
	{name: "the leader and a session die", make: leaderAndSession},
	{name: "operator acts within a second", make: actsAtOnce},
	{name: "every meta quits", make: everyMetaQuits},
	{name: "switches are set to extremes", make: extremeSwitches},
	{name: "the database is away", make: databaseAway},
	{name: "the database is away while nodes die", make: databaseAwayAndMore},
	{name: "rolling restart with a frozen node", make: rolling},
	{name: "clean stops, one after the other", make: cleanStops},
	{name: "faults at random", make: atRandom},
	{name: "more faults at random", make: atRandom},
	{name: "links are cut during a drain", links: true, make: cutDuringDrain},
	{name: "links are cut and slow", links: true, make: linksAtRandom},
}

// freezeDuringDrain: a data node hands its slots over while comparisons with a
// paused session are in progress, and remains as their follower because no
// other node is left. Visitors withdraw; then the slots move back. Data nodes
// compare their copies every six seconds with each session that is not yet
// lost.
func freezeDuringDrain(d *draw) {
	data := d.names("data")
	d.at(0, Step{Act: testbed.Kill, Node: data[len(data)-1]})
	begin := d.between(5*second, 7*second) // the other nodes have its slots by then
	freeze := d.between(2500*time.Millisecond, 6*second)
	d.frozen(begin, freeze, d.one("session"))
	drain := begin + d.between(200*time.Millisecond, 1500*time.Millisecond)
	allow := max(begin+freeze, drain+3*second) + d.between(300*time.Millisecond, 3*second)
	d.drained(drain, allow-drain, data[0])
	d.at(allow-d.between(200*time.Millisecond, second), Step{Act: Leave, Count: 12})
	d.at(allow+d.between(4*second, 6*second), Step{Act: testbed.Start, Node: data[len(data)-1]})
}

// freezeDuringTwoDrains: two nodes are drained at the same time, so that both
// remain as followers of the third; then the third is drained.
func freezeDuringTwoDrains(d *draw) {
	data, freeze := d.names("data"), d.between(2500*time.Millisecond, 6*second)
	d.frozen(0, freeze, d.one("session"))
	drain := d.between(200*time.Millisecond, 1200*time.Millisecond)
	allow := max(freeze, drain+4*second) + d.between(0, 2*second)
	d.drained(drain, allow-drain, data[0])
	d.drained(drain+d.between(0, 500*time.Millisecond), allow-drain+d.between(0, 2*second), data[1])
	d.at(allow-d.between(200*time.Millisecond, second), Step{Act: Leave, Count: 12})
	d.drained(allow+d.between(3*second, 5*second), d.between(3*second, 5*second), data[2%len(data)])
}

// drainThenDoubleLoss: the node that is being drained has the only complete
// copy of some slots when their leader and a session die.
func drainThenDoubleLoss(d *draw) {
	data, session := d.names("data"), d.one("session")
	d.at(0, Step{Act: Leave, Count: 12})
	drain := d.between(200*time.Millisecond, 1200*time.Millisecond)
	d.drained(drain, d.between(6*second, 10*second), data[0])
	loss := drain + d.soon()
	d.down(loss, d.between(4*second, 8*second), data[1])
	d.down(loss+d.between(0, 300*time.Millisecond), d.between(4*second, 8*second), session)
}

// lastCopy: a restarted data node loads its copies over slow links while the
// node with the only other complete copies is drained or stopped. Then their
// leader dies, and a session to which clients have just moved.
func lastCopy(d *draw) {
	data, session := d.names("data"), d.names("session")
	back := d.between(3*second, 4500*time.Millisecond)
	d.down(0, back, data[2])
	d.frozen(d.between(0, second), d.between(3*second, 4500*time.Millisecond), session[1])
	d.at(back-100*time.Millisecond, Step{Act: testbed.Slow, Node: data[1], Peer: data[2], By: d.between(700*time.Millisecond, 1500*time.Millisecond)})
	away := back + d.between(800*time.Millisecond, 2*second)
	if d.IntN(2) == 0 {
		d.drained(away, d.between(9*second, 12*second), data[0])
	} else {
		d.at(away, Step{Act: testbed.Stop, Node: data[0]})
		d.at(away+14*second, Step{Act: testbed.Start, Node: data[0]})
	}
	d.at(away+d.between(50*time.Millisecond, 250*time.Millisecond), Step{Act: Leave, Count: 16})
	loss := away + d.between(300*time.Millisecond, 700*time.Millisecond)
	d.down(loss, d.between(6*second, 9*second), data[1])
	d.down(loss+d.between(0, 150*time.Millisecond), d.between(5*second, 8*second), session[0])
	d.at(back+8*second, Step{Act: testbed.Mend, Node: data[1], Peer: data[2]})
}

func stopThenDoubleLoss(d *draw) {
	data, session := d.names("data"), d.one("session")
	d.at(0, Step{Act: Leave, Count: 12})
	stop := d.between(200*time.Millisecond, time.Second)
	d.at(stop, Step{Act: testbed.Stop, Node: data[0]})
	loss := stop + d.soon()
	d.down(loss, d.between(4*second, 8*second), data[1])
	d.down(loss+d.between(0, 300*time.Millisecond), d.between(4*second, 8*second), session)
	d.at(stop+12*second, Step{Act: testbed.Start, Node: data[0]})
}

// soon draws an offset from the beginning of a hand-over: while it is in
// progress, or up to a second later.
func (d *draw) soon() time.Duration {
	return []time.Duration{d.between(0, 200*time.Millisecond), d.between(100*time.Millisecond, 400*time.Millisecond), d.between(0, second)}[d.IntN(3)]
}

// roleAway takes away every node of a role at about the same time.
func (d *draw) roleAway(role string, length time.Duration, away func(at, length time.Duration, node string)) {
	for _, node := range d.names(role) {
		away(d.between(0, 400*time.Millisecond), length+d.between(0, 800*time.Millisecond), node)
	}
	if d.IntN(2) == 0 {
		d.at(d.between(0, length), Step{Act: Leave, Count: 4})
	}
}

func (d *draw) roleDown(role string)   { d.roleAway(role, d.outage(), d.down) }
func (d *draw) roleFrozen(role string) { d.roleAway(role, d.outage(), d.frozen) }

func metasFrozen(d *draw) {
	length := d.outage()
	d.roleAway("meta", length, d.frozen)
	d.down(d.between(0, length), d.between(second, 5*second), d.one([]string{"session", "data"}[d.IntN(2)]))
}

// powerCut takes away the data nodes and sessions; the metas and the clients
// stay.
func powerCut(d *draw) {
	length := d.outage()
	for _, role := range []string{"data", "session"} {
		for _, node := range d.names(role) {
			d.down(d.between(0, 500*time.Millisecond), length+d.between(0, 2*second), node)
		}
	}
}

func powerCutAtOnce(d *draw) {
	length := d.between(500*time.Millisecond, 4*second)
	for _, role := range []string{"data", "session"} {
		for _, node := range d.names(role) {
			d.down(0, length, node)
		}
	}
}

// drainLast drains all nodes of a role; the last drains may be refused.
func drainLast(d *draw) {
	nodes := d.names([]string{"session", "session", "data", "meta"}[d.IntN(4)])
	at := time.Duration(0)
	for _, n := range nodes {
		d.at(at, Step{Act: Drain, Node: n})
		at += d.between(100*time.Millisecond, 2*second)
	}
	at += d.between(second, 3*second)
	d.at(at, Step{Act: Serve})
	for _, n := range nodes {
		d.at(at+second, Step{Act: testbed.Allow, Node: n})
	}
}

func drainOneKillOther(d *draw) {
	s := d.names("session")
	d.at(0, Step{Act: Drain, Node: s[0]})
	kill := d.between(500*time.Millisecond, 3*second)
	for _, other := range s[1:] {
		d.at(kill, Step{Act: testbed.Kill, Node: other})
	}
	d.at(kill+second, Step{Act: Serve})
	for _, other := range s[1:] {
		d.at(kill+2*second, Step{Act: testbed.Start, Node: other})
	}
	d.at(kill+3*second, Step{Act: testbed.Allow, Node: s[0]})
}

func leaderAndSession(d *draw) {
	d.down(0, d.between(2*second, 8*second), "leader")
	d.down(d.between(0, second), d.between(2*second, 8*second), d.one("session"))
	if d.IntN(2) == 0 {
		d.down(d.between(0, 3*second), d.between(2*second, 8*second), d.one("data"))
	}
}

// actsAtOnce runs two to five operator commands within a second.
func actsAtOnce(d *draw) {
	data, session, meta := d.names("data"), d.names("session"), d.names("meta")
	acts := []func(at time.Duration){
		func(at time.Duration) { d.drained(at, d.between(4*second, 8*second), data[0]) },
		func(at time.Duration) { d.drained(at, d.between(4*second, 8*second), data[1]) },
		func(at time.Duration) { d.drained(at, d.between(4*second, 8*second), session[0]) },
		func(at time.Duration) { d.at(at, Step{Act: testbed.Resign}) },
		func(at time.Duration) {
			d.at(at, Step{Act: testbed.Quit, Node: meta[0]})
			d.at(at+d.between(3*second, 8*second), Step{Act: testbed.Join, Node: meta[0]})
		},
		func(at time.Duration) {
			d.at(at, Step{Act: testbed.Switch, Key: "arrange", Value: "off"})
			d.at(at+d.between(second, 5*second), Step{Act: testbed.Switch, Key: "arrange", Value: "on"})
		},
	}
	d.Shuffle(len(acts), func(i, j int) { acts[i], acts[j] = acts[j], acts[i] })
	for _, act := range acts[:2+d.IntN(4)] {
		act(d.between(0, second))
	}
	d.at(9*second, Step{Act: Serve})
}

func everyMetaQuits(d *draw) {
	metas, apart := d.names("meta"), d.between(0, second)
	for i, m := range metas {
		d.at(time.Duration(i)*apart, Step{Act: testbed.Quit, Node: m})
	}
	at := time.Duration(len(metas))*apart + 2*second
	d.at(at, Step{Act: Serve})
	for _, m := range metas {
		d.at(at+second, Step{Act: testbed.Join, Node: m})
	}
}

func extremeSwitches(d *draw) {
	all := []struct{ key, extreme, usual string }{
		{"protection-floor", "1000000", "0"}, {"push-window-ms", "1000000", "10"},
	}
	s := all[d.IntN(len(all))]
	d.at(0, Step{Act: testbed.Switch, Key: s.key, Value: s.extreme})
	if d.IntN(2) == 0 {
		d.down(d.between(200*time.Millisecond, second), 3*second, d.one("data"))
	}
	d.at(5*second, Step{Act: Serve})
	d.at(6*second, Step{Act: testbed.Switch, Key: s.key, Value: s.usual})
}

func databaseAway(d *draw) {
	if d.IntN(2) == 0 {
		d.down(0, d.outage(), testbed.Database)
	} else {
		d.frozen(0, d.outage(), testbed.Database)
	}
	d.drained(d.between(0, 2*second), d.between(5*second, 9*second), d.one("data"))
}

func databaseAwayAndMore(d *draw) {
	length := d.outage()
	d.frozen(0, length, testbed.Database)
	d.down(d.between(0, length), d.between(second, 6*second), d.one("data"))
	if d.IntN(2) == 0 {
		d.down(d.between(0, length), d.between(second, 6*second), "leader")
	}
}

func rolling(d *draw) {
	nodes := d.names([]string{"data", "session", "meta"}[d.IntN(3)])
	at := time.Duration(0)
	for _, n := range nodes {
		d.at(at, Step{Act: testbed.Stop, Node: n})
		at += d.between(second, 4*second)
		d.at(at, Step{Act: testbed.Start, Node: n})
		at += d.between(200*time.Millisecond, 2*second)
	}
	d.frozen(d.between(0, at), d.between(second, 6*second), d.one([]string{"data", "session", "meta"}[d.IntN(3)]))
}

// cleanStops stops one node of each role without other faults.
func cleanStops(d *draw) {
	at := time.Duration(0)
	for _, role := range []string{"session", "data", "meta"} {
		n := d.one(role)
		d.at(at, Step{Act: testbed.Stop, Node: n, Clean: true})
		at += 8 * second
		d.at(at, Step{Act: testbed.Start, Node: n})
		at += 3 * second
	}
}

// atRandom overlaps two to four faults and commands. No data node is paused
// here: if a session and a slot's leader die while the follower is paused,
// withdrawals are lost, which ARCHITECTURE.md lists as not guaranteed.
func atRandom(d *draw) {
	data, session := d.names("data"), d.names("session")
	all := []func(at time.Duration){
		func(at time.Duration) { d.down(at, d.outage(), data[0]) },
		func(at time.Duration) { d.down(at, d.outage(), session[0]) },
		func(at time.Duration) { d.frozen(at, d.outage(), session[1%len(session)]) },
		func(at time.Duration) { d.down(at, d.outage(), "leader") },
		func(at time.Duration) { d.frozen(at, d.outage(), "leader") },
		func(at time.Duration) { d.frozen(at, d.outage(), testbed.Database) },
		func(at time.Duration) { d.drained(at, d.between(2*second, 12*second), data[1]) },
		func(at time.Duration) { d.drained(at, d.between(2*second, 12*second), session[0]) },
		func(at time.Duration) { d.at(at, Step{Act: testbed.Resign}) },
		func(at time.Duration) { d.at(at, Step{Act: Leave, Count: 8}) },
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
	d.at(d.between(0, second), Step{Act: Leave, Count: 8})
	d.drained(d.between(200*time.Millisecond, 2*second), d.between(3*second, 8*second), data[0])
}

func linksAtRandom(d *draw) {
	data, session, meta := d.names("data"), d.names("session"), d.names("meta")
	all := []func(at time.Duration){
		func(at time.Duration) { d.cut(at, d.outage(), meta[0], testbed.Database) },
		func(at time.Duration) { d.cut(at, d.outage(), "leader", testbed.Database) },
		func(at time.Duration) { d.cut(at, d.outage(), data[0], meta[0]) },
		func(at time.Duration) { d.cut(at, d.outage(), data[0], session[0]) },
		func(at time.Duration) { d.cut(at, d.outage(), session[0], meta[1%len(meta)]) },
		func(at time.Duration) { d.at(at, Step{Act: testbed.Reset, Node: data[1], Peer: session[0]}) },
		func(at time.Duration) {
			by := d.between(100*time.Millisecond, 400*time.Millisecond)
			d.at(at, Step{Act: testbed.Slow, Node: data[1], Peer: session[0], By: by})
			d.at(at+d.outage(), Step{Act: testbed.Mend, Node: data[1], Peer: session[0]})
		},
	}
	d.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, fault := range all[:1+d.IntN(3)] {
		fault(d.between(0, 4*second))
	}
	d.drained(d.between(0, 4*second), d.between(2*second, 6*second), data[2%len(data)])
}

// Shapes returns the names of the shapes that contain a text.
func Shapes(only string) (names []string) {
	for _, s := range shapes {
		if strings.Contains(s.name, only) {
			names = append(names, s.name)
		}
	}
	return names
}
