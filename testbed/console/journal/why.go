package journal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
)

const (
	maxLinks  = 12          // of a chain
	maxWalked = 300         // records, on the way to them
	recently  = time.Second // so long a node may react to the end of a connection, or to a fault that does not last
)

// Link is one entry of a chain of what happened before an event, a message or a violation.
type Link struct {
	Record int           `json:"record"` // its number; -1: a violation, which has none
	Asked  int           `json:"asked"`  // the number of the request that it answers; -1: none
	At     time.Duration `json:"at"`
	What   string        `json:"what"` // a sentence

	kept bool // in a chain that is too long
}

// String returns the link as a line of text.
func (l Link) String() string { return fmt.Sprintf("%9.3fs %s", l.At.Seconds(), l.What) }

// Why returns record n, and then what led to it, the newest first: at most a dozen links.
// began is the clock at time 0.
//
// It is no proof that one thing caused another. In the simulator computing takes no time,
// so that a node reacts at the instant at which something reaches it. The cause of a
// message, seen from its sender, and of an event of a node is the first of these:
//
//  1. an act on the node at that instant,
//  2. of a message, the decision that its sender reports at that instant,
//  3. a message that arrived then: the request that is answered, or else one of the same
//     connection, or else the last one,
//  4. of an answer that was waited for, its request; of a database's greeting, which answers a
//     dial that is not recorded, the last message of the node that has dialled,
//  5. if a meta does it by itself when the leader's trust has ended: that trust, and the
//     fault of that leader,
//  6. the newer one of: the end of a connection of which the node learned in the last
//     second; a fault of it or its peer that is in effect, which is a hold only if no
//     connection has ended.
//
// An act has no cause, but for one that ends a fault: that fault, and of a release also the
// claim with which the node arrived where it was held. What the player of a scenario
// finds has the last act as its cause. A violation has the last three entries that show it,
// and a guard that was taken out. Of a chain that is longer its newest links, and the acts
// with which it began, are returned.
func Why(records []Record, began time.Time, n int) []Link {
	if n < 0 || n >= len(records) {
		return nil
	}
	return newSearch(records, began, records[n].At).walk(nil, []int{n})
}

// WhyBroken is Why for a violation, or for what failed otherwise; it is the first link. If no
// entry shows it, the newest fault in effect led to it, or else the last act.
func WhyBroken(records []Record, began time.Time, id string, v check.Violation) []Link {
	s, from := newSearch(records, began, v.At), []int(nil)
	for n, r := range s.records {
		if r.Entry != nil && slices.Contains(v.Evidence, r.Entry.String()) {
			from = append(from, n)
		}
	}
	what := id + ": " + v.What
	if len(from) == 0 {
		from = s.fault(len(s.records), v.At, func(testbed.Action) bool { return true })
	}
	if len(from) == 0 {
		from = s.last(len(s.records), s.faults, func(int) bool { return true })
	}
	if len(from) == 0 {
		what += "; nothing was done before it"
	}
	from = from[max(0, len(from)-3):]
	for _, n := range s.faults {
		if s.records[n].Entry.Fault.Verb == testbed.Unguard {
			from = append(from, n)
		}
	}
	return s.walk([]Link{{Record: -1, Asked: -1, At: v.At, What: what, kept: true}}, from)
}

// place is a host at an instant.
type place struct {
	host string
	at   time.Duration
}

// search has the records until a time, and where to find them.
type search struct {
	records []Record
	began   time.Time
	arrived map[place][]int // messages, but for those of HTTP/2 itself
	claims  map[place][]int
	ends    map[string][]int // of connections, by the host that learned of it
	faults  []int
}

func newSearch(records []Record, began time.Time, until time.Duration) *search {
	s := &search{began: began, arrived: map[place][]int{}, claims: map[place][]int{}, ends: map[string][]int{}}
	for n, r := range records {
		if r.At > until {
			break
		}
		s.records = records[:n+1]
		switch m, e := r.Message, r.Entry; {
		case m != nil && m.Fate == Arrived && !strings.HasPrefix(m.What, "HTTP/2"):
			to := place{m.To, r.At + m.Took}
			s.arrived[to] = append(s.arrived[to], n)
			if strings.HasPrefix(m.What, "connection") {
				s.ends[m.To] = append(s.ends[m.To], n)
			}
		case e != nil && e.Event != nil:
			at := place{hostOf(r), r.At}
			s.claims[at] = append(s.claims[at], n)
		case e != nil && e.Fault != nil && e.Fault.Err == nil:
			s.faults = append(s.faults, n)
		}
	}
	return s
}

// hostOf returns where a message is sent, or an event or an act happens.
func hostOf(r Record) string {
	switch e := r.Entry; {
	case r.Message != nil:
		return r.Message.From
	case e == nil:
	case e.Op != nil:
		return e.Op.Client
	case e.Event != nil && (e.Event.Kind == trace.Landing || e.Event.Kind == trace.Landed):
		return testbed.Database
	case e.Event != nil:
		return e.Event.Node.Name
	}
	return ""
}

// walk goes back from records to their causes, the newest first.
func (s *search) walk(links []Link, from []int) []Link {
	left, known := []int(nil), map[int]bool{}
	add := func(causes []int) {
		for _, c := range causes {
			if !known[c] {
				known[c], left = true, append(left, c)
			}
		}
	}
	add(from)
	for walked := 0; len(left) > 0 && walked < maxWalked; walked++ {
		n := slices.Max(left)
		left = slices.DeleteFunc(left, func(x int) bool { return x == n })
		m, e, first := s.records[n].Message, s.records[n].Entry, slices.Contains(from, n)
		causes, asked, began := s.causes(n), -1, n
		if len(causes) == 1 && s.asks(causes[0], n) {
			asked, began = causes[0], causes[0]
			causes = s.causes(asked)
		} else if !first && e != nil && e.Event != nil && e.Event.Kind == trace.Extended {
			causes = nil // each renewal is the cause of the next one
		}
		if m == nil || first || !setsUp(m) {
			links = append(links, Link{n, asked, s.records[n].At, s.says(n, began, len(causes) == 0), first || len(causes) == 0 && e != nil && e.Fault != nil})
		}
		add(causes)
	}
	for i := len(links) - 1; i > 0 && len(links) > maxLinks; i-- {
		if !links[i].kept {
			links = slices.Delete(links, i, i+1)
		}
	}
	return links[:min(len(links), maxLinks)]
}

// setsUp reports whether a message only sets up or ends a connection; it is no link.
func setsUp(m *Message) bool {
	return slices.ContainsFunc([]string{"MySQL: greeting", "SQL log in", "SQL SET SESSION", "HTTP/2", "connection: reset"}, func(p string) bool { return strings.HasPrefix(m.What, p) })
}

// causes returns the records that led to one, by the rule of Why.
func (s *search) causes(n int) []int {
	r, host, peer := s.records[n], hostOf(s.records[n]), ""
	node := host // or, of what the database does, the node for which it does it
	m, e, at := r.Message, r.Entry, place{host, r.At}
	switch {
	case m != nil:
		peer = m.To
	case e != nil && e.Fault != nil:
		return s.ended(n, *e.Fault)
	case e != nil && e.Event != nil:
		node = e.Event.Node.Name
	case host == "":
		return s.last(n, s.faults, func(int) bool { return true })
	}
	always, answers := func(int) bool { return true }, func(c int) bool { return s.asks(c, n) }
	for _, found := range [][]int{
		s.last(len(s.records), s.faults, func(f int) bool { // an act is recorded when it is done, after what it does
			a := s.records[f].Entry.Fault
			return s.records[f].At == r.At && (a.Node == host || a.Node == node)
		}),
		s.last(n, s.claims[at], func(c int) bool { _, decides := words[s.records[c].Entry.Event.Kind]; return m != nil && decides }),
		s.last(n, s.arrived[at], answers),
		s.last(n, s.arrived[at], func(c int) bool { return m != nil && s.records[c].Message.Conn == m.Conn }),
		s.last(n, s.arrived[at], always),
	} {
		if found != nil {
			return found
		}
	}
	for c := n - 1; c >= 0 && m != nil && m.Kind != Request; c-- {
		if x := s.records[c].Message; answers(c) || x != nil && x.From == m.To && strings.HasPrefix(m.What, "MySQL: greeting") {
			return []int{c}
		}
	}
	if c := s.trust(n, host); c != nil {
		return c
	}
	fault := s.fault(n, r.At, func(a testbed.Action) bool {
		return slices.ContainsFunc([]string{a.Node, a.Peer}, func(x string) bool { return x != "" && (x == host || x == peer) })
	})
	end := s.last(n, s.ends[host], func(c int) bool {
		ago := r.At - s.records[c].At - s.records[c].Message.Took
		return ago >= 0 && ago < recently
	})
	if end != nil && (fault == nil || end[0] > fault[0] || s.records[fault[0]].Entry.Fault.Point != "") {
		return end
	}
	return fault
}

// last returns the last of some records before n that fits, or nil.
func (s *search) last(n int, of []int, fits func(int) bool) []int {
	for i := len(of) - 1; i >= 0; i-- {
		if of[i] < n && fits(of[i]) {
			return []int{of[i]}
		}
	}
	return nil
}

// asks reports whether a record is a request that an answer answers.
func (s *search) asks(n, answer int) bool {
	m, a := s.records[n].Message, s.records[answer].Message
	if m == nil || a == nil || m.Kind != Request || a.Kind != Answer || m.Conn != a.Conn || m.Stream != a.Stream || m.From != a.To {
		return false
	}
	call, _, _ := strings.Cut(a.What, ": ")
	return m.Fate == Arrived && s.records[n].At+m.Took <= s.records[answer].At && strings.HasPrefix(m.What+": ", call+": ")
}

// ended returns what an act has ended; nil: it ends nothing.
func (s *search) ended(n int, f check.Fault) []int {
	if !f.EndsFault() {
		return nil
	}
	out := s.last(n, s.faults, func(c int) bool {
		a := s.records[c].Entry.Fault.Action
		return a.Key() == f.Key() && !a.EndsFault()
	})
	for c := n; f.Point != "" && out != nil && c > out[0]; c-- {
		if e := s.records[c].Entry; e != nil && e.Event != nil && e.Event.Kind == f.Point && e.Event.Node.Name == f.Node {
			out = []int{out[0], c} // the first one since then
		}
	}
	return out
}

// fault returns the newest fault before n that fits and is in effect.
func (s *search) fault(n int, at time.Duration, fits func(testbed.Action) bool) []int {
	over := map[string]bool{}
	return s.last(n, s.faults, func(c int) bool {
		a := s.records[c].Entry.Fault.Action
		if a.EndsFault() {
			over[a.Key()] = true
		}
		lasts := a.Undo().Verb != ""
		return fits(a) && !a.EndsFault() && (lasts && !over[a.Key()] || !lasts && at-s.records[c].At < recently)
	})
}

// trust returns the end of the leader's trust and the leader's fault, if host is another
// meta and that trust has ended.
func (s *search) trust(n int, host string) []int {
	for c := n - 1; c >= 0 && testbed.RoleOf(host) == "meta"; c-- {
		e := s.records[c].Entry
		if e == nil || e.Event == nil || e.Event.Kind != trace.Led && e.Event.Kind != trace.Extended {
			continue
		}
		leader := e.Event.Node.Name
		if leader == host || e.Event.Until.Sub(s.began) > s.records[n].At {
			break
		}
		return append(s.fault(n, s.records[n].At, func(a testbed.Action) bool { // of what a renewal needs
			own := a.Node == leader && (a.Peer == "" || a.Peer == testbed.Database) || a.Node == testbed.Database && (a.Peer == "" || a.Peer == leader)
			return own && (a.Point == "" || a.Point == trace.Renewing || a.Point == trace.Renewed)
		}), c)
	}
	return nil
}

// says returns the sentence for a record. first: nothing led to where its link begins.
func (s *search) says(n, began int, first bool) (out string) {
	switch m, e := s.records[n].Message, s.records[n].Entry; {
	case m != nil:
		out = fmt.Sprintf("%s %s %s: %s", m.From, []string{"asks", "answers", "sends"}[m.Kind%3], m.To, m.What)
		if m.Fate == Lost {
			out += ", which is lost"
		}
	case e == nil:
		return "the state of the cluster"
	case e.Fault != nil:
		return "done to the cluster: " + e.Fault.Action.String()
	case e.Event != nil && words[e.Event.Kind] != "":
		c := e.Event
		of := fmt.Sprintf("term %d", max(c.Term, c.Epoch.Term))
		if c.Epoch.Seq > 0 {
			of = "epoch " + c.Epoch.String()
		}
		out = strings.Join(strings.Fields(strings.Join([]string{c.Node.Name, words[c.Kind], c.Subject, c.Key, "of", of}, " ")), " ")
		if c.Kind == trace.Extended {
			return fmt.Sprintf("%s, until %.3f s", out, c.Until.Sub(s.began).Seconds())
		}
	default:
		out = e.What()
	}
	switch host := hostOf(s.records[began]); {
	case first && host == "":
		out += "; nothing was done before it"
	case first:
		out += "; nothing reached " + host + " at that instant"
	}
	return out
}

// words are what sentences say for the claims that may be decisions; those without are
// shown as the checkers do.
var words = map[trace.Kind]string{
	trace.Led: "becomes the leader", trace.Extended: "renews its trust as leader", trace.Left: "ceases to be the leader",
	trace.Swapping: "decides to take over as leader", trace.Writing: "believes to lead, and decides to write",
	trace.Landing: "has the database hold the", trace.Landed: "has the database execute the",
	trace.Granted: "", trace.Migrating: "", trace.Serving: "", trace.Finished: "", trace.Resigning: "", trace.Refused: "", trace.Expiring: "", trace.Held: "",
}
