package recorded

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/console"
	"conclave/testbed/console/journal"
)

const (
	messagesShown = 40 // in the sequence diagram
	eventsShown   = 300
	beforeShown   = 20 // events before a violation
)

// position is what is shown.
type position struct {
	n         int           // the records before it have happened
	at        time.Duration // the time of the page; that of the last record, or later
	between   []string      // the hosts of the sequence diagram
	transport bool          // its messages of the transport too
	why       map[int]bool  // messages of a chain, which are emphasized
	whyAt     int           // n when it was asked for
}

// view makes the states of a recording.
type view struct {
	*journal.Recording
	hosts  []string // that send messages
	marks  []console.Mark
	steps  []console.Step
	broken []broken
	scene  *scene
}

// broken is a violation, and the number of the record at its time.
type broken struct {
	n  int
	id string
	check.Violation
}

func newView(r *journal.Recording) *view {
	v := &view{Recording: r}
	mark := func(at time.Duration, kind, what string) {
		v.marks = append(v.marks, console.Mark{AtMs: millis(at), Kind: kind, What: what})
	}
	hosts := map[string]bool{}
	for _, x := range r.Records {
		switch e := x.Entry; {
		case x.Message != nil:
			hosts[x.Message.From], hosts[x.Message.To] = true, true
		case isFault(x):
			mark(x.At, "fault", e.Fault.Action.String())
			v.steps = append(v.steps, console.Step{AtMs: x.At.Milliseconds(), What: e.Fault.Action.String()})
		case isElection(x):
			mark(x.At, "election", fmt.Sprintf("%s leads term %d", e.Event.Node.Name, e.Event.Term))
		}
	}
	for _, w := range r.Result.Verdicts {
		for _, x := range w.Violations {
			v.broken = append(v.broken, broken{min(r.Search(x.At), max(0, len(r.Records)-1)), w.ID, x})
			mark(x.At, "violation", w.ID+": "+x.What)
		}
	}
	slices.SortStableFunc(v.broken, func(a, b broken) int { return cmp.Compare(a.n, b.n) })
	slices.SortStableFunc(v.marks, func(a, b console.Mark) int { return cmp.Compare(a.AtMs, b.AtMs) })
	v.hosts = slices.SortedFunc(maps.Keys(hosts), compareHosts)
	v.scene = newScene(r, v.hosts)
	return v
}

// isFault reports whether a record is an action, also one that ends a fault.
func isFault(r journal.Record) bool {
	return r.Entry != nil && r.Entry.Fault != nil && r.Entry.Fault.Err == nil
}

// isElection reports whether a node leads from a record on.
func isElection(r journal.Record) bool {
	return r.Entry != nil && r.Entry.Event != nil && r.Entry.Event.Kind == trace.Led
}

// compareHosts orders hosts as a message passes through them: clients, sessions,
// data nodes, metas, the database, and what else there is.
func compareHosts(a, b string) int {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

func rank(host string) int {
	if i := slices.Index([]string{"client", "session", "data", "meta", testbed.Database}, testbed.RoleOf(host)); i >= 0 {
		return i
	}
	return 9
}

// millis returns a time as the page has it.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// state returns the state at a position.
func (v *view) state(p position) console.State {
	v.scene = v.scene.to(p.n)
	s := console.State{
		Mode: "recording", Why: true, Title: "recording of " + v.Name, Now: p.at.Milliseconds(), Marks: v.marks,
		Nodes: map[string]console.Node{}, Clients: v.clients(), Links: maps.Clone(v.scene.links), Messages: v.messages(p),
	}
	if now := v.scene.snapshot; now != nil {
		s.Epoch, s.Slots = now.Table.Epoch.String(), console.Slots(now.Table, v.scene.moves)
		if now.Frozen {
			s.Protected = "arranging is off"
		}
	}
	v.elections(&s)
	v.nodes(&s, p)
	v.promises(&s, p)
	v.scenario(&s, p)
	return s
}

// nodes shows the nodes of the cluster and the database.
func (v *view) nodes(s *console.State, p position) {
	metas := v.scene.followed.metas(p.at)
	for _, name := range append(v.Cluster.Nodes(), testbed.Database) {
		n := console.Node{Role: testbed.RoleOf(name), State: v.scene.stateOf(name), Observer: v.scene.lasts(testbed.Quit, name)}
		n.Count(name, s.Slots)
		if v.scene.snapshot != nil && slices.Contains(v.scene.snapshot.Forbid, name) {
			n.Member, n.Listed = "blacklisted", "is on the blacklist"
		}
		for _, client := range s.Clients {
			if client.Session == name {
				n.Clients++
			}
		}
		for _, t := range v.scene.terms {
			if b := v.scene.beliefs.Of(name, t.Term); s.Now < b.To {
				n.Believes, n.Leads = true, t.Term == s.Term
				n.Until, n.LeaseOf = b.To, v.Cluster.Lease.Milliseconds()
			}
		}
		if n.State != "killed" && n.State != "exited" {
			n.Meta = metas[name]
		}
		if n.Leads {
			s.Leader = name
		}
		s.Nodes[name] = n
	}
}

// elections shows the terms before the position, and the newest one.
func (v *view) elections(s *console.State) {
	s.Terms, s.Believed = map[string]console.Term{}, v.scene.beliefs.At(s.Now)
	for _, t := range v.scene.terms {
		s.Term = max(s.Term, t.Term)
		s.Terms[strconv.FormatUint(t.Term, 10)] = t
	}
}

// clients shows the clients that sessions know.
func (v *view) clients() map[string]console.Client {
	out := map[string]console.Client{}
	for name, sessions := range v.scene.sessions {
		for _, s := range sessions {
			session, _, _ := strings.Cut(s, "@")
			out[name+" "+session] = console.Client{Name: name, Session: session}
		}
	}
	return out
}

// promises shows what the checkers found in the whole run, and the violations that
// have happened at the position.
func (v *view) promises(s *console.State, p position) {
	s.Promises = map[string]console.Promise{}
	for _, w := range v.Result.Verdicts {
		x := console.Promise{ID: w.ID, Says: w.Says, Checks: w.Checks}
		for _, b := range w.Violations {
			if b.At <= p.at {
				x.Broken++
			}
		}
		s.Promises[w.ID] = x
	}
	_, end := v.Span()
	s.Checking = &console.Checking{Until: end.Milliseconds(), Entries: len(v.Records), How: "the whole run was checked when it was recorded"}
	if len(v.broken) == 0 || v.broken[0].n >= p.n {
		return
	}
	b := v.broken[0]
	s.Broken = &console.Broken{At: b.At.Milliseconds(), ID: b.id, What: b.What, Evidence: b.Evidence}
	for _, e := range v.events(0, b.n, beforeShown) {
		s.Broken.Before = append(s.Broken.Before, fmt.Sprintf("%9.3fs %s", float64(e.At)/1000, e.Text))
	}
}

// scenario shows what was done, as steps.
func (v *view) scenario(s *console.State, p position) {
	_, end := v.Span()
	play := &console.Play{Name: v.Name, About: "as it was recorded", Lasts: end.Milliseconds(), State: "playing", Steps: slices.Clone(v.steps)}
	for i, m := range play.Steps {
		play.Steps[i].Done = m.AtMs <= s.Now
	}
	if p.n >= len(v.Records) {
		play.State = "passed"
		if len(v.broken)+len(v.Result.Failures) > 0 {
			play.State, play.Result = "failed", v.Result.Failures
		}
	}
	s.Play = play
}

// events returns the last events among the records from one number to another, at
// most that many.
func (v *view) events(from, to, most int) (out []console.Event) {
	for n := to - 1; n >= from && len(out) < most; n-- {
		if e := v.Records[n].Entry; isEvent(e) {
			out = append(out, eventOf(e))
		}
	}
	slices.Reverse(out)
	return out
}

// messages returns the last messages between the hosts of the diagram.
func (v *view) messages(p position) (out []console.Message) {
	for n := p.n - 1; n >= 0 && (len(out) < messagesShown || p.n == p.whyAt); n-- {
		if r := v.Records[n]; p.shows(r) && len(out) < messagesShown || p.why[n] { // those of the chain may be older
			out = append(out, messageOf(n, r, p.at))
			out[len(out)-1].Why = p.why[n]
		}
	}
	slices.Reverse(out)
	return out
}

// why returns what led to the record of a number; "": to a violation at the position, at the
// end to what failed without one, or else to the last event or message that is shown.
func (v *view) why(p position, of string) []journal.Link {
	n, err := strconv.Atoi(of)
	for _, b := range v.broken {
		if err != nil && b.n == p.n-1 {
			return journal.WhyBroken(v.Records, v.Began, b.id, b.Violation)
		}
	}
	if failed := v.Result.Failures; err != nil && len(failed) > 0 && len(v.broken) == 0 && p.n >= len(v.Records) {
		return journal.WhyBroken(v.Records, v.Began, v.Name, check.Violation{At: v.Result.FailedAt, What: failed[0]})
	}
	if err != nil {
		for n = p.n - 1; n >= 0 && !isEvent(v.Records[n].Entry) && !p.shows(v.Records[n]); n-- {
		}
	}
	return journal.Why(v.Records[:p.n], v.Began, n)
}

// shows reports whether a record is a message of the sequence diagram.
func (p position) shows(r journal.Record) bool {
	m := r.Message
	return m != nil && (p.transport || m.Kind != journal.Transport) && slices.Contains(p.between, m.From) && slices.Contains(p.between, m.To)
}

// messageOf returns a message as it is at a time.
func messageOf(n int, r journal.Record, now time.Duration) console.Message {
	m := r.Message
	out := console.Message{
		ID: uint64(n), SentMs: millis(r.At), GotMs: -1, From: m.From, To: m.To, What: m.What, Bytes: m.Bytes,
		Kind: []string{"request", "answer", "transport"}[m.Kind%3], Fate: "on its way",
	}
	if m.Fate != journal.Pending && r.At+m.Took <= now {
		out.GotMs = millis(r.At + m.Took)
		out.Fate = map[journal.Fate]string{journal.Arrived: "arrived", journal.Lost: "lost"}[m.Fate]
	}
	return out
}

// left out are the events of which there are many for each registration, and those
// around each statement: the messages show them too.
var leftOut = map[trace.Kind]bool{
	trace.Looking: true, trace.Looked: true, trace.Renewing: true, trace.Renewed: true, trace.Extended: true, trace.Leasing: true,
	trace.Landing: true, trace.Landed: true, trace.Publishing: true, trace.Admitted: true, trace.Adopted: true, trace.Copied: true,
	trace.Read: true, trace.Storing: true, trace.Stored: true, trace.Removed: true, trace.Merging: true, trace.Answering: true,
	trace.Answered: true, trace.Accepted: true, trace.Settled: true, trace.Counted: true, trace.Pushed: true,
}

// names are the kinds of events that have a name of their own on the page.
var names = map[trace.Kind]string{
	trace.Led: "leader.elected", trace.Left: "leader.left", trace.Serving: "slot.serving", trace.Finished: "slot.finished",
	trace.Granted: "slot.granted", trace.Migrating: "slot.migrating",
}

// isEvent reports whether an entry, nil: none, is an event of the page.
func isEvent(e *check.Entry) bool {
	switch {
	case e == nil:
	case e.Event != nil:
		return !leftOut[e.Event.Kind]
	case e.Fault != nil:
		return true
	case e.Op != nil:
		switch e.Op.Kind {
		case check.OpHealed, check.OpUnheard, check.OpAhead, check.OpEvicted, check.OpProgress:
			return true
		}
	}
	return false
}

// eventOf returns an entry as an event of the page.
func eventOf(e *check.Entry) console.Event {
	out := console.Event{At: e.At.Milliseconds(), Text: e.What()}
	switch c := e.Event; {
	case c != nil:
		out.Node, out.Kind, out.Term = c.Node.Name, string(c.Kind), max(c.Term, c.Epoch.Term)
		if name := names[c.Kind]; name != "" {
			out.Kind = name
			if strings.HasPrefix(name, "slot.") {
				out.Slot = &c.Slot
			}
		}
	case e.Fault != nil:
		out.Node, out.Kind = e.Fault.Node, "fault"
	default:
		out.Node, out.Kind = e.Op.Client, "client."+string(e.Op.Kind)
	}
	return out
}
