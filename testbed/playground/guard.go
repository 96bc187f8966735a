package playground

import (
	"fmt"
	"slices"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/console"
)

// without is the request that takes a guard out: after it, no check is left out.
const without = "without"

// unoffered returns the action of a request that the console does not offer; without a
// verb: it may be one that is offered.
//
//	without  from now on the guard Value is missing: there is one, "write"
//	hold     Node waits whenever it reaches the point Peer (package trace), until it is killed or all is healed
func unoffered(r console.Request, nodes []string) (a testbed.Action, err error) {
	switch r.Do {
	case without:
		if r.Value != "write" {
			return a, fmt.Errorf("guard %q: want write", r.Value)
		}
		a.Verb = testbed.Unguard
	case "hold":
		a = testbed.Action{Verb: testbed.Hold, Node: r.Node, Point: trace.Kind(r.Peer)}
		if r.Value != "" || !slices.Contains(trace.Points(), a.Point) || !slices.Contains(nodes, a.Node) {
			return a, fmt.Errorf("hold %q at %q %s: want a node, and one of %q", a.Node, a.Point, r.Value, trace.Points())
		}
	}
	return a, nil
}
