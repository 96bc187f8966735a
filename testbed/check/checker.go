package check

import (
	"slices"
)

// Checkers returns the ids of all checkers: the invariants, then the rules.
func Checkers() []string {
	var out []string
	for _, j := range allCheckers() {
		out = append(out, j.id)
	}
	return out
}

// checkers returns the checkers in the order of the documents: I1 to I13, the
// rules L1 to L24, and what must be linearizable.
func allCheckers() []checker {
	return slices.Concat(electionCheckers, slotCheckers, clientCheckers, ruleCheckers, burstCheckers, linearCheckers)
}

// Run runs the checkers with these ids, or every checker if there are none.
func Run(h *History, ids ...string) []Verdict {
	var out []Verdict
	for _, j := range allCheckers() {
		if len(ids) > 0 && !slices.Contains(ids, j.id) {
			continue
		}
		v := Verdict{ID: j.id, Says: j.title}
		j.run(h, &v)
		out = append(out, v)
	}
	return out
}
