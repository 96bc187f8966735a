package check

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/testbed"
)

// L1 to L17 are the rules without which the Java original would lose registrations, as far
// as a history shows them; L18 to L22 are Conclave's own. Which part of a rule is checked
// is in the comments of the functions, some of which are in registrations.go, operator.go
// and slots.go.
var ruleCheckers = []checker{
	{"L1", "sessions are the source of truth", storedWasAccepted},
	{"L2", "no slot is served before the sessions have answered, or its source's copy is complete", servedAfterHearing},
	{"L3", "a session counts no read of an epoch that has ended", readsWithinOneEpoch},
	{"L4", "a new slot leader has a new leader epoch, and writes name it", writesNameTheEpoch},
	{"L5", "epochs never go back, at any receiver", receiversRise},
	{"L6", "two tables may coexist: a new leader's versions begin above what was read before", newLeadersBeginAbove},
	{"L7", "the order per publisher holds, whatever is applied twice or late", publishersInOrder},
	{"L8", "only the owner removes, and only what it had", ownersRemove},
	{"L9", "a restarted session is a new owner", oneIncarnationAtATime},
	{"L10", "nothing is deleted on weak evidence", ownersWereLost},
	{"L11", "no read finds nothing where something live is stored", nothingEmpty},
	{"L12", "no slot is arranged before the term is sealed", sealedFirst},
	{"L13", "slots move a few at a time", fewAtATime},
	{"L14", "a drained node owns no slot", drainedOwnsNothing},
	{"L15", "in the end all nodes use one table, whatever notification was lost", allCatchUp},
	{"L16", "while no meta answers, nothing moves and everything is served", writesGoOn},
	{"L17", "at most one meta leader acts: rows are written one after the other", writesFormAChain},
	{"L18", "at one position of a feed the follower's copy is the leader's", copiesAreEqual},
	{"L19", "an operator's commands leave a cluster that serves and has a leader", operatorsBreakNothing},
	{"L20", "a session that no data node can dial delays a slot by a node lease and a session grace at most", grantedSlotsServe},
	{"L21", "the slot of a dead leader goes to a complete copy if there is one, on whichever node", completeCopiesLead},
	{"L22", "as long as one session is left, every change of a client is stored, even if that session is being drained", oneSessionServes},
}

// L2: a leader that serves without its source's copy was answered, at its
// epoch, by as many sessions as it reports.
func servedAfterHearing(h *History, v *Verdict) {
	answered, began := map[slotEpoch]map[conclave.NodeID]bool{}, map[slotEpoch]bool{}
	h.events(func(i int, at time.Duration, c trace.Claim) {
		k := slotEpoch{c.Slot, c.Epoch}
		switch c.Kind {
		case trace.Migrating:
			began[k] = true
			return
		case trace.Answered:
			if answered[k] == nil {
				answered[k] = map[conclave.NodeID]bool{}
			}
			answered[k][c.Node] = true
			return
		}
		v.check(c.Flag || len(answered[k]) >= c.Count || h.Joined && !began[k], h, at, []int{i}, "%s serves slot %d at epoch %s and reports %d answers of sessions; there were %d", c.Node, c.Slot, c.Epoch, c.Count, len(answered[k]))
	}, trace.Migrating, trace.Answered, trace.Serving)
}

// L3: a session accepts a read only at the epoch that it uses at that moment.
// Its answer to a new leader is a fence: from then on it uses no lower epoch.
func readsWithinOneEpoch(h *History, v *Verdict) {
	current, answered := map[nodeSlot]seenAt[conclave.Epoch]{}, map[nodeSlot]seenAt[conclave.Epoch]{}
	h.events(func(i int, at time.Duration, c trace.Claim) {
		k := nodeSlot{c.Node, c.Slot}
		if c.Kind == trace.Adopted {
			current[k] = seenAt[conclave.Epoch]{c.Epoch, i}
			return
		}
		g, adopted := current[k]
		t := answered[k]
		if c.Kind == trace.Answered {
			if t.v.Less(c.Epoch) { // a late request of an older leader does not lower the fence
				answered[k] = seenAt[conclave.Epoch]{c.Epoch, i}
			}
			return
		}
		v.check(!c.Epoch.Less(t.v), h, at, []int{t.i, i}, "%s accepts an answer of slot %d at epoch %s after it has answered the leader of %s", c.Node, c.Slot, c.Epoch, t.v)
		v.check(c.Epoch == g.v || h.Joined && !adopted, h, at, []int{g.i, i}, "%s accepts an answer of slot %d at epoch %s while it uses %s", c.Node, c.Slot, c.Epoch, g.v)
	}, trace.Adopted, trace.Answered, trace.Counted, trace.Settled)
}

// L4: a write is accepted only by the node that leads the slot at the epoch
// that the write names.
func writesNameTheEpoch(h *History, v *Verdict) {
	h.onlyAt(v, map[trace.Kind]bool{trace.Migrating: true, trace.Serving: true, trace.Finished: false},
		"%s accepted a write of slot %d at epoch %s, but leads at %s", trace.Stored, trace.Removed)
}

// L5: the tables at each node, and the leader epochs of each slot at each
// session, only rise.
func receiversRise(h *History, v *Verdict) {
	tables := map[conclave.NodeID]seenAt[conclave.Epoch]{}
	epochs := map[nodeSlot]seenAt[conclave.Epoch]{}
	h.events(func(i int, at time.Duration, c trace.Claim) {
		if c.Kind == trace.Took {
			before := tables[c.Node]
			v.check(before.v.Less(c.Epoch), h, at, []int{before.i, i}, "%s goes from table %s to %s", c.Node, before.v, c.Epoch)
			tables[c.Node] = seenAt[conclave.Epoch]{c.Epoch, i}
			return
		}
		k := nodeSlot{c.Node, c.Slot}
		before := epochs[k]
		v.check(before.v.Less(c.Epoch), h, at, []int{before.i, i}, "%s goes from epoch %s to %s in slot %d", c.Node, before.v, c.Epoch, c.Slot)
		epochs[k] = seenAt[conclave.Epoch]{c.Epoch, i}
	}, trace.Took, trace.Adopted)
}

// L6: the counter with which a leader begins to serve is above every version of
// that slot that a session has accepted at a lower epoch.
func newLeadersBeginAbove(h *History, v *Verdict) {
	read := map[int]map[conclave.Epoch]seenAt[int64]{} // by slot and epoch: the highest version
	h.events(func(i int, at time.Duration, c trace.Claim) {
		if read[c.Slot] == nil {
			read[c.Slot] = map[conclave.Epoch]seenAt[int64]{}
		}
		if c.Kind == trace.Counted {
			if top, known := read[c.Slot][c.Epoch]; !known || c.Version > top.v {
				read[c.Slot][c.Epoch] = seenAt[int64]{c.Version, i}
			}
			return
		}
		for _, epoch := range sortedEpochs(read[c.Slot]) {
			if top := read[c.Slot][epoch]; epoch.Less(c.Epoch) {
				v.check(c.Version > top.v, h, at, []int{top.i, i}, "%s serves slot %d at epoch %s from version %d; at %s version %d was read", c.Node, c.Slot, c.Epoch, c.Version, epoch, top.v)
			}
		}
	}, trace.Counted, trace.Serving)
}

// L9: once a newer incarnation of a node has recorded an event, the older one
// records none. (A twin never gets that far.) And what one incarnation has is
// sent, and accepted, only as the data of that incarnation.
func oneIncarnationAtATime(h *History, v *Verdict) {
	now := map[string]seenAt[string]{}
	replaced := map[conclave.NodeID]int{}
	h.events(func(i int, at time.Duration, c trace.Claim) {
		switch c.Kind {
		case trace.Accepted, trace.Settled, trace.Counted, trace.Pushed, trace.Serving, trace.Stored, trace.Read:
		case trace.Answered:
			v.check(c.Key == c.Node.Incarnation, h, at, []int{i}, "%s answers as incarnation %s of its name", c.Node, c.Key)
			return
		case trace.Merged:
			v.check(c.Key == c.Peer.Incarnation, h, at, []int{i}, "%s takes the answer of incarnation %s for the answer of %s", c.Node, c.Key, c.Peer)
			return
		default:
			return
		}
		cur, known := now[c.Node.Name]
		if known && cur.v != c.Node.Incarnation {
			replaced[conclave.NodeID{Name: c.Node.Name, Incarnation: cur.v}] = i
		}
		successor, old := replaced[c.Node]
		v.check(!old, h, at, []int{successor, i}, "%s continues after another incarnation of it has begun", c.Node)
		if !old {
			now[c.Node.Name] = seenAt[string]{c.Node.Incarnation, i}
		}
	})
}

// L10: the copies of a session are removed only if a fault has affected it, the
// data node, or the network as a whole, at least a session grace before.
func ownersWereLost(h *History, v *Verdict) {
	faults := h.faultSpans()
	h.events(func(i int, at time.Duration, c trace.Claim) {
		if c.Count == 0 {
			return
		}
		hosts := []string{c.Peer.Name, c.Node.Name, ""}
		v.check(faults.any(-time.Hour, at-SessionGrace, hosts...), h, at, []int{i}, "%s removed %d registrations of %s, which no fault had affected", c.Node, c.Count, c.Peer)
	}, trace.OwnerGone)
}

// L12: the first row that a term writes is its seal.
func sealedFirst(h *History, v *Verdict) {
	sealed, won := map[uint64]bool{}, map[uint64]bool{}
	h.events(func(_ int, _ time.Duration, c trace.Claim) { won[c.Term] = true }, trace.Led)
	for _, w := range h.statements(trace.Writing) {
		if w.before.Subject == "seal" {
			sealed[w.before.Term] = true
			continue
		}
		v.check(sealed[w.before.Term] || h.Joined && !won[w.before.Term], h, w.from, []int{w.call}, "%s writes %s in term %d, which is not sealed yet", w.before.Node, w.before.Subject, w.before.Term)
	}
}

// L13: one table begins no more planned moves than the limits allow.
func fewAtATime(h *History, v *Verdict) {
	limits := slot.DefaultLimits()
	moves := map[conclave.Epoch][]int{}
	for _, g := range h.grants() {
		if g.v.Key == string(slot.Switching) {
			moves[g.v.Base] = append(moves[g.v.Base], g.i)
		}
	}
	for _, epoch := range sortedEpochs(moves) {
		all := moves[epoch]
		v.check(len(all) <= limits.LeaderMoves+limits.Drains, h, h.Entries[all[len(all)-1]].At, all[:1], "table %s moves %d slots at once", epoch, len(all))
	}
}

func sortedEpochs[V any](m map[conclave.Epoch]V) []conclave.Epoch {
	return slices.SortedFunc(maps.Keys(m), conclave.Epoch.Compare)
}

// L15: at the end every node that still runs uses the same table.
func allCatchUp(h *History, v *Verdict) {
	last, newest, since := h.tables()
	started := map[string]time.Duration{}
	h.faults(func(_ int, at time.Duration, x Fault) {
		if x.Verb == testbed.Start && x.Err == nil {
			started[x.Node] = at
		}
	})
	if !slices.ContainsFunc(h.Entries, func(e Entry) bool { return e.Op != nil && e.Op.Kind == OpProgress }) {
		return // it was not healed
	}
	for _, name := range slices.Sorted(maps.Keys(last)) {
		l := last[name]
		// A table that was written within the last lease may not have arrived
		// yet, and a node that was started within it may not have joined yet.
		at, restarted := started[name]
		if h.End()-since < h.Cluster.Lease || restarted && h.End()-at < h.Cluster.Lease {
			v.Checks++
			continue
		}
		v.check(l.v.Epoch == newest, h, h.End(), []int{l.i}, "%s ends with table %s, others with %s", name, l.v.Epoch, newest)
	}
}

// tables returns the table that each node that runs took last, and the newest that
// any node took, and when the first did.
func (h *History) tables() (last map[string]seenAt[trace.Claim], newest conclave.Epoch, since time.Duration) {
	last, since = map[string]seenAt[trace.Claim]{}, h.End()
	h.events(func(i int, at time.Duration, c trace.Claim) {
		last[c.Node.Name] = seenAt[trace.Claim]{c, i}
		if newest.Less(c.Epoch) {
			newest, since = c.Epoch, at
		}
	}, trace.Took)
	var up []string
	for _, e := range h.Entries {
		if e.Observed != nil {
			up = e.Observed.Up
		}
	}
	maps.DeleteFunc(last, func(name string, _ seenAt[trace.Claim]) bool { return !slices.Contains(up, name) })
	return last, newest, since
}

// Behind reports whether a node that runs uses an older table than another one.
func (h *History) Behind() bool {
	last, newest, _ := h.tables()
	for _, l := range last {
		if l.v.Epoch != newest {
			return true
		}
	}
	return false
}

// L16: while faults affect only metas and the database, every change of a
// client is stored in time.
func writesGoOn(h *History, v *Verdict) {
	faults := h.faultSpans()
	h.allStored(v, "faults affected only metas and the database", func(at time.Duration, _ string) bool {
		// The end of a node, graceful or not, has effects for a session grace.
		return faults.onlyOn(at-StoredTimeout-SessionGrace-5*time.Second, at, "meta-", testbed.Database)
	})
}

// L17: each row is a chain of compare-and-swaps: no two writes replace the same
// epoch of a row, and each writes a higher epoch than it replaces. And no table
// is published before the statement that writes it.
func writesFormAChain(h *History, v *Verdict) {
	replaced := map[string]seenAt[trace.Claim]{}
	type announced struct {
		node  conclave.NodeID
		table conclave.Epoch
	}
	published := map[announced]int{}
	h.events(func(i int, at time.Duration, c trace.Claim) {
		switch c.Kind {
		case trace.Publishing:
			published[announced{c.Node, c.Epoch}] = i
			return
		case trace.Writing:
			before, early := published[announced{c.Node, c.Epoch}]
			v.check(!early, h, at, []int{before, i}, "%s writes %s %s, which it has already published", c.Node, c.Subject, c.Epoch)
			return
		}
		if !c.Flag || c.Subject == "seal" {
			return
		}
		v.check(c.Base.Less(c.Epoch), h, at, []int{i}, "%s wrote %s %s over %s", c.Node, c.Subject, c.Epoch, c.Base)
		k := fmt.Sprint(c.Subject, c.Base)
		other, twice := replaced[k]
		v.check(!twice || other.v.Key == c.Key, h, at, []int{other.i, i}, "%s and %s both replaced %s %s", other.v.Node, c.Node, c.Subject, c.Base)
		replaced[k] = seenAt[trace.Claim]{c, i}
	}, trace.Publishing, trace.Writing, trace.Wrote)
	h.rowsRise(v)
}

// rowsRise checks, by the order of the database, that every change of a row
// raises its epoch, however late a statement is executed.
func (h *History) rowsRise(v *Verdict) {
	rows := map[string]seenAt[conclave.Epoch]{} // "": the last seal, which covers all rows
	h.events(func(i int, at time.Duration, c trace.Claim) {
		if c.Count == 0 || c.Epoch.IsZero() {
			return
		}
		before := rows[c.Key]
		if before.v.Less(rows[""].v) {
			before = rows[""]
		}
		v.check(before.v.Less(c.Epoch), h, at, []int{before.i, i}, "row %s goes from %s to %s in the database", c.Key, before.v, c.Epoch)
		rows[c.Key] = seenAt[conclave.Epoch]{c.Epoch, i}
	}, trace.Landed)
}
