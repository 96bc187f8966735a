package recorded

import (
	"slices"
	"strings"
	"time"

	"conclave/internal/trace"
	"conclave/slot"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/console"
	"conclave/testbed/console/journal"
)

// scene is what the records before a position have left.
type scene struct {
	r     *journal.Recording
	hosts []string
	n     int // records that have happened

	snapshot *testbed.Snapshot   // the newest one
	sessions map[string][]string // that know a client
	terms    []console.Term
	beliefs  console.Beliefs
	causes   map[string]string // for which nodes compete
	moves    console.Moves
	followed followed
	active   testbed.ActiveFaults
	links    map[string]console.Link
}

func newScene(r *journal.Recording, hosts []string) *scene {
	return &scene{
		r: r, hosts: hosts, sessions: map[string][]string{}, causes: map[string]string{}, beliefs: console.Beliefs{}, moves: console.Moves{}, followed: followed{held: map[string]stream{}},
		links: map[string]console.Link{},
	}
}

// to goes on, or back, to the position behind n records.
func (s *scene) to(n int) *scene {
	if n < s.n {
		s = newScene(s.r, s.hosts)
	}
	for ; s.n < n; s.n++ {
		switch rec := s.r.Records[s.n]; {
		case rec.Message != nil:
			if cause := causes[rec.Message.What]; cause != "" {
				s.causes[rec.Message.From] = cause
			}
			s.followed.read(rec)
		case rec.State != nil:
			s.moves.Note(rec.At.Milliseconds(), s.table(), rec.State.Table)
			s.snapshot = rec.State
		default:
			s.entry(rec.Entry)
		}
	}
	return s
}

// table returns the newest slot table.
func (s *scene) table() (t slot.Table) {
	if s.snapshot != nil {
		t = s.snapshot.Table
	}
	return t
}

// causes are the causes of elections, by the statement that won.
var causes = map[string]string{
	"SQL win vacant": "resigned", "SQL win witness": "killed", "SQL win expired": "expired", "SQL win overdue": "overdue", "SQL win own": "restarted",
}

// entry takes an entry of the history.
func (s *scene) entry(e *check.Entry) {
	switch {
	case e.Fault != nil && e.Fault.Err == nil:
		s.fault(e.At, e.Fault.Action)
	case e.Op != nil && e.Op.Kind == check.OpConnected:
		s.sessions[e.Op.Client] = e.Op.Values
	case e.Event == nil:
	case e.Event.Kind == trace.Led:
		t := console.Term{Term: e.Event.Term, Owner: e.Event.Node.Name, Cause: s.causes[e.Event.Node.Name], At: e.At.Milliseconds()}
		if n := len(s.terms); n == 0 {
			t.Cause = "first"
		} else {
			t.Previous = s.terms[n-1].Owner
			t.LeaderlessMs = max(0, t.At-s.beliefs.Of(t.Previous, s.terms[n-1].Term).To)
		}
		s.terms = append(s.terms, t)
		fallthrough
	case e.Event.Kind == trace.Extended:
		s.beliefs.Trusts(e.Event.Node.Name, e.Event.Term, e.At.Milliseconds(), e.Event.Until.Sub(s.r.Began).Milliseconds())
	case e.Event.Kind == trace.Left:
		s.beliefs.Left(e.Event.Node.Name, e.Event.Term, e.At.Milliseconds())
	}
}

// fault takes an action that was carried out.
func (s *scene) fault(at time.Duration, a testbed.Action) {
	switch a.Verb {
	case testbed.Kill:
		s.active.Note(testbed.Action{Verb: testbed.Resume, Node: a.Node})
		s.beliefs.Left(a.Node, 0, at.Milliseconds())
		s.followed.end(a.Node, at)
	case testbed.Stop:
		if s.lasts(testbed.Kill, a.Node) {
			return
		}
	case testbed.Cut, testbed.CutOne, testbed.Slow, testbed.Mend:
		s.link(a)
	}
	s.active.Note(a)
}

// lasts reports whether what an action has done to a node lasts.
func (s *scene) lasts(verb testbed.Verb, node string) bool {
	return slices.ContainsFunc(s.active.List(), func(a testbed.Action) bool { return a.Verb == verb && a.Node == node })
}

// link notes a cut, a delay or their end, between two hosts or one and all others.
func (s *scene) link(a testbed.Action) {
	peers := []string{a.Peer}
	if a.Peer == "" {
		peers = s.hosts
	}
	for _, peer := range peers {
		if peer == a.Node {
			continue
		}
		ends := []string{a.Node, peer}
		slices.Sort(ends)
		key, what := strings.Join(ends, " "), "cut"
		switch a.Verb {
		case testbed.Mend:
			delete(s.links, key)
			continue
		case testbed.Slow:
			what = "slow"
		}
		s.links[key] = console.Link{A: ends[0], B: ends[1], What: what}
	}
}

// stateOf returns what a node does, by the newest snapshot and the actions since.
func (s *scene) stateOf(name string) string {
	up := s.snapshot != nil && slices.Contains(s.snapshot.Up, name)
	switch {
	case s.lasts(testbed.Kill, name):
		return "killed"
	case s.lasts(testbed.Stop, name) && !up:
		return "exited"
	case s.lasts(testbed.Pause, name):
		return "suspended"
	case s.lasts(testbed.Stop, name):
		return "draining"
	case s.snapshot == nil || !slices.Contains(s.snapshot.Ready, name):
		return "starting"
	}
	return "ready"
}

// stream is the stream of a node to a meta, on a connection.
type stream struct {
	conn int
	meta string
}

// followed is which metas hold the streams of nodes, as far as messages show it.
type followed struct {
	held    map[string]stream // by node, when the messages were sent
	changes []follow
}

// follow is which meta holds a node's stream from a time on; "": none does.
type follow struct {
	at         time.Duration
	node, meta string
}

// read takes a message. A meta that leads answers on a stream with beats; a refusal
// has no term. A stream ends by itself or with its connection: for the node when it
// ends it, or when it learns of it.
func (f *followed) read(r journal.Record) {
	m := r.Message
	call, what, _ := strings.Cut(m.What, ": ")
	arrived := m.Fate == journal.Arrived
	switch {
	case call == "Join" && strings.HasPrefix(what, "term") && m.Kind == journal.Answer:
		if now := (stream{m.Conn, m.From}); arrived && f.held[m.To] != now {
			f.held[m.To] = now
			f.changes = append(f.changes, follow{r.At + m.Took, m.To, m.From})
		}
	case call == "connection", call == "Join" && (what == "cancelled" || strings.HasPrefix(what, "ended")):
		if f.held[m.From] == (stream{m.Conn, m.To}) {
			f.end(m.From, r.At)
		} else if f.held[m.To] == (stream{m.Conn, m.From}) && arrived {
			f.end(m.To, r.At+m.Took)
		}
	}
}

// end notes that a node's stream ends at a time, if it has one.
func (f *followed) end(node string, at time.Duration) {
	if _, ok := f.held[node]; ok {
		delete(f.held, node)
		f.changes = append(f.changes, follow{at, node, ""})
	}
}

// metas returns which meta each node follows at a time.
func (f *followed) metas(at time.Duration) map[string]string {
	last := map[string]follow{}
	for _, c := range f.changes {
		if l, known := last[c.node]; c.at <= at && (!known || c.at >= l.at) {
			last[c.node] = c
		}
	}
	out := map[string]string{}
	for node, c := range last {
		out[node] = c.meta
	}
	return out
}
