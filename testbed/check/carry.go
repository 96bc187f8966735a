package check

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sort"
	"time"

	"conclave"
	"conclave/internal/trace"
)

// A history of hours is cut now and then: what was checked is left out, but for
// what the checkers must know of it to check what follows. That is everything of the
// last minute, and of the time before the last entry about each fact, for instance on
// which node leads a slot at which epoch. Some facts are found by a function beside
// their checker: carriedGrants, carriedCopies, carriedStatements.

const (
	carriedReading  = time.Hour // for which the last reading of a datum is kept
	carriedFaults   = time.Hour // for which a fault is kept after its end
	carriedTerms    = 1000
	carriedRestarts = 4 // incarnations of one name
)

// Resume ends the recording, whose entries until a moment were checked (zero: none
// were), and returns a recorder that continues it from there. Its history has what
// the checkers need of the time before, and no operations of clients: those that go
// on have other names.
func (r *Recorder) Resume(at time.Time) *Recorder {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = true
	next := &Recorder{start: r.start, late: true, h: r.h}
	next.h.Entries = slices.Clone(r.h.Entries)
	slices.SortStableFunc(next.h.Entries, func(a, b Entry) int { return cmp.Compare(a.At, b.At) })
	if at.IsZero() {
		next.h.Entries = slices.DeleteFunc(next.h.Entries, func(e Entry) bool { return e.Op != nil })
		return next
	}
	next.h.Began = r.start
	next.h.cut(at.Sub(r.start), next.h.keptWhole())
	next.start = at
	return next
}

// keptWhole is for how long before a cut everything is kept: what a checker waits for
// must be in it.
func (h *History) keptWhole() time.Duration { return max(carriedWhole, 2*h.serveLimit()) }

// cut leaves out the entries until a moment that the checkers do not need, and makes
// the moment the beginning. whole is for how long before it everything is kept.
func (h *History) cut(at, whole time.Duration) {
	h.Entries = h.carried(at, whole)
	for i := range h.Entries {
		h.Entries[i].At -= at
	}
	h.Resumed, h.Whole, h.Began = true, whole, h.Began.Add(at)
}

// Len returns how many entries were recorded, or carried over.
func (r *Recorder) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.h.Entries)
}

// fact is what entries are about of which the last one says how it is.
type fact struct {
	what trace.Kind
	node conclave.NodeID // that reports it
	peer conclave.NodeID
	slot int
	name string // of a row, a registration or a datum
	term uint64
}

// owned is a registration of a session.
type owned struct {
	session conclave.NodeID
	id      string
}

// carrying collects the entries to keep.
type carrying struct {
	all     []Entry
	last    map[fact]int                 // index of the entry
	pending map[fact]int                 // statements without an answer
	ended   map[owned]int                // registrations that have ended
	removed map[owned]map[nodeSlot]int   // removals of registrations that have not been dropped since
	lives   map[string][]conclave.NodeID // incarnations by name, the newest last
	term    uint64
}

// carried returns the entries that are kept of a history that is cut at a moment,
// with everything of the nodes for some time before it.
func (h *History) carried(cut, before time.Duration) (out []Entry) {
	whole := cut - before
	old := *h // the part of which not everything is kept
	old.Entries = h.Entries[:sort.Search(len(h.Entries), func(i int) bool { return h.Entries[i].At > whole })]
	c := carrying{old.Entries, map[fact]int{}, map[fact]int{}, map[owned]int{}, map[owned]map[nodeSlot]int{}, map[string][]conclave.NodeID{}, 0}
	for i, e := range old.Entries {
		switch {
		case e.Observed != nil:
			c.last[fact{what: "observed"}] = i
		case e.Event != nil:
			c.note(i, *e.Event)
		}
	}
	c.forget(whole)
	keep := map[int]bool{}
	for _, places := range c.removed {
		for _, i := range places {
			keep[i] = true
		}
	}
	for _, some := range []iter.Seq[int]{
		maps.Values(c.last), maps.Values(c.pending), slices.Values(c.answers()),
		slices.Values(old.carriedGrants()), slices.Values(old.carriedCopies(whole-carriedEnded, c.had())), slices.Values(old.carriedStatements()),
	} {
		for i := range some {
			keep[i] = true
		}
	}
	over := h.faultsOver(cut - carriedFaults)
	for i, e := range h.Entries {
		switch {
		case e.Op != nil || e.Usage != nil:
		case keep[i] || i >= len(old.Entries) || e.Fault != nil && !over[i]:
			out = append(out, e)
		}
	}
	return out
}

// had returns the registrations that a session has.
func (c *carrying) had() map[string]bool {
	out := map[string]bool{}
	for of := range c.last {
		if _, ended := c.ended[owned{of.node, of.name}]; of.what == trace.Accepted && !ended {
			out[of.name] = true
		}
	}
	return out
}

// faultsOver returns the faults that had ended at a moment, and what ended them.
func (h *History) faultsOver(at time.Duration) map[int]bool {
	over, lasting := map[int]bool{}, map[string][]int{}
	for i, e := range h.Entries {
		x := e.Fault
		if x == nil || e.At > at {
			continue
		}
		over[i] = true
		switch k := x.Action.Key(); {
		case x.Err != nil:
		case x.Action.EndsFault():
			for _, began := range lasting[k] {
				over[began] = true
			}
			delete(lasting, k)
		case x.Action.Undo().Verb != "":
			over[i], lasting[k] = false, append(lasting[k], i)
		}
	}
	return over
}

// answers returns the answers of sessions to the nodes that do not serve yet.
func (c *carrying) answers() (keep []int) {
	asked := map[slotEpoch]bool{}
	for of, i := range c.last {
		if e := c.all[i].Event; of.what == "place" && e.Kind == trace.Migrating {
			asked[slotEpoch{e.Slot, e.Epoch}] = true
		}
	}
	for i, e := range c.all {
		if c := e.Event; c != nil && c.Kind == trace.Answered && asked[slotEpoch{c.Slot, c.Epoch}] {
			keep = append(keep, i)
		}
	}
	return keep
}

// note takes an event: it is the last one of its fact until now.
func (c *carrying) note(i int, e trace.Claim) {
	if all := c.lives[e.Node.Name]; !slices.Contains(all, e.Node) {
		c.lives[e.Node.Name] = append(all, e.Node)
	}
	c.term = max(c.term, e.Term)
	of := fact{what: e.Kind, node: e.Node}
	switch e.Kind {
	case trace.Looking, trace.Swapping, trace.Renewing, trace.Reparking, trace.Resigning, trace.Writing:
		c.pending[fact{what: outcomes[e.Kind], node: e.Node}] = i
		if e.Subject == "seal" && e.Kind == trace.Writing {
			c.last[fact{what: "seal", term: e.Term}] = i
		}
	case trace.Looked, trace.Swapped, trace.Renewed, trace.Reparked, trace.Resigned, trace.Wrote:
		call, known := c.pending[of]
		delete(c.pending, of)
		if known && e.Err == nil && (e.Kind == trace.Looked || e.Kind == trace.Wrote && e.Flag || e.Kind == trace.Swapped && e.Count > 0) {
			of.name = e.Subject
			c.last[of] = i
			of.what = c.all[call].Event.Kind
			c.last[of] = call
		}
	case trace.Led, trace.Extended, trace.Left:
		of.term = e.Term
		c.last[of] = i
	case trace.Took, trace.Publishing:
		c.last[of] = i
	case trace.Emptied:
		c.last[fact{what: e.Kind, name: e.Node.String()}] = i
	case trace.Promised, trace.Admitted:
		c.highest(of, i, func(before trace.Claim) bool { return before.Term <= e.Term })
	case trace.Landed:
		if e.Count == 0 {
			break
		}
		c.last[fact{what: e.Kind, name: e.Key}] = i
		if e.Subject == "win" || e.Subject == "resign" {
			c.last[fact{what: "owner"}] = i
		}
	case trace.Migrating, trace.Serving, trace.Finished:
		c.last[fact{what: "place", node: e.Node, slot: e.Slot}] = i
		if e.Kind != trace.Finished {
			c.last[fact{what: "led", node: e.Node, slot: e.Slot}] = i
		}
	case trace.Adopted:
		of.slot = e.Slot
		c.last[of] = i
	case trace.Answered:
		of.slot = e.Slot
		c.highest(of, i, func(before trace.Claim) bool { return !e.Epoch.Less(before.Epoch) })
	case trace.Counted:
		c.highest(fact{what: "top", slot: e.Slot}, i, func(before trace.Claim) bool { return before.Version <= e.Version })
		of.slot, of.name = e.Slot, e.Subject
		c.last[of] = i
	case trace.Accepted:
		of.name = e.Subject
		c.last[of] = i
		c.highest(fact{what: "highest", node: e.Node, name: e.Subject}, i, func(before trace.Claim) bool { return before.Version <= e.Version })
		c.first(fact{what: "life", node: e.Node, name: e.Subject}, i)
		c.end(owned{e.Node, e.Subject}, i, e.Flag)
	case trace.Stored:
		of.slot, of.peer, of.name = e.Slot, e.Peer, e.Subject
		c.last[of] = i
	case trace.Removed:
		owner := owned{e.Peer, e.Subject}
		if c.removed[owner] == nil {
			c.removed[owner] = map[nodeSlot]int{}
		}
		c.removed[owner][nodeSlot{e.Node, e.Slot}] = i
	case trace.Pushed:
		of.name = e.Key
		c.last[of] = i
	case trace.Dropped:
		of.name = e.Subject
		c.first(of, i)
		delete(c.removed, owned{e.Node, e.Subject})
		c.end(owned{e.Node, e.Subject}, i, true)
	}
}

// highest notes an entry unless the one before is above it.
func (c *carrying) highest(of fact, i int, above func(before trace.Claim) bool) {
	if before, had := c.last[of]; !had || above(*c.all[before].Event) {
		c.last[of] = i
	}
}

// first notes an entry unless there was one before.
func (c *carrying) first(of fact, i int) {
	if _, had := c.last[of]; !had {
		c.last[of] = i
	}
}

// end notes whether a registration has ended.
func (c *carrying) end(of owned, i int, ended bool) {
	if ended {
		c.ended[of] = i
	} else {
		delete(c.ended, of)
	}
}

// forget leaves out what would add up: facts of registrations that have ended, of
// incarnations and terms that are long gone, and readings of datums that are not read
// any more.
func (c *carrying) forget(whole time.Duration) {
	old := func(n conclave.NodeID) bool {
		all := c.lives[n.Name]
		return !n.IsZero() && slices.Contains(all[:max(0, len(all)-carriedRestarts)], n)
	}
	for of, i := range c.last {
		owner, registered := owned{of.node, of.name}, false
		switch of.what {
		case trace.Accepted, trace.Dropped, "highest", "life":
			registered = true
		case trace.Stored:
			owner.session, registered = of.peer, true
		}
		end, ended := c.ended[owner]
		switch {
		case old(of.node), old(of.peer), of.term > 0 && of.term+carriedTerms < c.term:
		case registered && ended && c.all[end].At < whole-carriedEnded:
		case of.what == trace.Pushed && c.all[i].At < whole-carriedEnded:
		case of.what == trace.Counted && c.all[i].At < whole-carriedReading:
		default:
			continue
		}
		delete(c.last, of)
	}
	for owner := range c.removed {
		if end, ended := c.ended[owner]; old(owner.session) || ended && c.all[end].At < whole-carriedEnded {
			delete(c.removed, owner)
		}
	}
	for of := range c.pending {
		if old(of.node) {
			delete(c.pending, of)
		}
	}
}
