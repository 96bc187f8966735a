package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"conclave"
	"conclave/internal/trace"
)

// A judge is one invariant as a function over a history. It counts what it has
// looked at, and says what cannot be; it never looks at a running cluster.
type judge struct {
	id   string
	says string
	look func(h *History, v *Verdict)
}

// Verdict is what a judge found.
type Verdict struct {
	ID         string      `json:"id"`
	Says       string      `json:"says"`
	Checks     int         `json:"checks"`
	Violations []Violation `json:"violations"`
	Shown      string      `json:"shown,omitempty"` // a figure that the judge came across
}

// Violation is one thing that cannot be, with the entries that show it.
type Violation struct {
	At       time.Duration `json:"at"`
	What     string        `json:"what"`
	Evidence []string      `json:"evidence"`
}

// most is how many violations of one kind are kept: the first explain the rest.
const most = 20

// Judges lists the ids of all judges: the invariants, then the rules.
func Judges() []string {
	var out []string
	for _, j := range judges() {
		out = append(out, j.id)
	}
	return out
}

// judges are in the order of the documents: I1 to I13, rules L1 to L17, and what
// must be linearizable.
func judges() []judge {
	return slices.Concat(electionJudges, slotJudges, clientJudges, ruleJudges, linearJudges)
}

// Judge asks every judge.
func Judge(h *History) []Verdict {
	var out []Verdict
	for _, j := range judges() {
		v := Verdict{ID: j.id, Says: j.says}
		j.look(h, &v)
		out = append(out, v)
	}
	return out
}

// check counts one check, and accuses when it does not hold.
func (v *Verdict) check(holds bool, h *History, at time.Duration, evidence []int, format string, args ...any) {
	v.Checks++
	if holds || len(v.Violations) >= most {
		return
	}
	x := Violation{At: at, What: fmt.Sprintf(format, args...)}
	for _, i := range evidence {
		x.Evidence = append(x.Evidence, h.Entries[i].String())
	}
	v.Violations = append(v.Violations, x)
}

// show keeps a figure that the judge came across.
func (v *Verdict) show(format string, args ...any) { v.Shown = fmt.Sprintf(format, args...) }

// sortedByEnd are the statements that were answered, in the order of the answers.
func sortedByEnd(all []statement) []statement {
	out := slices.DeleteFunc(slices.Clone(all), func(s statement) bool { return s.done < 0 })
	slices.SortFunc(out, func(a, b statement) int { return a.done - b.done })
	return out
}

// slotEpoch is one leadership of one slot.
type slotEpoch struct {
	slot  int
	epoch conclave.Epoch
}

// nodeSlot is one slot at one node's incarnation.
type nodeSlot struct {
	node conclave.NodeID
	slot int
}

// seenAt is a value together with the entry that shows it.
type seenAt[T any] struct {
	v T
	i int
}

// touched says when each host was last in the hands of a fault: from its
// beginning until its end. The end of the history ends what lasts.
type touched map[string][]span

type span struct{ from, to time.Duration }

// faultSpans collects them. A fault on a link touches both ends; one without a
// named peer touches everybody ("" is the network as a whole). With verbs, only
// faults that begin with one of these are collected.
func (h *History) faultSpans(verbs ...Verb) touched {
	out := touched{}
	end := h.end()
	began := map[string]int{} // fault's key and host -> its place in out
	h.faults(func(_ int, at time.Duration, x Fault) {
		begins := x.Verb
		if ends(x.Act) {
			begins = ""
		}
		if len(verbs) > 0 && begins != "" && !slices.Contains(verbs, begins) {
			return
		}
		hosts := []string{x.Node}
		switch x.Verb {
		case Cut, CutOne, Slow, Reset, HalfOpen, LoseNext, Mend:
			hosts = append(hosts, x.Peer)
		}
		for _, host := range hosts {
			k := key(x.Act) + "@" + host
			if ends(x.Act) {
				if i, ok := began[k]; ok {
					out[host][i].to = at
					delete(began, k)
				}
				continue
			}
			to := at
			if undo(x.Verb) != "" {
				to = end
				if _, twice := began[k]; twice {
					continue
				}
				began[k] = len(out[host])
			}
			out[host] = append(out[host], span{at, to})
		}
	})
	return out
}

// any says whether one of the hosts was touched between two moments.
func (t touched) any(from, to time.Duration, hosts ...string) bool {
	for _, host := range hosts {
		for _, s := range t[host] {
			if s.from <= to && s.to >= from {
				return true
			}
		}
	}
	return false
}

// onlyOn says that no other hosts than those with one of the prefixes were
// touched between two moments.
func (t touched) onlyOn(from, to time.Duration, prefixes ...string) bool {
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

func (h *History) end() time.Duration {
	if len(h.Entries) == 0 {
		return 0
	}
	return h.Entries[len(h.Entries)-1].At
}

// statements pairs the two claims around each statement of a node: it plays its
// rounds one after the other. done is -1 for what was never heard of again.
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

// statements lists them in the order in which they were sent. Election and
// cluster state are two goroutines: their statements are paired each on its own.
func (h *History) statements(kinds ...trace.Kind) []statement {
	var out []statement
	pending := map[string]int{}
	wanted := map[trace.Kind]bool{}
	for _, k := range kinds {
		wanted[k], wanted[outcomes[k]] = true, true
	}
	h.claims(func(i int, at time.Duration, c trace.Claim) {
		if !wanted[c.Kind] {
			return
		}
		if after, begins := outcomes[c.Kind]; begins {
			pending[c.Node.String()+string(after)] = len(out)
			out = append(out, statement{call: i, done: -1, before: c, from: at, to: h.end()})
			return
		}
		if n, ok := pending[c.Node.String()+string(c.Kind)]; ok {
			delete(pending, c.Node.String()+string(c.Kind))
			out[n].done, out[n].after, out[n].to = i, c, at
		}
	})
	return out
}
