package playground

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/console"
)

// guards are what of the cluster can be taken out, and held, to reach a violation.
type guards struct {
	out atomic.Bool // a write does not ask who owns the lock row

	mu    sync.Mutex // guards the rest
	holds map[testbed.Action]int
}

// act does what the console does not have, and reports whether the request was that:
//
//	without  from now on the guard Value is missing: there is one, "write"
//	hold     Node waits whenever it reaches the point Peer (package trace), for Value seconds
//
// do carries out an action, which becomes a part of the history.
func (g *guards) act(r console.Request, nodes []string, do func(context.Context, testbed.Action) error) (ours bool, err error) {
	switch r.Do {
	case "without":
		if r.Value != "write" {
			return true, fmt.Errorf("guard %q: want write", r.Value)
		}
		g.out.Store(true)
		return true, nil
	case "hold":
		a := testbed.Action{Verb: testbed.Hold, Node: r.Node, Point: trace.Kind(r.Peer)}
		lasts, err := parseSeconds(r.Value)
		if err != nil || !slices.Contains(trace.Points(), a.Point) || !slices.Contains(nodes, a.Node) {
			return true, fmt.Errorf("hold %q at %q for %q seconds: want a node, and one of %q", a.Node, a.Point, r.Value, trace.Points())
		}
		g.count(a, 1)
		time.AfterFunc(lasts, func() {
			if g.count(a, -1) == 0 {
				_ = do(context.Background(), a.Undo()) // it cannot fail
			}
		})
		return true, do(context.Background(), a)
	}
	return false, nil
}

// count adds to the holds of a node at a point that have not ended: it is released when the
// last one ends.
func (g *guards) count(hold testbed.Action, by int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds[hold] += by
	return g.holds[hold]
}

// guarded matches a write of the leader's rows (sql/state/write.sql) with its last line.
var guarded = regexp.MustCompile(`(?s)^(UPDATE distribute_lock l\n.*SET s\.body = .*)\s+AND l\.owner = '[^']*' AND l\.term = \d+$`)

// rewrite returns what is executed for a query: once the guard was taken out, a write
// without its last line.
func (g *guards) rewrite(query string) string {
	if !g.out.Load() {
		return query
	}
	return guarded.ReplaceAllString(query, "$1")
}
