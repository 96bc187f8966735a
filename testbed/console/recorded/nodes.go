package recorded

import (
	"slices"
	"strings"

	"conclave/testbed"
	"conclave/testbed/console"
)

// condition is what the actions before a position have left.
type condition struct {
	killed, suspended, stopped map[string]bool
	observer                   map[string]bool
	links                      map[string]console.Link
}

// condition returns what the actions among the records before n have left.
func (x *index) condition(n int) condition {
	c := condition{
		killed: map[string]bool{}, suspended: map[string]bool{}, stopped: map[string]bool{}, observer: map[string]bool{}, links: map[string]console.Link{},
	}
	for _, f := range x.faults[:before(x.faults, n, func(f fault) int { return f.n })] {
		switch a := f.Action; a.Verb {
		case testbed.Kill:
			c.killed[a.Node] = true
			delete(c.suspended, a.Node)
		case testbed.Start, testbed.StartWrong:
			delete(c.killed, a.Node)
			delete(c.stopped, a.Node)
		case testbed.Stop:
			c.stopped[a.Node] = true
		case testbed.Pause:
			c.suspended[a.Node] = true
		case testbed.Resume:
			delete(c.suspended, a.Node)
		case testbed.Quit:
			c.observer[a.Node] = true
		case testbed.Join:
			delete(c.observer, a.Node)
		case testbed.Cut, testbed.CutOne, testbed.Slow, testbed.Mend:
			c.link(a, x.hosts)
		}
	}
	return c
}

// link notes a cut, a delay or their end, between two hosts or one and all others.
func (c *condition) link(a testbed.Action, hosts []string) {
	peers := []string{a.Peer}
	if a.Peer == "" {
		peers = hosts
	}
	for _, peer := range peers {
		if peer == a.Node {
			continue
		}
		ends := []string{a.Node, peer}
		slices.Sort(ends)
		key := strings.Join(ends, " ")
		switch a.Verb {
		case testbed.Mend:
			delete(c.links, key)
		case testbed.Slow:
			c.links[key] = console.Link{A: ends[0], B: ends[1], What: "slow"}
		default:
			c.links[key] = console.Link{A: ends[0], B: ends[1], What: "cut"}
		}
	}
}

// stateOf returns what a node does, by the newest snapshot and the actions since.
func (c *condition) stateOf(name string, s *testbed.Snapshot) string {
	up := s != nil && slices.Contains(s.Up, name)
	switch {
	case c.killed[name]:
		return "killed"
	case c.stopped[name] && !up:
		return "exited"
	case c.suspended[name]:
		return "suspended"
	case c.stopped[name]:
		return "draining"
	case s == nil || !slices.Contains(s.Ready, name):
		return "starting"
	}
	return "ready"
}
