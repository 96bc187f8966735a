package simulated

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"conclave/testbed"
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
	// The network calls with its lock held, which guards these fields.
	tap      *wiretap.Tap
	messages []sent
	segments []int // the index in messages, plus one, of the last message in each segment
	chained  func(simnet.Sent)

	ended atomic.Bool // the cluster is being closed, which is no part of it

	mu     sync.Mutex // guards the rest
	states []seen
}

// sent is a message.
type sent struct {
	wiretap.Message
	from, to string
	at       time.Time
	before   int // the message before it in its segment, as in Recording.segments
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
	if r.ended.Load() {
		return
	}
	for uint64(len(r.segments)) <= s.Segment {
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

// add adds a message, or a part of one that was sent at this instant.
func (r *Recording) add(s simnet.Sent, now time.Time, m wiretap.Message) {
	for i := r.segments[s.Segment]; i > 0; i = r.messages[i-1].before {
		if same := &r.messages[i-1]; same.SameConversation(m) {
			same.Add(m)
			return
		}
	}
	from, _, _ := strings.Cut(s.From, ":")
	to, _, _ := strings.Cut(s.To, ":")
	r.messages = append(r.messages, sent{Message: m, from: from, to: to, at: now, before: r.segments[s.Segment]})
	r.segments[s.Segment] = len(r.messages)
}

// fate records what became of a segment. Of a segment that is served in pieces the
// last one counts.
func (r *Recording) fate(segment uint64, arrived bool) {
	if r.ended.Load() {
		return
	}
	now := time.Now()
	for i := r.segments[segment]; i > 0; i = r.messages[i-1].before {
		m := &r.messages[i-1]
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
	if n := len(r.states); n > 0 && looksSame(r.states[n-1].state, s) {
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
	w, err := journal.NewWriter(to, journal.Header{
		Name: result.Scenario.Name, Text: result.Scenario.String(), Cluster: h.Cluster, HasEvents: h.HasEvents, Began: h.Began.UTC(),
	})
	if err != nil {
		return err
	}
	since := func(at time.Time) time.Duration { return at.Sub(h.Began) }
	end := h.End()
	records := make([]journal.Record, 0, len(h.Entries)+len(r.messages)+len(r.states))
	for i, e := range h.Entries {
		records = append(records, journal.Record{At: e.At, Entry: &h.Entries[i]})
	}
	for _, m := range r.messages {
		records = append(records, journal.Record{At: since(m.at), Message: &journal.Message{
			From: m.from, To: m.to, Conn: m.Conn, What: m.What(), Kind: m.Kind, Bytes: m.Bytes, Fate: m.fate, Took: m.took,
		}})
	}
	for i, s := range r.states {
		records = append(records, journal.Record{At: since(s.at), State: &r.states[i].state})
	}
	slices.SortStableFunc(records, func(a, b journal.Record) int { return cmp.Compare(a.At, b.At) })
	for _, x := range records {
		if x.At > end {
			break
		}
		if err := w.Write(x); err != nil {
			return err
		}
	}
	return w.Close(journal.Result{Failures: result.Failures, Verdicts: result.Verdicts})
}
