package recorded

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/slot"
	"conclave/testbed"
	"conclave/testbed/console"
	"conclave/testbed/console/journal"
)

const (
	messagesShown = 40 // in the sequence diagram
	eventsShown   = 300
	movesShown    = 5
	beforeShown   = 20 // events before a violation
)

// position is what is shown.
type position struct {
	n         int           // the records before it have happened
	at        time.Duration // the time of the page; that of the last record, or later
	between   []string      // the hosts of the sequence diagram
	transport bool          // its messages of the transport too
}

// view makes the states of a recording.
type view struct {
	r     *journal.Reader
	x     *index
	title string
	marks []console.Mark
	steps []console.Step
	slots struct { // of the newest snapshot that was shown
		of    *testbed.Snapshot
		moves int
		shown map[string]console.Slot
	}
}

func newView(r *journal.Reader, x *index) *view {
	v := &view{r: r, x: x, title: r.Header().Name}
	for _, m := range r.Marks() {
		v.marks = append(v.marks, console.Mark{AtMs: millis(m.At), Kind: string(m.Kind), What: m.What})
		if m.Kind == journal.FaultMark {
			v.steps = append(v.steps, console.Step{AtMs: m.At.Milliseconds(), What: m.What})
		}
	}
	return v
}

// state returns the state at a position.
func (v *view) state(p position) console.State {
	snapshot := v.r.StateBefore(p.n)
	now := p.at.Milliseconds()
	s := console.State{
		Mode: "recording", Title: "recording of " + v.title, Now: now, Marks: v.marks,
		Nodes: map[string]console.Node{}, Clients: v.clients(p.n), Slots: v.slotsOf(snapshot, p.n),
	}
	c := v.x.condition(p.n)
	s.Links = c.links
	v.elections(&s, p)
	if snapshot != nil {
		s.Epoch = snapshot.Table.Epoch.String()
		if snapshot.Frozen {
			s.Protected = "arranging is off"
		}
	}
	v.nodes(&s, c, snapshot, p)
	v.promises(&s, p)
	v.scenario(&s, p)
	s.Messages = v.messages(p)
	return s
}

// nodes shows the nodes of the cluster and the database.
func (v *view) nodes(s *console.State, c condition, snapshot *testbed.Snapshot, p position) {
	size, followed := v.r.Header().Cluster, v.x.followed(p.at)
	for _, name := range append(size.Nodes(), testbed.Database) {
		role, _, _ := strings.Cut(name, "-")
		n := console.Node{Role: role, State: c.stateOf(name, snapshot), Observer: c.observer[name]}
		if snapshot != nil {
			for _, row := range snapshot.Table.Slots {
				if row.Leader.Name == name {
					n.Leading++
				} else if row.Names(name) {
					n.Follows++
				}
				if row.Phase != slot.Stable && row.Names(name) {
					n.Moving++
				}
			}
			if slices.Contains(snapshot.Forbid, name) {
				n.Member, n.Listed = "blacklisted", "is on the blacklist"
			}
		}
		for _, client := range s.Clients {
			if client.Session == name {
				n.Clients++
			}
		}
		for _, t := range v.x.terms {
			if t.node == name && t.n < p.n && p.at < t.to {
				n.Believes, n.Leads = true, t.number == s.Term
				if i := before(t.trusts, p.n, func(r trust) int { return r.n }); i > 0 {
					n.Until, n.LeaseOf = t.trusts[i-1].until.Milliseconds(), size.Lease.Milliseconds()
				}
			}
		}
		if n.State != "killed" && n.State != "exited" {
			n.Meta = followed[name]
		}
		if n.Leads {
			s.Leader = name
		}
		s.Nodes[name] = n
	}
}

// elections shows the terms before the position, and the newest one.
func (v *view) elections(s *console.State, p position) {
	s.Terms, s.Believed = map[string]console.Term{}, map[string]console.Span{}
	for _, t := range v.x.terms {
		if t.n >= p.n {
			break
		}
		s.Term = max(s.Term, t.number)
		s.Terms[strconv.FormatUint(t.number, 10)] = console.Term{
			Term: t.number, Owner: t.node, Previous: t.previous, Cause: t.cause, LeaderlessMs: t.gap.Milliseconds(), At: t.at.Milliseconds(),
		}
		span := console.Span{Node: t.node, Term: t.number, From: t.at.Milliseconds(), To: t.to.Milliseconds()}
		if t.to > p.at {
			span.To, span.Open = s.Now, true
		}
		s.Believed[fmt.Sprint(t.node, " ", t.number)] = span
	}
}

// clients shows the clients that sessions know.
func (v *view) clients(n int) map[string]console.Client {
	known := map[string][]string{}
	for _, c := range v.x.joined[:before(v.x.joined, n, func(c connections) int { return c.n })] {
		known[c.client] = c.sessions
	}
	out := map[string]console.Client{}
	for name, sessions := range known {
		for _, s := range sessions {
			session, _, _ := strings.Cut(s, "@")
			out[name+" "+session] = console.Client{Name: name, Session: session}
		}
	}
	return out
}

// slotsOf shows the table of a snapshot. The map is made again only for another
// snapshot.
func (v *view) slotsOf(s *testbed.Snapshot, n int) map[string]console.Slot {
	if s == nil {
		return nil
	}
	if v.slots.of == s {
		return v.slots.shown
	}
	out := map[string]console.Slot{}
	for i, row := range s.Table.Slots {
		x := console.Slot{Leader: row.Leader.Name, Phase: string(row.Phase), Epoch: row.LeaderEpoch.String(), To: row.Successor.Name, From: row.Source.Name}
		for _, f := range row.Followers {
			x.Followers = append(x.Followers, f.Name)
		}
		moves := v.x.moves[i]
		for _, m := range slices.Backward(moves[:before(moves, n, func(m move) int { return m.n })]) {
			if x.Moves = append(x.Moves, console.Move{At: m.at.Milliseconds(), From: m.from, To: m.to}); len(x.Moves) == movesShown {
				break
			}
		}
		out[strconv.Itoa(i)] = x
	}
	v.slots.of, v.slots.shown = s, out
	return out
}

// promises shows what the checkers found in the whole run, and the violations that
// have happened at the position.
func (v *view) promises(s *console.State, p position) {
	s.Promises = map[string]console.Promise{}
	for _, w := range v.r.Result().Verdicts {
		x := console.Promise{ID: w.ID, Says: w.Says, Checks: w.Checks}
		for _, b := range w.Violations {
			if b.At <= p.at {
				x.Broken++
			}
		}
		s.Promises[w.ID] = x
	}
	_, end := v.r.Span()
	s.Checking = &console.Checking{Until: end.Milliseconds(), Entries: v.r.Len(), How: "the whole run was checked when it was recorded"}
	if len(v.x.broken) == 0 || v.x.broken[0].n >= p.n {
		return
	}
	b := v.x.broken[0]
	s.Broken = &console.Broken{At: b.At.Milliseconds(), ID: b.id, What: b.What, Evidence: b.Evidence}
	for _, e := range v.events(0, b.n, beforeShown) {
		s.Broken.Before = append(s.Broken.Before, fmt.Sprintf("%9.3fs %s", float64(e.At)/1000, e.Text))
	}
}

// scenario shows what was done, as steps.
func (v *view) scenario(s *console.State, p position) {
	_, end := v.r.Span()
	play := &console.Play{Name: v.title, About: "as it was recorded", Lasts: end.Milliseconds(), State: "playing", Steps: slices.Clone(v.steps)}
	for i, m := range play.Steps {
		play.Steps[i].Done = m.AtMs <= s.Now
	}
	if p.n >= v.r.Len() {
		play.State = "passed"
		if result := v.r.Result(); len(v.x.broken)+len(result.Failures) > 0 {
			play.State, play.Result = "failed", result.Failures
		}
	}
	s.Play = play
}

// events returns the last events among the records from one number to another, at
// most that many.
func (v *view) events(from, to, most int) (out []console.Event) {
	same := func(n int) int { return n }
	list := v.x.events[before(v.x.events, from, same):before(v.x.events, to, same)]
	for _, n := range list[max(0, len(list)-most):] {
		e, _ := eventOf(v.r.Record(n).Entry)
		out = append(out, e)
	}
	return out
}

// messages returns the last messages between the hosts of the diagram.
func (v *view) messages(p position) (out []console.Message) {
	list := v.x.messages[:before(v.x.messages, p.n, func(m message) int { return m.n })]
	for _, m := range slices.Backward(list) {
		if len(out) == messagesShown {
			break
		}
		if !p.shows(m) {
			continue
		}
		out = append(out, messageOf(m.n, v.r.Record(m.n), p.at))
	}
	slices.Reverse(out)
	return out
}

// shows reports whether a message is one of the sequence diagram.
func (p position) shows(m message) bool {
	return (p.transport || !m.transport) && slices.Contains(p.between, m.from) && slices.Contains(p.between, m.to)
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
