package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"conclave/slot"
)

const movesShown = 6 // of one slot

// State is what the page shows at one moment. What a source does not know is
// empty, and the page leaves it out. Times are milliseconds: of the wall clock for
// a live cluster, since the beginning for a recording.
//
// A value in a map is never changed in place: a source makes a new one.
type State struct {
	Mode      string `json:"mode"` // live, recording
	Title     string `json:"title"`
	Watching  string `json:"watching,omitempty"` // what the source has to say about itself, in a sentence
	Now       int64  `json:"now"`
	Leader    string `json:"leader"` // the node that leads now
	Term      uint64 `json:"term"`
	Epoch     string `json:"epoch"` // of the slot table
	Protected string `json:"protected,omitempty"`

	Nodes    map[string]Node    `json:"nodes"`    // by name; the database is "db"
	Clients  map[string]Client  `json:"clients"`  // by name and session
	Links    map[string]Link    `json:"links"`    // faults of the network, by "a b"
	Slots    map[string]Slot    `json:"slots"`    // by number
	Terms    map[string]Term    `json:"terms"`    // by term
	Believed map[string]Span    `json:"believed"` // in which intervals a node trusted itself to lead, by "node term"
	Promises map[string]Promise `json:"promises"` // by the checker's id
	Broken   *Broken            `json:"broken"`   // the first violation
	Checking *Checking          `json:"checking"`
	Load     *Load              `json:"load"`
	Points   map[string]Point   `json:"points"`   // by their second
	Outcomes map[string]Outcome `json:"outcomes"` // the newest actions, by number
	Offers   []Offer            `json:"offers"`
	Play     *Play              `json:"play"`      // the scenario that is played, or was played last
	Playback *Playback          `json:"playback"`  // of a recording
	Marks    []Mark             `json:"marks"`     // of a recording: faults, elections and violations
	Messages []Message          `json:"messages"`  // of a recording: the last ones before its position
	Scenario []string           `json:"scenarios"` // that can be played here
	Why      bool               `json:"why"`       // the source knows what led to an event
}

// Node is one process.
type Node struct {
	Role     string `json:"role"`  // meta, session, data, db
	State    string `json:"state"` // ready, starting, draining, suspended (frozen), killed, exited, unreachable
	Leads    bool   `json:"leads,omitempty"`
	Believes bool   `json:"believes,omitempty"` // it says that it leads
	Observer bool   `json:"observer,omitempty"`
	Meta     string `json:"meta,omitempty"`    // the meta that it follows: which holds its stream
	Member   string `json:"member,omitempty"`  // as the leader sees it: up, suspect, draining, blacklisted
	Until    int64  `json:"until,omitempty"`   // when the leader's trust ends if it is not renewed, by the clock of State.Now
	LeaseOf  int64  `json:"leaseOf,omitempty"` // how long it lasts
	Leading  int    `json:"leading"`           // slots
	Follows  int    `json:"following"`         // slots
	Moving   int    `json:"moving"`            // slots handed over from or to it
	Clients  int    `json:"clients"`
	Entries  int    `json:"entries"` // registrations
	Why      string `json:"why,omitempty"`
	Listed   string `json:"listed,omitempty"` // the reason on the blacklist
}

// Count counts the slots of a node.
func (n *Node) Count(name string, slots map[string]Slot) {
	for _, x := range slots {
		switch {
		case x.Leader == name:
			n.Leading++
		case slices.Contains(x.Followers, name):
			n.Follows++
		}
		if x.From == name || x.To == name || x.Leader == name && x.Phase != "stable" {
			n.Moving++
		}
	}
}

// Client is one client at one session.
type Client struct {
	Name    string `json:"name"`
	Session string `json:"session"`
	Entries int    `json:"entries"`
}

// Link is a fault between two hosts.
type Link struct {
	A    string `json:"a"`
	B    string `json:"b"`
	What string `json:"what"` // cut, slow
}

// Slot is one slot.
type Slot struct {
	Leader    string   `json:"leader"`
	Followers []string `json:"followers"`
	Phase     string   `json:"phase"` // stable, preparing, switching, crash
	Epoch     string   `json:"epoch"`
	To        string   `json:"to,omitempty"`
	From      string   `json:"from,omitempty"`
	Moves     []Move   `json:"moves"` // the last ones, the newest first
}

// Move is one change of a slot's leader.
type Move struct {
	At   int64  `json:"at"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Moves are the last moves of each slot, by its number, the newest first.
type Moves map[int][]Move

// Note adds the slots that have another leader in a table than in the one before.
func (m Moves) Note(at int64, before, now slot.Table) {
	for i, row := range now.Slots {
		move := Move{At: at, To: row.Leader.Name}
		if i < len(before.Slots) {
			move.From = before.Slots[i].Leader.Name
		}
		if move.From != move.To {
			m[i] = slices.Concat([]Move{move}, m[i][:min(movesShown-1, len(m[i]))])
		}
	}
}

// Slots returns the slots of a table, by their numbers.
func Slots(table slot.Table, moves Moves) map[string]Slot {
	out := map[string]Slot{}
	for i, row := range table.Slots {
		x := Slot{Leader: row.Leader.Name, Phase: string(row.Phase), Epoch: row.LeaderEpoch.String(), To: row.Successor.Name, From: row.Source.Name, Moves: moves[i]}
		for _, f := range row.Followers {
			x.Followers = append(x.Followers, f.Name)
		}
		out[strconv.Itoa(i)] = x
	}
	return out
}

// Term is one election.
type Term struct {
	Term         uint64 `json:"term"`
	Owner        string `json:"owner"`
	Previous     string `json:"previous,omitempty"`
	Cause        string `json:"cause"`
	LeaderlessMs int64  `json:"leaderlessMs"`
	At           int64  `json:"at"`
}

// Span is an interval in which a node trusted itself to lead a term.
type Span struct {
	Node string `json:"node"`
	Term uint64 `json:"term"`
	From int64  `json:"from"`
	To   int64  `json:"to"`
	Open bool   `json:"open,omitempty"` // it lasts, and has no To
}

// Beliefs are the intervals in which nodes trusted themselves to lead, by "node term".
// Of one that is open, To is when it ends if the trust is not renewed.
type Beliefs map[string]Span

// beliefsKept is how many intervals are kept: those of the newest terms.
const beliefsKept = 200

// Of returns the interval of a node and a term.
func (b Beliefs) Of(node string, term uint64) Span { return b[believed(node, term)] }

func believed(node string, term uint64) string { return fmt.Sprint(node, " ", term) }

// Trusts notes at a time that a node trusts itself until another one, unless it has
// left that term.
func (b Beliefs) Trusts(node string, term uint64, at, until int64) {
	k := believed(node, term)
	s, known := b[k]
	if !known {
		s = Span{Node: node, Term: term, From: at, Open: true}
	}
	if s.Open {
		s.To = until
	}
	b[k] = s
	if len(b) > beliefsKept {
		oldest := slices.MinFunc(slices.Collect(maps.Values(b)), func(a, b Span) int { return cmp.Compare(a.Term, b.Term) })
		delete(b, believed(oldest.Node, oldest.Term))
	}
}

// Left notes that a node does not lead a term any more; 0: whichever it led.
func (b Beliefs) Left(node string, term uint64, at int64) {
	for k, s := range b {
		if s.Node == node && s.Open && (term == 0 || s.Term == term) {
			s.To, s.Open = min(s.To, at), false
			b[k] = s
		}
	}
}

// At returns what is shown of them at a time. One that lasts does not change with each
// renewal.
func (b Beliefs) At(now int64) map[string]Span {
	out := map[string]Span{}
	for k, s := range b {
		if s.Open = s.Open && s.To > now; s.Open {
			s.To = 0
		}
		out[k] = s
	}
	return out
}

// Promise is one invariant, or rule, and what its checker has found.
type Promise struct {
	ID     string `json:"id"`
	Says   string `json:"says"`
	Checks int    `json:"checks"`
	Broken int    `json:"broken"`
	Since  int64  `json:"since"` // of the first check that is counted
}

// Checking is how the promises are checked.
type Checking struct {
	Until   int64  `json:"until"` // the history is checked until this moment
	Entries int    `json:"entries"`
	TookMs  int64  `json:"tookMs"`
	How     string `json:"how"`
}

// Broken is the first violation. It stops the clock.
type Broken struct {
	At       int64    `json:"at"`
	ID       string   `json:"id"`
	What     string   `json:"what"`
	Evidence []string `json:"evidence"`
	Before   []string `json:"before"` // what happened before it
}

// Load is what the source's own clients do and see.
type Load struct {
	Clients int      `json:"clients"`
	Level   int      `json:"level"`
	Updates float64  `json:"updates"` // a second
	Pushes  float64  `json:"pushes"`
	Missing int      `json:"missing"` // publishers that a subscriber does not see
	Lacking []string `json:"lacking,omitempty"`
}

// Point is one second of the latency from a publication to its pushes.
type Point struct {
	At      int64   `json:"at"`
	P50     float64 `json:"p50"` // milliseconds
	P99     float64 `json:"p99"`
	Pushes  int     `json:"pushes"`
	Missing int     `json:"missing"`
}

// Offer is something that a viewer can do.
type Offer struct {
	Do    string   `json:"do"`
	Label string   `json:"label"`
	Says  string   `json:"says"`            // what it does, in a sentence
	Roles []string `json:"roles,omitempty"` // on nodes of these roles; empty: on the cluster
	Peer  bool     `json:"peer,omitempty"`  // it needs a second node
	With  []string `json:"with,omitempty"`  // that one has one of these roles; empty: any
	Risk  string   `json:"risk,omitempty"`  // fault, heal or command
}

// Outcome is an action, and what came of it.
type Outcome struct {
	At         int64    `json:"at"`
	What       string   `json:"what"`
	State      string   `json:"state"` // doing, watching, settled, failed
	Error      string   `json:"error,omitempty"`
	Term       uint64   `json:"term,omitempty"`      // of the leader after it, if there was an election
	Leaderless int64    `json:"leaderlessMs"`        // -1: there was no election
	Unreadable int64    `json:"unreadableMs"`        // the longest time in which a slot could not be read
	Slots      int      `json:"slots"`               // how many could not be read; -1: not known, without the nodes' events
	Missing    int      `json:"missing"`             // the most publishers that were missing
	SettledMs  int64    `json:"settledMs,omitempty"` // until the cluster was at rest
	Figures    []string `json:"figures,omitempty"`
}

// Play is a scenario that is played.
type Play struct {
	Name   string   `json:"name"`
	About  string   `json:"about"`
	Began  int64    `json:"began"`
	Lasts  int64    `json:"lastsMs"`
	State  string   `json:"state"` // starting, playing, checking, passed, failed, stopped
	Steps  []Step   `json:"steps"`
	Result []string `json:"result,omitempty"`
}

// Step is one line of a scenario, or what was done because of one.
type Step struct {
	AtMs int64  `json:"atMs"` // since Began
	What string `json:"what"`
	Done bool   `json:"done"` // it has happened; otherwise it is planned
	Err  string `json:"error,omitempty"`
}

// Playback is the position in a recording.
type Playback struct {
	AtMs      float64  `json:"atMs"`
	FromMs    float64  `json:"fromMs"`  // of the first record; negative: before the scenario began
	LastsMs   float64  `json:"lastsMs"` // of the last record
	Record    int      `json:"record"`  // how many records have happened
	Records   int      `json:"records"`
	Speed     float64  `json:"speed"`
	Paused    bool     `json:"paused"`
	Hosts     []string `json:"hosts"`   // that send messages
	Between   []string `json:"between"` // those of the sequence diagram
	Transport bool     `json:"transport"`
}

// Mark is a moment of a recording.
type Mark struct {
	AtMs float64 `json:"atMs"`
	Kind string  `json:"kind"` // fault, election, violation
	What string  `json:"what"`
}

// Message is one message between two hosts.
type Message struct {
	ID     uint64  `json:"id"`
	SentMs float64 `json:"sentMs"`
	GotMs  float64 `json:"gotMs"` // when it arrived or was lost; -1: it is on its way
	From   string  `json:"from"`
	To     string  `json:"to"`
	What   string  `json:"what"`
	Kind   string  `json:"kind"` // request, answer, transport
	Fate   string  `json:"fate"` // arrived, lost, on its way
	Bytes  int     `json:"bytes"`
	Why    bool    `json:"why,omitempty"` // it is in the chain that was asked for
}

// Event is one line of the page's list of events.
type Event struct {
	ID   uint64 `json:"id"` // given by the Hub
	At   int64  `json:"at"`
	Node string `json:"node"`
	Kind string `json:"kind"` // leader.elected, slot.serving, fault, ...
	Term uint64 `json:"term,omitempty"`
	Slot *int   `json:"slot,omitempty"`
	Text string `json:"text"`
}
