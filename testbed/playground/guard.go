package playground

import (
	"fmt"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"conclave/internal/trace"
	"conclave/testbed/console"
)

// guards are what of the cluster can be taken out, and held, to reach a violation.
type guards struct {
	gate *trace.Gate
	out  atomic.Bool // a write does not ask who owns the lock row
}

// act does what the console does not have, and reports whether the request was that:
//
//	without  from now on the guard Value is missing: there is one, "write"
//	hold     Node waits whenever it reaches the point Peer (package trace), for Value seconds
func (g *guards) act(r console.Request) (ours bool, err error) {
	switch r.Do {
	case "without":
		if r.Value != "write" {
			return true, fmt.Errorf("guard %q: want write", r.Value)
		}
		g.out.Store(true)
		return true, nil
	case "hold":
		at := trace.Kind(r.Peer)
		lasts, err := parseSeconds(r.Value)
		if err != nil || !slices.Contains(trace.Points(), at) {
			return true, fmt.Errorf("hold at %q for %q seconds: want one of %q", at, r.Value, trace.Points())
		}
		g.gate.Hold(r.Node, at)
		time.AfterFunc(lasts, func() { g.gate.Release(r.Node, at) })
		return true, nil
	}
	return false, nil
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
