package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"conclave/testbed/report"
	"conclave/testbed/scenario"
)

// writeResult prints the invariants that were checked, and names the others.
func writeResult(w io.Writer, r *scenario.Result) {
	t := newTable("INVARIANT", "CHECKS", "BROKEN", "")
	idle := []string{}
	for _, v := range report.New(r).Verdicts {
		if v.Checks == 0 && len(v.Violations) == 0 {
			idle = append(idle, v.ID)
			continue
		}
		t.add(v.ID, v.Checks, len(v.Violations), v.Says)
	}
	fmt.Fprintln(w)
	t.write(w)
	if len(idle) > 0 {
		fmt.Fprintf(w, "not checked, for lack of an occasion or of trace events: %s\n", strings.Join(idle, ", "))
	}
	fmt.Fprintln(w)
	for _, f := range r.Figures {
		fmt.Fprintln(w, f)
	}
	for _, p := range problems(r) {
		fmt.Fprintln(w, p)
	}
	writeHeld(w, r)
}

// writeOutcome prints the same in a line for each problem, or in one.
func writeOutcome(w io.Writer, r *scenario.Result) {
	for _, p := range problems(r) {
		fmt.Fprintf(w, "%s, seed %d: %s\n", r.Scenario.Name, r.Scenario.Cluster.Seed, p)
	}
	writeHeld(w, r)
}

func writeHeld(w io.Writer, r *scenario.Result) {
	switch late := len(r.Late); {
	case r.Ok():
		fmt.Fprintf(w, "%s, seed %d: all invariants held.\n", r.Scenario.Name, r.Scenario.Cluster.Seed)
	case len(r.Problems()) == late:
		fmt.Fprintf(w, "%s, seed %d: all invariants held, but %s not met in time.\n", r.Scenario.Name, r.Scenario.Cluster.Seed, either(late == 1, "1 expectation was", fmt.Sprint(late, " expectations were")))
	}
}

// problems lists what was not as it should: an expectation that was not met
// within its time is too slow, everything else is broken.
func problems(r *scenario.Result) (out []string) {
	for _, p := range r.Problems() {
		out = append(out, either(slices.Contains(r.Late, p), "TOO SLOW: ", "BROKEN: ")+p)
	}
	return out
}
