package check

import "slices"

// allCheckers returns the checkers, subject by subject: the invariants of the
// election, of slots and of clients, the rules, what a burst leaves behind, and what
// must be linearizable.
func allCheckers() []checker {
	return slices.Concat(electionCheckers, slotCheckers, clientCheckers, ruleCheckers, burstCheckers, linearCheckers)
}

// Run runs the checkers with these ids, or every checker if there are none.
func Run(h *History, ids ...string) []Verdict {
	var out []Verdict
	for _, c := range allCheckers() {
		if len(ids) > 0 && !slices.Contains(ids, c.id) {
			continue
		}
		v := Verdict{ID: c.id, Says: c.title}
		c.run(h, &v)
		out = append(out, v)
	}
	return out
}
