package simulated

import (
	"cmp"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/console/journal"
	"conclave/testbed/scenario"
	"conclave/testbed/simulated/simnet"
	"conclave/testbed/simulated/wiretap"
)

// Recording is what passes between the hosts of one cluster, and what the cluster
// looks like, while a scenario is played. It only listens: with it a seed has the
// trace that it has without (TestOneSeedOneTrace). Everything is kept in
// memory until the scenario has ended, because a write to a file would let the
// runtime choose another order.
type Recording struct {
	Without string // a host whose messages are not recorded
	Keep    int    // 0: everything is kept; otherwise this many messages, the newest, or twice as many, and no states

	ended atomic.Bool // the cluster is being closed, which is no part of it

	chained func(simnet.Sent)

	mu       sync.Mutex // guards the rest
	tap      *wiretap.Tap
	messages []sent
	dropped  int    // messages before the first one of them
	segments []int  // the number of the last message in each segment, from 1
	skipped  uint64 // segments before the first one of them
	states   []seen
}

// sent is a message.
type sent struct {
	wiretap.Message
	from, to string
	at       time.Time
	before   int // the number of the one before it in its segment; 0: there is none
	fate     journal.Fate
	took     time.Duration
}

// seen is a state, and when it was first observed.
type seen struct {
	at    time.Time
	state testbed.Snapshot
}

// listen begins to record what a network carries.
func (r *Recording) listen(n *simnet.Net) {
	r.tap, r.chained = wiretap.New(), n.Tap
	n.Tap, n.Fate = r.sent, r.fate
}

// sent records what leaves a host.
func (r *Recording) sent(s simnet.Sent) {
	if r.chained != nil {
		r.chained(s)
	}
	if r.ended.Load() || r.Without != "" && (host(s.From) == r.Without || host(s.To) == r.Without) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Keep > 0 && len(r.messages) >= 2*r.Keep {
		r.drop()
	}
	for r.skipped+uint64(len(r.segments)) <= s.Segment {
		r.segments = append(r.segments, 0)
	}
	now := time.Now()
	if len(s.Data) > 0 {
		for _, m := range r.tap.Sent(s.From, s.To, s.Data) {
			r.add(s, now, m)
		}
	}
	switch s.What {
	case "fin":
		r.add(s, now, r.tap.Ended(s.From, s.To, "closed"))
	case "rst":
		r.add(s, now, r.tap.Ended(s.From, s.To, "reset"))
	}
}

// add adds a message, or a part of one that was sent at this instant; mu is held.
func (r *Recording) add(s simnet.Sent, now time.Time, m wiretap.Message) {
	for same := range r.in(s.Segment) {
		if same.SameConversation(m) {
			same.Add(m)
			return
		}
	}
	r.messages = append(r.messages, sent{Message: m, from: host(s.From), to: host(s.To), at: now})
	if s.Segment >= r.skipped {
		last := &r.segments[s.Segment-r.skipped]
		*last, r.messages[len(r.messages)-1].before = r.dropped+len(r.messages), *last
	}
}

// in are the messages of a segment, the last one first.
func (r *Recording) in(segment uint64) iter.Seq[*sent] {
	return func(yield func(*sent) bool) {
		if segment < r.skipped || segment-r.skipped >= uint64(len(r.segments)) {
			return
		}
		for n := r.segments[segment-r.skipped]; n > r.dropped; {
			m := &r.messages[n-r.dropped-1]
			if n = m.before; !yield(m) {
				return
			}
		}
	}
}

// drop drops the older half of the messages, and the segments before the first one that has
// others.
func (r *Recording) drop() {
	r.messages, r.dropped = slices.Clone(r.messages[r.Keep:]), r.dropped+r.Keep
	n := max(0, slices.IndexFunc(r.segments, func(last int) bool { return last > r.dropped }))
	r.segments, r.skipped = slices.Clone(r.segments[n:]), r.skipped+uint64(n)
}

// host returns the host of an address.
func host(address string) string {
	name, _, _ := strings.Cut(address, ":")
	return name
}

// Newest returns how many messages were recorded, and the newest one as text.
func (r *Recording) Newest() (total int, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.messages); n > 0 {
		m := r.messages[n-1]
		what = m.from + " to " + m.to + ": " + m.What()
	}
	return r.dropped + len(r.messages), what
}

// fate records what became of a segment. Of a segment that is served in pieces the
// last one counts.
func (r *Recording) fate(segment uint64, arrived bool) {
	if r.ended.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for m := range r.in(segment) {
		m.took, m.fate = now.Sub(m.at), journal.Lost
		if arrived {
			m.fate = journal.Arrived
		}
	}
}

// observe records a state if it differs from the last one.
func (r *Recording) observe(s testbed.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.states); r.Keep > 0 || n > 0 && looksSame(r.states[n-1].state, s) {
		return
	}
	r.states = append(r.states, seen{time.Now(), s})
}

// looksSame reports whether two states of one cluster show the same.
func looksSame(a, b testbed.Snapshot) bool {
	return a.Leader == b.Leader && a.Term == b.Term && a.Leads == b.Leads && a.Table.Epoch == b.Table.Epoch && a.Frozen == b.Frozen &&
		slices.Equal(a.Forbid, b.Forbid) && slices.Equal(a.Up, b.Up) && slices.Equal(a.Ready, b.Ready)
}

// Write writes the recording of a scenario that has ended. What was sent after
// that, when the cluster was closed, is no part of it.
func (r *Recording) Write(to io.Writer, result *scenario.Result) error {
	h := result.History
	file := journal.Recording{
		Header:  journal.Header{Name: result.Scenario.Name, Text: result.Scenario.String(), Cluster: h.Cluster, HasEvents: h.HasEvents, Began: h.Began.UTC()},
		Records: r.Records(h),
		Result:  journal.Result{Failures: result.Failures, FailedAt: result.FailedAt, Verdicts: result.Verdicts},
	}
	return file.Write(to)
}

// Records returns what was recorded until the end of a history, with its entries, in the
// order of the times.
func (r *Recording) Records(h *check.History) []journal.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := func(at time.Time) time.Duration { return at.Sub(h.Began) }
	records := make([]journal.Record, 0, len(h.Entries)+len(r.messages)+len(r.states))
	for i, e := range h.Entries {
		records = append(records, journal.Record{At: e.At, Entry: &h.Entries[i]})
	}
	for _, m := range r.messages {
		records = append(records, journal.Record{At: since(m.at), Message: &journal.Message{
			From: m.from, To: m.to, Conn: m.Conn, Stream: m.Stream, What: m.What(), Kind: m.Kind, Bytes: m.Bytes, Fate: m.fate, Took: m.took,
		}})
	}
	for i, s := range r.states {
		records = append(records, journal.Record{At: since(s.at), State: &r.states[i].state})
	}
	slices.SortStableFunc(records, func(a, b journal.Record) int { return cmp.Compare(a.At, b.At) })
	end := h.End()
	return slices.DeleteFunc(records, func(x journal.Record) bool { return x.At > end })
}
