package check

import (
	"slices"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/testbed"
)

// I1 to I4: which node leads, and what follows from it.
var electionCheckers = []checker{
	{"I1", "one owner per term", oneOwnerPerTerm},
	{"I2", "terms only rise, in the row and at each node", termsRise},
	{"I3", "no effect of an older term after one of a newer; with takeover by lease no two perceived leaderships overlap", noOldEffect},
	{"I4", "stale commands are refused", staleRefused},
}

// oneOwnerPerTerm checks that one node leads, and extends its trust, in each term.
func oneOwnerPerTerm(h *History, v *Verdict) {
	owner := map[uint64]seenAt[conclave.NodeID]{}
	h.events(func(i int, at time.Duration, c trace.Claim) {
		if c.Kind == trace.Left {
			return
		}
		first, known := owner[c.Term]
		v.check(!known || first.v == c.Node, h, at, []int{first.i, i}, "term %d is led by %s and by %s", c.Term, first.v, c.Node)
		if !known {
			owner[c.Term] = seenAt[conclave.NodeID]{c.Node, i}
		}
	}, trace.Led, trace.Extended)
}

// termsRise checks that a node leads ever higher terms, none that it has promised not to
// lead, and that the row is never read at a lower term than before.
func termsRise(h *History, v *Verdict) {
	led := map[conclave.NodeID]seenAt[uint64]{}
	h.events(func(i int, at time.Duration, c trace.Claim) {
		before, known := led[c.Node]
		v.check(!known || before.v < c.Term, h, at, []int{before.i, i}, "%s leads term %d after it has led, or promised not to lead, term %d", c.Node, c.Term, before.v)
		led[c.Node] = seenAt[uint64]{max(before.v, c.Term), i}
	}, trace.Led)
	promised := map[conclave.NodeID]seenAt[uint64]{}
	h.events(func(i int, at time.Duration, c trace.Claim) {
		switch before := promised[c.Node]; c.Kind {
		case trace.Promised:
			if c.Term > before.v {
				promised[c.Node] = seenAt[uint64]{c.Term, i}
			}
		default:
			v.check(c.Term > before.v, h, at, []int{before.i, i}, "%s leads term %d although it has promised not to lead any up to %d", c.Node, c.Term, before.v)
		}
	}, trace.Led, trace.Extended, trace.Promised)
	// The row: a reading does not show a lower term than a reading that ended
	// before it began.
	reads := slices.DeleteFunc(h.statements(trace.Looking), func(r statement) bool { return r.done < 0 || r.after.Err != nil })
	afterThoseBefore(reads, func(r statement, highest seenAt[uint64]) {
		v.check(r.after.Term >= highest.v, h, r.to, []int{highest.i, r.done}, "the row is read at term %d after it was at %d", r.after.Term, highest.v)
	})
}

// noOldEffect checks that no row is written under an older term by a statement that was
// sent after one of a newer term was answered, held until a newer term was won, or sent
// by a node that did not lead; where leases alone decide, also that no two nodes trust
// themselves at the same time.
func noOldEffect(h *History, v *Verdict) {
	writes := h.statements(trace.Writing)
	wrote := slices.DeleteFunc(slices.Clone(writes), func(w statement) bool { return w.done < 0 || !w.after.Flag })
	afterThoseBefore(wrote, func(w statement, newest seenAt[uint64]) {
		v.check(w.after.Term >= newest.v, h, w.to, []int{newest.i, w.call, w.done}, "%s wrote %s under term %d after term %d had written", w.after.Node, w.after.Subject, w.after.Term, newest.v)
	})
	h.noneHeldWrote(writes, v)
	h.onlyOwnersWrote(v)
	if h.Cluster.Takeover != "lease" {
		return
	}
	all := h.Leaderships()
	for i, a := range all {
		for _, b := range all[i+1:] {
			overlap := min(a.To, b.To) - max(a.From, b.From)
			v.check(overlap <= 0, h, max(a.From, b.From), []int{a.i, b.i}, "%s (term %d) and %s (term %d) both trust themselves for %s", a.Node, a.Term, b.Node, b.Term, overlap)
		}
	}
}

// noneHeldWrote checks that a statement that was held until a newer term had
// been won changes nothing, whether or not the newer term has written.
func (h *History) noneHeldWrote(writes []statement, v *Verdict) {
	wins := h.statements(trace.Swapping)
	held := map[string]int{} // by node: the entry with which the hold began
	h.faults(func(i int, at time.Duration, x Fault) {
		switch {
		case x.Point != trace.Writing:
		case x.Verb == testbed.Hold || x.Verb == testbed.HoldOne:
			held[x.Node] = i
		case x.Verb == testbed.Release:
			from, is := held[x.Node]
			delete(held, x.Node)
			for _, w := range writes {
				if !is || w.before.Node.Name != x.Node || w.call < from || w.call > i || w.done < i {
					continue // not held, or never answered
				}
				for _, win := range wins {
					over := w.after.Flag && win.done >= 0 && win.after.Err == nil && win.after.Count == 1 && win.to < at
					v.check(!over || win.after.Epoch.Term <= w.after.Term, h, w.to, []int{w.call, win.done, i, w.done},
						"%s was held, and wrote %s under term %d after term %d had been won", w.after.Node, w.after.Subject, w.after.Term, win.after.Epoch.Term)
				}
			}
		}
	})
}

// onlyOwnersWrote checks the changes in the order in which the database made
// them: no row is changed by a node whose win is not the last one, or that has
// resigned; nor in a term other than the one that was won, if the database
// names the term.
func (h *History) onlyOwnersWrote(v *Verdict) {
	var owner seenAt[string]
	var term uint64
	known := false
	h.events(func(i int, at time.Duration, c trace.Claim) {
		switch {
		case c.Count == 0:
		case c.Subject == "win":
			owner, term, known = seenAt[string]{c.Node.Name, i}, c.Term, true
		case c.Subject == "resign":
			owner, known = seenAt[string]{"", i}, true
		case known:
			owns := c.Node.Name == owner.v && (term == 0 || c.Epoch.Term == term)
			v.check(owns, h, at, []int{owner.i, i}, "a %s of %s to %s is executed while %q owns the lock row, in term %d", c.Subject, c.Node.Name, c.Epoch, owner.v, term)
		}
	}, trace.Landed)
}

// Leadership is one perceived leadership: a time in which a node trusted itself
// to lead.
type Leadership struct {
	Node     conclave.NodeID
	Term     uint64
	From, To time.Duration
	i        int
}

// Leaderships returns the perceived leaderships in the order in which they
// began: from the win to the end of trust, or to an earlier end.
func (h *History) Leaderships() []Leadership {
	var out []Leadership
	at := map[conclave.NodeID]int{}
	// A killed node leads no longer, but records no event about it.
	deaths := map[string][]time.Duration{}
	h.faults(func(_ int, now time.Duration, f Fault) {
		if f.Verb == testbed.Kill {
			deaths[f.Node] = append(deaths[f.Node], now)
		}
	})
	defer func() {
		for i, b := range out {
			for _, died := range deaths[b.Node.Name] {
				if died >= b.From {
					out[i].To = min(b.To, died)
					break
				}
			}
		}
	}()
	h.events(func(i int, now time.Duration, c trace.Claim) {
		n, running := at[c.Node]
		switch c.Kind {
		case trace.Led:
			at[c.Node] = len(out)
			out = append(out, Leadership{c.Node, c.Term, now, now + c.Until.Sub(h.clock(i)), i})
		case trace.Extended:
			if running {
				out[n].To = now + c.Until.Sub(h.clock(i))
			}
		case trace.Left:
			if running {
				out[n].To = min(out[n].To, now)
				delete(at, c.Node)
			}
		}
	}, trace.Led, trace.Extended, trace.Left)
	return out
}

// clock returns the wall clock at an entry.
func (h *History) clock(i int) time.Time { return h.Began.Add(h.Entries[i].At) }

// staleRefused checks that a node takes no command of an older term than the highest
// that it has seen, and refuses no other one.
func staleRefused(h *History, v *Verdict) {
	refused := 0
	highest := map[conclave.NodeID]seenAt[uint64]{}
	h.events(func(i int, at time.Duration, c trace.Claim) {
		before := highest[c.Node]
		if c.Kind == trace.Refused {
			refused++
			v.check(c.Term < c.Base.Term, h, at, []int{i}, "%s refused a command of term %d although %d was the highest it had seen", c.Node, c.Term, c.Base.Term)
			return
		}
		v.check(c.Term >= before.v && c.Term >= c.Base.Term, h, at, []int{before.i, i}, "%s took a command of term %d after one of term %d", c.Node, c.Term, max(before.v, c.Base.Term))
		highest[c.Node] = seenAt[uint64]{max(c.Term, before.v), i}
	}, trace.Admitted, trace.Refused)
	v.show("refused: %d", refused)
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

// afterThoseBefore calls f with each statement of a list, all of which were answered,
// and with the highest term in an answer that came before it was sent.
func afterThoseBefore(sent []statement, f func(s statement, highest seenAt[uint64])) {
	answered := slices.SortedFunc(slices.Values(sent), func(a, b statement) int { return a.done - b.done })
	var highest seenAt[uint64]
	for _, s := range sent {
		for ; answered[0].done < s.call; answered = answered[1:] {
			if e := answered[0]; e.after.Term >= highest.v {
				highest = seenAt[uint64]{e.after.Term, e.done}
			}
		}
		f(s, highest)
	}
}
