package recorded

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/console/journal"
)

// index is what is read once of the whole recording. Everything in it is in the
// order of the records.
type index struct {
	began    time.Time
	events   []int // records that are shown as events
	messages []message
	faults   []fault
	joined   []connections
	streams  []stream
	terms    []term
	moves    map[int][]move // by slot
	hosts    []string
	broken   []broken
}

// message is where a message is, and what is needed to choose it.
type message struct {
	n         int
	from, to  string
	transport bool
}

type fault struct {
	n int
	check.Fault
}

// connections are the sessions that know a client from one record on.
type connections struct {
	n        int
	client   string
	sessions []string
}

// term is a leadership, and in which interval its node trusted itself to have it.
type term struct {
	n        int
	number   uint64
	node     string
	at, to   time.Duration
	cause    string
	previous string
	gap      time.Duration // without a leader before it
	trusts   []trust
}

// trust is until when a leader trusts itself, from one record on.
type trust struct {
	n     int
	until time.Duration
}

type move struct {
	n        int
	at       time.Duration
	from, to string
}

// broken is a violation.
type broken struct {
	n  int
	id string
	check.Violation
}

// causes are the causes of elections, by the statement that won.
var causes = map[string]string{
	"SQL win vacant": "resigned", "SQL win witness": "killed", "SQL win expired": "expired", "SQL win overdue": "overdue", "SQL win own": "restarted",
}

// read reads a recording from its beginning to its end.
func read(r *journal.Reader) *index {
	x := &index{began: r.Header().Began, moves: map[int][]move{}}
	hosts, wins, held := map[string]bool{}, map[string]string{}, streams{}
	var table *testbed.Snapshot
	for n := range r.Len() {
		rec := r.Record(n)
		switch {
		case rec.Message != nil:
			m := rec.Message
			hosts[m.From], hosts[m.To] = true, true
			x.messages = append(x.messages, message{n, m.From, m.To, m.Kind == journal.Transport})
			if cause := causes[m.What]; cause != "" {
				wins[m.From] = cause
			}
			x.streams = append(x.streams, held.read(rec)...)
		case rec.State != nil:
			if table == nil || table.Table.Epoch != rec.State.Table.Epoch {
				x.moved(n, rec.At, table, rec.State)
				table = rec.State
			}
		default:
			x.entry(n, rec.Entry, wins)
			if f := rec.Entry.Fault; f != nil && f.Err == nil && f.Verb == testbed.Kill {
				x.streams = append(x.streams, held.end(f.Node, rec.At)...)
			}
		}
	}
	slices.SortStableFunc(x.streams, func(a, b stream) int { return cmp.Compare(a.at, b.at) })
	x.hosts = slices.SortedFunc(maps.Keys(hosts), compareHosts)
	for _, v := range r.Result().Verdicts {
		for _, w := range v.Violations {
			x.broken = append(x.broken, broken{min(r.Search(w.At), max(0, r.Len()-1)), v.ID, w})
		}
	}
	slices.SortStableFunc(x.broken, func(a, b broken) int { return cmp.Compare(a.n, b.n) })
	return x
}

// entry notes an entry of the history. wins are the causes for which nodes compete.
func (x *index) entry(n int, e *check.Entry, wins map[string]string) {
	if _, shown := eventOf(e); shown {
		x.events = append(x.events, n)
	}
	switch {
	case e.Fault != nil && e.Fault.Err == nil:
		x.faults = append(x.faults, fault{n, *e.Fault})
		if e.Fault.Verb == testbed.Kill {
			x.left(e.Fault.Node, 0, e.At)
		}
	case e.Op != nil && e.Op.Kind == check.OpConnected:
		x.joined = append(x.joined, connections{n, e.Op.Client, e.Op.Values})
	case e.Event == nil:
	case e.Event.Kind == trace.Led:
		t := term{n: n, number: e.Event.Term, node: e.Event.Node.Name, at: e.At, to: e.At, cause: wins[e.Event.Node.Name]}
		if len(x.terms) == 0 {
			t.cause = "first"
		} else {
			last := x.terms[len(x.terms)-1]
			t.previous, t.gap = last.node, max(0, e.At-last.to)
		}
		x.terms = append(x.terms, t)
		x.trusts(e, n)
	case e.Event.Kind == trace.Extended:
		x.trusts(e, n)
	case e.Event.Kind == trace.Left:
		x.left(e.Event.Node.Name, e.Event.Term, e.At)
	}
}

// trusts notes until when a leader trusts itself.
func (x *index) trusts(e *check.Entry, n int) {
	for i := range x.terms {
		if t := &x.terms[i]; t.number == e.Event.Term && t.node == e.Event.Node.Name {
			until := e.Event.Until.Sub(x.began)
			t.to, t.trusts = max(t.to, until), append(t.trusts, trust{n, until})
		}
	}
}

// left notes that a node does not lead a term any more; 0: whichever it led.
func (x *index) left(node string, number uint64, at time.Duration) {
	for i := range x.terms {
		if t := &x.terms[i]; t.node == node && (number == 0 || t.number == number) && t.to > at {
			t.to = at
		}
	}
}

// moved notes which slots have another leader in a newer table.
func (x *index) moved(n int, at time.Duration, from, to *testbed.Snapshot) {
	for i, s := range to.Table.Slots {
		m := move{n: n, at: at, to: s.Leader.Name}
		if from != nil && i < len(from.Table.Slots) {
			m.from = from.Table.Slots[i].Leader.Name
		}
		if m.from != m.to {
			x.moves[i] = append(x.moves[i], m)
		}
	}
}

// before returns how many of the records in a list come before record n.
func before[T any](list []T, n int, number func(T) int) int {
	i, _ := slices.BinarySearchFunc(list, n, func(t T, n int) int { return cmp.Compare(number(t), n) })
	return i
}

// compareHosts orders hosts as a message passes through them: clients, sessions,
// data nodes, metas, the database, and what else there is.
func compareHosts(a, b string) int {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

func rank(host string) int {
	role, _, _ := strings.Cut(host, "-")
	if i := slices.Index([]string{"client", "session", "data", "meta", testbed.Database}, role); i >= 0 {
		return i
	}
	return 9
}

// millis returns a time as the page has it.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
