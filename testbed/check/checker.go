package check

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/testbed"
)

// A checker checks one invariant of a history. It counts its checks and reports
// violations; it has no access to a running cluster.
type checker struct {
	id    string
	title string
	run   func(h *History, v *Verdict)
}

// Verdict is the outcome of one checker.
type Verdict struct {
	ID         string      `json:"id"`
	Says       string      `json:"says"`
	Checks     int         `json:"checks"`
	Violations []Violation `json:"violations"`
	Shown      string      `json:"shown,omitempty"` // a figure that the checker found on the way
}

// Violation is one violation of an invariant, with the entries that show it.
type Violation struct {
	At       time.Duration `json:"at"`
	What     string        `json:"what"`
	Evidence []string      `json:"evidence"`

	visualize func(w io.Writer) error // writes a page about it, if there is one; see Visualize
}

// MarshalJSON writes durations as milliseconds.
func (v Violation) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"atMs": millis(v.At), "what": v.What, "evidence": v.Evidence})
}

// maxViolations is how many violations a checker keeps: the first explain the
// rest.
const maxViolations = 20

// Checkers returns the ids of all checkers: the invariants, then the rules.
func Checkers() []string {
	var out []string
	for _, j := range allCheckers() {
		out = append(out, j.id)
	}
	return out
}

// checkers returns the checkers in the order of the documents: I1 to I13, the
// rules L1 to L19, and what must be linearizable.
func allCheckers() []checker {
	return slices.Concat(electionCheckers, slotCheckers, clientCheckers, ruleCheckers, linearCheckers)
}

// Run runs every checker.
func Run(h *History) []Verdict {
	var out []Verdict
	for _, j := range allCheckers() {
		v := Verdict{ID: j.id, Says: j.title}
		j.run(h, &v)
		out = append(out, v)
	}
	return out
}

// check counts one check, and records a violation if it does not hold.
func (v *Verdict) check(holds bool, h *History, at time.Duration, evidence []int, format string, args ...any) {
	v.Checks++
	if holds || len(v.Violations) >= maxViolations {
		return
	}
	x := Violation{At: at, What: fmt.Sprintf(format, args...)}
	for _, i := range evidence {
		x.Evidence = append(x.Evidence, h.Entries[i].String())
	}
	v.Violations = append(v.Violations, x)
}

// show keeps a figure that the checker found on the way.
func (v *Verdict) show(format string, args ...any) { v.Shown = fmt.Sprintf(format, args...) }

// sortedByEnd returns the statements that were answered, in the order of the
// answers.
func sortedByEnd(all []statement) []statement {
	out := slices.DeleteFunc(slices.Clone(all), func(s statement) bool { return s.done < 0 })
	slices.SortFunc(out, func(a, b statement) int { return a.done - b.done })
	return out
}

// slotEpoch identifies one leadership of one slot.
type slotEpoch struct {
	slot  int
	epoch conclave.Epoch
}

// nodeSlot identifies one slot at one incarnation of a node.
type nodeSlot struct {
	node conclave.NodeID
	slot int
}

// seenAt is a value with the index of the entry that shows it.
type seenAt[T any] struct {
	v T
	i int
}

// faultTimes lists, for each host, the times in which a fault affected it. A
// fault that was not ended lasts until the end of the history.
type faultTimes map[string][]span

type span struct{ from, to time.Duration }

// faultSpans returns the times of all faults. A fault on a link affects both
// ends; a fault without a named peer affects all hosts ("" is the network as a
// whole). With verbs, only faults that begin with one of them are returned.
func (h *History) faultSpans(verbs ...testbed.Verb) faultTimes {
	out := faultTimes{}
	end := h.End()
	began := map[string]int{} // fault's key and host -> index in out[host]
	h.faults(func(_ int, at time.Duration, x Fault) {
		begins := x.Verb
		if x.Action.EndsFault() {
			begins = ""
		}
		if len(verbs) > 0 && begins != "" && !slices.Contains(verbs, begins) {
			return
		}
		hosts := []string{x.Node}
		switch x.Verb {
		case testbed.Cut, testbed.CutOne, testbed.Slow, testbed.Reset, testbed.HalfOpen, testbed.LoseNext, testbed.Mend:
			hosts = append(hosts, x.Peer)
		}
		for _, host := range hosts {
			k := x.Action.Key() + "@" + host
			if x.Action.EndsFault() {
				if i, ok := began[k]; ok {
					out[host][i].to = at
					delete(began, k)
				}
				continue
			}
			to := at
			if x.Verb.Undo() != "" {
				to = end
				if i, twice := began[k]; twice {
					if x.Verb != testbed.Kill {
						continue
					}
					out[host][i].to = at // the node was stopping; now it is lost
				}
				began[k] = len(out[host])
			}
			out[host] = append(out[host], span{at, to})
		}
	})
	return out
}

// any reports whether a fault affected one of the hosts between two times.
func (t faultTimes) any(from, to time.Duration, hosts ...string) bool {
	for _, host := range hosts {
		for _, s := range t[host] {
			if s.from <= to && s.to >= from {
				return true
			}
		}
	}
	return false
}

// onlyOn reports whether faults affected, between two times, only hosts with
// one of the prefixes.
func (t faultTimes) onlyOn(from, to time.Duration, prefixes ...string) bool {
	for host, spans := range t {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(host, p) }) {
			continue
		}
		for _, s := range spans {
			if s.from <= to && s.to >= from {
				return false
			}
		}
	}
	return true
}

func (h *History) End() time.Duration {
	if len(h.Entries) == 0 {
		return 0
	}
	return h.Entries[len(h.Entries)-1].At
}

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
	trace.Reparking: trace.Reparked, trace.Resigning: trace.Resigned, trace.Writing: trace.Wrote,
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
