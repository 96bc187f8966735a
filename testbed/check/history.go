package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/testbed"
)

// History is everything that was recorded of one run, in the order in which it
// was recorded: events under one lock of a node, and entries of one client, are
// in the order of the facts. It is only data; checkers read it.
type History struct {
	Scenario  string
	Cluster   testbed.Size
	HasEvents bool      // whether it contains the nodes' events
	Joined    bool      // it begins in the midst of a run: of the time before 0 it has only faults
	Began     time.Time // the clock when the scenario began
	Entries   []Entry
}

// Entry is one thing that happened. Exactly one of the pointers is set.
type Entry struct {
	At       time.Duration  `json:"-"` // since the scenario began; negative before that
	Event    *trace.Claim   `json:"event,omitempty"`
	Fault    *Fault         `json:"fault,omitempty"`
	Op       *Op            `json:"op,omitempty"`
	Observed *Observation   `json:"observed,omitempty"`
	Usage    *testbed.Usage `json:"usage,omitempty"` // what a node with a budget had to do since its last such entry
}

// Fault is an act that was carried out.
type Fault struct {
	testbed.Action
	Undo bool  // it ends a fault
	Err  error `json:"-"`
}

// Op is something that a client did, received or saw, or that the player found.
type Op struct {
	Client  string
	Kind    OpKind
	Name    string        // the dataId, for most kinds
	ID      string        // of the registration; of the subscriber, for pushes
	Version int64         // of the registration, or of the datum pushed
	Values  []string      // published, seen, or wanted
	Linger  time.Duration // of OpWithdraw: for so long its values are shown, because the client has left with a linger; of OpConnected: likewise, instead of for a client lease, because they stay after its connection has ended
	Lease   time.Duration // of OpWithdraw and OpConnected: for so long its values may be shown, and are sure to be with OpConnected, because no session sees that the client has died
	Refused bool          // of OpUnheard: the registry has refused it, and was not only silent until the client gave up
	Err     error         `json:"-"`
}

// OpKind is a kind of Op.
type OpKind string

// The kinds.
const (
	OpPublish   OpKind = "publish"   // a new registration, or a new version of it
	OpWithdraw  OpKind = "withdraw"  // from now on its values may be missing; Version is 0 if the client was killed instead
	OpStored    OpKind = "stored"    // a data node has acknowledged Version
	OpUnheard   OpKind = "unheard"   // no data node acknowledged Version in time
	OpPush      OpKind = "push"      // a subscriber received Values
	OpConnected OpKind = "connected" // Values are the sessions that know the client now
	OpRead      OpKind = "read"      // after the healing: what a new reader sees
	OpWant      OpKind = "want"      // and what live clients publish there
	OpHealed    OpKind = "healed"    // all faults were ended; from now on progress is expected
	OpCompared  OpKind = "compared"  // Version is how many pairs of a leader's and a follower's copy were compared since the last such entry; Values are those that differ
	OpAhead     OpKind = "ahead"     // the node Client is about to be lost, or was evicted, and no other node has all its changes of the slots in Values
	OpEvicted   OpKind = "evicted"   // the node Client runs and is not a member any more; recorded once a burst has begun
	OpProgress  OpKind = "progress"  // the condition Name became true in time, or Err is set; Values are the lists that are not full ("client-1 service-2")
)

// Observation is what was observed from outside; it is recorded when it changes.
type Observation struct {
	Leader string
	Term   uint64
	Leads  int
	Epoch  conclave.Epoch
	Stable bool
	Even   bool
	Frozen bool
	Unled  int // slots whose leader does not run
	Up     []string
}

// Recorder writes a History. Its methods may be called from any goroutine and
// with locks held, because they only append.
type Recorder struct {
	mu    sync.Mutex // guards the rest
	start time.Time
	h     History
	shut  bool
	late  bool // some entries are out of order
	stale int  // commands and writes of an older term that were refused
}

// NewRecorder begins a history.
func NewRecorder(scenario string, c testbed.Size) *Recorder {
	return &Recorder{start: time.Now(), h: History{Scenario: scenario, Cluster: c}}
}

// Begin makes this moment the beginning of the scenario.
func (r *Recorder) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for i := range r.h.Entries {
		r.h.Entries[i].At -= now.Sub(r.start)
	}
	r.start = now
}

// Event records an event of a node; it is a trace.Sink.
func (r *Recorder) Event(c trace.Claim) { r.add(Entry{Event: &c}) }

// Late records an event that happened earlier.
func (r *Recorder) Late(at time.Time, c trace.Claim) { r.addAt(at, Entry{Event: &c}) }

// Earlier records a fault that took effect earlier.
func (r *Recorder) Earlier(at time.Time, f Fault) { r.addAt(at, Entry{Fault: &f}) }

func (r *Recorder) addAt(at time.Time, e Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At, r.late = at.Sub(r.start), true
	r.h.Entries = append(r.h.Entries, e)
}

// Fault records an act.
func (r *Recorder) Fault(f Fault) { r.add(Entry{Fault: &f}) }

// Op records what a client did or saw.
func (r *Recorder) Op(o Op) {
	o.Values = slices.Clone(o.Values)
	r.add(Entry{Op: &o})
}

// Observe records an observation from outside.
func (r *Recorder) Observe(s Observation) { r.add(Entry{Observed: &s}) }

// Usage records what a node with a budget had to do.
func (r *Recorder) Usage(u testbed.Usage) { r.add(Entry{Usage: &u}) }

func (r *Recorder) add(e Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut {
		return // the cluster is being closed, which is no part of the scenario
	}
	if e.Event != nil && refusal(*e.Event) {
		r.stale++
	}
	e.At = time.Since(r.start)
	r.h.Entries = append(r.h.Entries, e)
}

// Refused returns how many commands and writes of an older term were refused.
func (r *Recorder) Refused() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stale
}

// refusal reports whether a command or a write was refused because its term is
// stale.
func refusal(c trace.Claim) bool {
	return c.Kind == trace.Refused || c.Kind == trace.Wrote && !c.Flag && c.Err == nil && c.Subject != "seal"
}

func sortByTime(all []Entry) {
	slices.SortStableFunc(all, func(a, b Entry) int { return cmp.Compare(a.At, b.At) })
}

// History ends the recording and returns the history. claims becomes
// History.HasEvents: whether it contains the nodes' events.
func (r *Recorder) History(claims bool) *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = true
	r.h.HasEvents, r.h.Began = claims, r.start
	if r.late {
		sortByTime(r.h.Entries)
	}
	h := r.h
	return &h
}

// joinTime bounds how long what was sent is on its way while nothing fails.
const joinTime = time.Minute

// joining returns until when what was sent before a joined history began may arrive in
// it: until nothing has failed for joinTime.
func (h *History) joining() time.Duration {
	if !h.Joined {
		return math.MinInt64
	}
	var all []span
	for host, spans := range h.faultSpansBut(testbed.Verb.IsCommand) {
		if !strings.HasPrefix(host, "client-") {
			all = append(all, spans...)
		}
	}
	until := time.Duration(0)
	for _, s := range merged(all) {
		if s.from > until+joinTime {
			break
		}
		until = max(until, s.to)
	}
	return until + joinTime
}

// faultsKept is for how long a fault that has ended is kept in a recording that goes
// on.
const faultsKept = time.Hour

// Resume ends the recording, whose entries until a moment were checked (zero: none
// were), and returns a recorder that goes on from there. Of the time before, it has
// the faults that last or began in the last hour. It has no operations of clients:
// those that go on publish other datums.
func (r *Recorder) Resume(at time.Time) *Recorder {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = true
	return r.from(at, r.h.Scenario, r.h.Cluster)
}

// Join returns a recorder of a scenario that begins now, while the recording goes on: of
// the time before, it has the faults, as with Resume.
func (r *Recorder) Join(scenario string, c testbed.Size) *Recorder {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.from(time.Now(), scenario, c)
}

// from returns a recorder with what Resume keeps; mu is held.
func (r *Recorder) from(at time.Time, scenario string, c testbed.Size) *Recorder {
	next := &Recorder{start: r.start, late: true, h: History{Scenario: scenario, Cluster: c, Joined: r.h.Joined || !at.IsZero()}}
	if !at.IsZero() {
		next.start = at
	}
	begins := next.start.Sub(r.start)
	var active testbed.ActiveFaults
	r.h.faults(func(_ int, _ time.Duration, x Fault) { active.Note(x.Action) })
	lasting := active.List()
	for _, e := range r.h.Entries {
		kept := at.IsZero() || e.At > begins || e.Fault != nil && (e.At > begins-faultsKept || slices.Contains(lasting, e.Fault.Action))
		if kept && e.Op == nil {
			e.At -= begins
			next.h.Entries = append(next.h.Entries, e)
		}
	}
	return next
}

// Len returns how many entries were recorded.
func (r *Recorder) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.h.Entries)
}

// SoFar returns what was recorded until now and goes on recording. known reports
// whether the nodes' events are recorded already; if not, they are read with
// events, as testbed.Cluster.Events reads them; nil: there are none, and no error.
func (r *Recorder) SoFar(known bool, events func(report func(time.Time, trace.Claim)) (bool, error)) (*History, error) {
	r.mu.Lock()
	h := r.h
	h.Entries, h.Began, h.HasEvents = slices.Clone(h.Entries), r.start, known
	r.mu.Unlock()
	var err error
	if !known && events != nil {
		h.HasEvents, err = events(func(at time.Time, c trace.Claim) {
			h.Entries = append(h.Entries, Entry{At: at.Sub(h.Began), Event: &c})
		})
	}
	sortByTime(h.Entries)
	return &h, err
}

// GuardEnds returns until when the push guard may hold lists back because every
// copy and every session were lost (losses), by what was recorded so far; 0: it
// may not.
func (r *Recorder) GuardEnds() (ends time.Duration) {
	h, _ := r.SoFar(true, nil) // without events nothing fails
	for _, s := range h.losses() {
		ends = max(ends, s.to+GuardGrace)
	}
	return ends
}

// events calls f with each event of the given kinds, in order; no kinds mean
// all.
func (h *History) events(f func(i int, at time.Duration, c trace.Claim), kinds ...trace.Kind) {
	for i, e := range h.Entries {
		if e.Event != nil && (len(kinds) == 0 || slices.Contains(kinds, e.Event.Kind)) {
			f(i, e.At, *e.Event)
		}
	}
}

// ops calls f with each op of the given kinds, in order; no kinds mean all.
func (h *History) ops(f func(i int, at time.Duration, o Op), kinds ...OpKind) {
	for i, e := range h.Entries {
		if e.Op != nil && (len(kinds) == 0 || slices.Contains(kinds, e.Op.Kind)) {
			f(i, e.At, *e.Op)
		}
	}
}

// observed returns the times in which what was observed has a property.
func (h *History) observed(has func(at time.Duration, o Observation) bool) (out []span) {
	open := false
	for _, e := range h.Entries {
		if e.Observed == nil {
			continue
		}
		had := open
		open = has(e.At, *e.Observed)
		switch {
		case open && !had:
			out = append(out, span{e.At, h.End()})
		case had && !open:
			out[len(out)-1].to = e.At
		}
	}
	return out
}

// faults calls f with each act that succeeded.
func (h *History) faults(f func(i int, at time.Duration, x Fault)) {
	for i, e := range h.Entries {
		if e.Fault != nil && e.Fault.Err == nil {
			f(i, e.At, *e.Fault)
		}
	}
}

// String returns the entry as one line of text.
func (e Entry) String() string { return fmt.Sprintf("%9.3fs %s", e.At.Seconds(), e.What()) }

// What returns the entry as text, without its time.
func (e Entry) What() string {
	switch {
	case e.Event != nil:
		return claimText(*e.Event)
	case e.Fault != nil && e.Fault.Err != nil:
		return "FAULT " + e.Fault.Action.String() + ": " + e.Fault.Err.Error()
	case e.Fault != nil:
		return "FAULT " + e.Fault.Action.String()
	case e.Op != nil:
		o := e.Op
		out := fmt.Sprintf("%s %s %s", o.Client, o.Kind, o.Name)
		if o.Version > 0 {
			out += fmt.Sprintf(" version %d", o.Version)
		}
		if o.Kind != OpStored {
			out += " [" + strings.Join(o.Values, " ") + "]"
		}
		if o.Linger > 0 {
			out += fmt.Sprintf(" lingers %s", o.Linger)
		}
		if o.Lease > 0 {
			out += fmt.Sprintf(" leased for %s", o.Lease)
		}
		if o.Err != nil {
			out += ": " + o.Err.Error()
		}
		return out
	case e.Usage != nil:
		u := e.Usage
		return fmt.Sprintf("%s offered %s waited %s queued %d blocked %d", u.Node, u.Offered, u.Waited, u.Queued, u.Blocked)
	case e.Observed != nil:
		return fmt.Sprintf("seen: leader %q term %d table %s stable %t even %t", e.Observed.Leader, e.Observed.Term, e.Observed.Epoch, e.Observed.Stable, e.Observed.Even)
	}
	return ""
}

func claimText(c trace.Claim) string {
	out := fmt.Sprintf("%s %s", c.Node, c.Kind)
	for _, p := range []struct {
		name string
		show bool
		v    any
	}{
		{"term", c.Term != 0, c.Term}, {"beat", c.Beat != 0, c.Beat}, {"slot", slotted(c.Kind), c.Slot},
		{"epoch", !c.Epoch.IsZero(), c.Epoch}, {"base", !c.Base.IsZero(), c.Base}, {"peer", !c.Peer.IsZero(), c.Peer},
		{"of", c.Subject != "", c.Subject}, {"key", c.Key != "", c.Key}, {"version", c.Version != 0, c.Version},
		{"count", c.Count != 0, c.Count}, {"flag", c.Flag, c.Flag}, {"error", c.Err != nil, c.Err},
	} {
		if p.show {
			out += fmt.Sprintf(" %s %v", p.name, p.v)
		}
	}
	return out
}

func slotted(k trace.Kind) bool {
	switch k {
	case trace.Granted, trace.Copied, trace.Migrating, trace.Serving, trace.Finished, trace.Read, trace.Stored, trace.Removed, trace.OwnerGone,
		trace.Merging, trace.Merged, trace.Differed, trace.Adopted, trace.Answering, trace.Answered, trace.Accepted, trace.Settled, trace.Counted, trace.Pushed, trace.Held:
		return true
	}
	return false
}

// Summarize summarizes an observation. leftOut reports whether a data node need
// not lead its share of the slots; nil: those on the blacklist need not.
func Summarize(s testbed.Snapshot, leftOut func(name string) bool) Observation {
	if leftOut == nil {
		leftOut = func(name string) bool { return slices.Contains(s.Forbid, name) }
	}
	out := Observation{Leader: s.Leader, Term: s.Term, Leads: s.Leads, Epoch: s.Table.Epoch, Frozen: s.Frozen, Up: s.Up}
	out.Stable = len(s.Table.Slots) > 0 && s.Table.StableAll()
	for _, row := range s.Table.Slots {
		if !slices.Contains(s.Up, row.Leader.Name) {
			out.Unled++
		}
	}
	out.Even = out.Stable && out.Unled == 0 && even(s, leftOut)
	return out
}

// even reports whether the data nodes that are not left out lead all slots, and
// equally many of them, give or take one.
func even(s testbed.Snapshot, leftOut func(name string) bool) bool {
	leads := map[string]int{}
	for _, n := range s.Up {
		if strings.HasPrefix(n, "data-") && !leftOut(n) {
			leads[n] = 0
		}
	}
	for _, row := range s.Table.Slots {
		if _, ok := leads[row.Leader.Name]; !ok {
			return false
		}
		leads[row.Leader.Name]++
	}
	least, most := len(s.Table.Slots), 0
	for _, n := range leads {
		least, most = min(least, n), max(most, n)
	}
	return len(leads) > 0 && most-least <= 1
}

// StoredTimeout is how long a client waits until a data node has acknowledged
// its change.
const StoredTimeout = 5 * time.Second

// Reader is the name of the client that reads at the end.
const Reader = "reader"

// ParseValue reads "client-2/7#13".
func ParseValue(v string) (tag string, n int, ok bool) {
	tag, count, ok := strings.Cut(v, "#")
	n, err := strconv.Atoi(count)
	return tag, n, ok && err == nil
}

// End returns the time of the last entry.
func (h *History) End() time.Duration {
	if len(h.Entries) == 0 {
		return 0
	}
	return h.Entries[len(h.Entries)-1].At
}
