package testbed

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"conclave/internal/trace"
)

// Database is the name of the database's host. Nodes are named meta-1..,
// session-1.. and data-1..; clients have the names with which they were
// started.
const Database = "db"

// Verb is a kind of Action.
type Verb string

// The verbs. A is Action.Node, B is Action.Peer; an empty B means all other hosts.
const (
	// Processes. A is a node, Database, or (Kill only) a client.
	Kill   Verb = "kill"   // kill -9: the kernel closes its connections
	Stop   Verb = "stop"   // SIGTERM: a graceful stop begins
	Start  Verb = "start"  // a node that was killed or has stopped, as a new incarnation
	Pause  Verb = "pause"  // SIGSTOP: sockets stay open, nothing is read, sent or answered
	Resume Verb = "resume" // SIGCONT
	Twin   Verb = "twin"   // a second process with A's name at another address

	// StartWrong starts A, which is down, with an advertised address at which
	// nothing listens. Start ends it and starts A with its own address.
	StartWrong Verb = "start at a wrong address"

	// The network. Bytes that a cut holds back arrive once it is mended, as TCP
	// retransmits them; dials across it hang until then.
	Cut      Verb = "cut"       // nothing passes between A and B
	CutOne   Verb = "cut-one"   // nothing passes from A to B
	Mend     Verb = "mend"      // ends Cut, CutOne and Slow between A and B
	Slow     Verb = "slow"      // each way takes By longer, with Jitter; Rate bytes a second when not 0
	Reset    Verb = "reset"     // every connection between A and B breaks now, on both sides
	HalfOpen Verb = "half-open" // every connection between A and B is closed at B; A does not notice

	// ClosePort: dials to A, a session or a data node, are refused. A's
	// connections stay, and A can still dial other nodes. OpenPort ends it.
	ClosePort Verb = "close port"
	OpenPort  Verb = "open port"

	// Refuse: the database answers statements of the kind Of with the error Number
	// and does not execute them. Accept ends it.
	Refuse Verb = "database refuses"
	Accept Verb = "database accepts"

	LoseNext Verb = "lose-next" // B executes A's next request, and the connection breaks before the answer

	// Clocks. Only wall clocks can be set; monotonic clocks are not affected.
	Skew Verb = "skew" // A's wall clock is By off; A may be Database; 0 ends it

	// Points in the code, named by events (Action.Point).
	Hold    Verb = "hold"     // A waits whenever it reaches the point
	HoldOne Verb = "hold one" // A waits when it next reaches the point; later calls pass
	Release Verb = "release"  // A continues

	// Unguard: from now on a write of a leader does not ask who owns the lock row. Only
	// package simulated can do it, and nothing ends it.
	Unguard Verb = "take out the guard of writes"

	// Commands of an operator.
	Resign   Verb = "resign"   // the leader A is asked to hand over
	Quit     Verb = "quit"     // A becomes an observer
	Join     Verb = "join"     // A becomes a candidate again
	Forbid   Verb = "forbid"   // A is put on the blacklist
	Allow    Verb = "allow"    // A is removed from the blacklist
	Freeze   Verb = "freeze"   // the switch arrange is turned off
	Unfreeze Verb = "unfreeze" // and on again
	Switch   Verb = "switch"   // the switch whose key is A is set to the value B

	// AnnounceStop announces to A that the whole cluster stops, as `conclave
	// down` does: a meta passes it to the leader, which informs every node; any
	// other node is informed alone. The announcement expires after a minute.
	AnnounceStop Verb = "announce stop"

	// Load. The player's clients do it, so it is possible on every Cluster. In a
	// burst each client that stays changes values Factor times as often as the
	// scenario says, without waiting for acknowledgements, or it makes Arrivals new
	// registrations that no client reads, as fast as it can. EndBurst ends it; the
	// registrations stay.
	Burst    Verb = "burst"
	EndBurst Verb = "end burst"
)

// SwitchDefaults are the switches that a scenario can set, and their defaults.
var SwitchDefaults = map[string]string{"stop-push": "off", "push-guard": "on", "push-window-ms": "10", "protection-floor": "0"}

// Statements are the kinds of statements that a database can refuse: all, also
// those of a login; all that write; those of the election; those of the leader; and
// those of the leader to one row.
var Statements = []string{"statements", "writes", "elections", "decisions", "blacklist", "config", "freeze", "members", "switches", "table"}

// HealAll ends every fault: it mends links, opens ports, resumes and releases nodes,
// lets the database accept everything, sets the clocks right, ends a burst, takes back
// an operator's commands, and starts dead nodes.
const HealAll Verb = "heal all"

// Action is one action on one node at one moment. A fault that lasts is ended by
// an action of its own; the player keeps track of the faults that it has to end.
type Action struct {
	Verb     Verb
	Node     string // A
	Peer     string // B; "": all other hosts
	By       time.Duration
	Jitter   time.Duration
	Rate     int // bytes per second
	Point    trace.Kind
	Of       string // of Refuse and Accept: one of Statements
	Number   int    // of Refuse: MySQL's number of the error
	Factor   int    // of Burst
	Arrivals int    // of Burst
	Force    bool   // also a command that the leader would refuse as unsafe

	// MustRefuse marks a command that the leader must refuse as unsafe. A Cluster
	// sends it like any other; the player checks the result.
	MustRefuse bool
	MustAccept bool // likewise of a command that must succeed
}

// undo has the verb that ends what another one begins, for effects that last.
var undo = map[Verb]Verb{
	Kill: Start, Stop: Start, Pause: Resume, Cut: Mend, CutOne: Mend, Slow: Mend, Skew: Skew,
	Hold: Release, HoldOne: Release, Quit: Join, Forbid: Allow, Freeze: Unfreeze, Switch: Switch,
	StartWrong: Start, ClosePort: OpenPort, Burst: EndBurst, Refuse: Accept,
}

// Undo returns the verb that ends what v begins, or "" if the effect does not
// last.
func (v Verb) Undo() Verb { return undo[v] }

// IsCommand reports whether v is a command of an operator. If it is refused,
// that is in the history and does not fail the scenario.
func (v Verb) IsCommand() bool { return slices.Contains(operatorVerbs, v) }

// Undo returns the action that ends a, or an empty one.
func (a Action) Undo() Action {
	end := Action{Verb: a.Verb.Undo(), Node: a.Node, Peer: a.Peer, Point: a.Point, Of: a.Of}
	if a.Verb == Kill && strings.HasPrefix(a.Node, "client-") {
		return Action{} // a client stays dead
	}
	if a.Verb == Switch {
		end.Peer = SwitchDefaults[a.Node]
	}
	return end
}

// EndsFault reports whether the action ends a fault.
func (a Action) EndsFault() bool {
	switch a.Verb {
	case Skew:
		return a.By == 0
	case Switch:
		return a.Peer == SwitchDefaults[a.Node]
	}
	for _, ends := range undo {
		if a.Verb == ends {
			return true
		}
	}
	return false
}

// Key identifies a fault: its node, its peer, and the verb that would end it.
func (a Action) Key() string {
	verb := a.Verb
	if !a.EndsFault() || a.Verb == Skew {
		verb = a.Verb.Undo()
	}
	if verb == Switch {
		a.Peer = "" // one fault, whatever the value
	}
	return fmt.Sprint(verb, "/", a.Node, "/", a.Peer, "/", a.Point, a.Of)
}

// operatorVerbs are the commands of an operator, which the leader accepts or
// refuses.
var operatorVerbs = []Verb{Resign, Quit, Join, Forbid, Allow, Freeze, Unfreeze, Switch, AnnounceStop}
