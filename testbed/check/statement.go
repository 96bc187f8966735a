package check

import (
	"slices"
	"time"

	"conclave/internal/trace"
)

// statement is one statement of a node, paired from the two events around it: a
// node plays its rounds one after the other. done is -1 if no answer was
// recorded.
type statement struct {
	call, done int
	before     trace.Claim
	after      trace.Claim
	from, to   time.Duration
}

var outcomes = map[trace.Kind]trace.Kind{
	trace.Looking: trace.Looked, trace.Swapping: trace.Swapped, trace.Renewing: trace.Renewed,
	trace.Reacquiring: trace.Reacquired, trace.Resigning: trace.Resigned, trace.Writing: trace.Wrote,
}

// statements returns the statements in the order in which they were sent.
// Election and cluster state are two goroutines, so their statements are paired
// separately.
func (h *History) statements(kinds ...trace.Kind) []statement {
	var out []statement
	pending := map[string]int{}
	wanted := map[trace.Kind]bool{}
	for _, k := range kinds {
		wanted[k], wanted[outcomes[k]] = true, true
	}
	h.events(func(i int, at time.Duration, c trace.Claim) {
		if !wanted[c.Kind] {
			return
		}
		if after, begins := outcomes[c.Kind]; begins {
			pending[c.Node.String()+string(after)] = len(out)
			out = append(out, statement{call: i, done: -1, before: c, from: at, to: h.End()})
			return
		}
		if n, ok := pending[c.Node.String()+string(c.Kind)]; ok {
			delete(pending, c.Node.String()+string(c.Kind))
			out[n].done, out[n].after, out[n].to = i, c, at
		}
	})
	return out
}

// sortedByEnd returns the statements that were answered, in the order of the
// answers.
func sortedByEnd(all []statement) []statement {
	out := slices.DeleteFunc(slices.Clone(all), func(s statement) bool { return s.done < 0 })
	slices.SortFunc(out, func(a, b statement) int { return a.done - b.done })
	return out
}
