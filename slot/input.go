package slot

import (
	"cmp"
	"errors"
	"fmt"

	"conclave"
)

// ReportState is the state of one slot at a data node, as the node reports it.
type ReportState string

// The states that heartbeats carry. Every heartbeat repeats them, so that a new
// meta leader can continue where the old one stopped.
const (
	Following ReportState = "following" // loads the leader's snapshot; its copy is not complete
	CaughtUp  ReportState = "caughtUp"  // has a complete copy and applies the leader's feed
	Migrating ReportState = "migrating" // leads, and may not serve yet
	Serving   ReportState = "serving"   // leads and serves
	Finished  ReportState = "finished"  // was the source and has finished; keeps its copy
)

// MaxLagMs is the largest lag, in milliseconds, at which a successor counts as
// caught up. It bounds how long a hand-over waits while the slot is not served.
const MaxLagMs = 1000

// Report is the state of one slot in a node's newest heartbeat. A heartbeat
// replaces all earlier reports of its node.
type Report struct {
	Node conclave.NodeID `json:"node"`
	Slot int             `json:"slot"`
	// Epoch is the leader epoch that the report refers to: the one at which the
	// node leads, or that of the leader it follows. A report under another
	// epoch than the slot's does not advance a hand-over.
	Epoch    conclave.Epoch `json:"epoch"`
	State    ReportState    `json:"state"`
	Position uint64         `json:"position"` // in the leader's feed at Epoch
	LagMs    int64          `json:"lagMs"`
	Counter  int64          `json:"counter"` // the highest version in the slot that the node knows
}

// caughtUpWith reports whether the node can take over from the leader of epoch
// e.
func (r Report) caughtUpWith(e conclave.Epoch) bool {
	return r.State == CaughtUp && r.Epoch == e && r.LagMs <= MaxLagMs
}

// complete reports whether the node has a complete copy as of r.Epoch.
func (r Report) complete() bool {
	return r.State == CaughtUp || r.State == Serving || r.State == Finished
}

// Limits bound how much one write of the arranger starts. A zero field means
// the default, except Slack, where zero means even.
type Limits struct {
	LeaderMoves   int     // hand-overs that balancing starts in one write; default 16
	FollowerMoves int     // followers that balancing adds in one write; default 32
	Drains        int     // a drain starts hand-overs while fewer than this, of any cause, are in progress; default 16
	Slack         float64 // allowed deviation from the average load, as a share of it; 0: max - min <= 1
}

// DefaultLimits returns the limits of the profile conclave.
func DefaultLimits() Limits { return Limits{LeaderMoves: 16, FollowerMoves: 32, Drains: 16} }

// OriginalLimits returns the limits of the profile sofa: 6 leaders and 10
// followers a round, water marks at 1.1 and 0.9 of the average, and all slots
// of a leaving node at once.
func OriginalLimits() Limits {
	return Limits{LeaderMoves: 6, FollowerMoves: 10, Drains: MaxSlots, Slack: 0.1}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	l.LeaderMoves = cmp.Or(l.LeaderMoves, d.LeaderMoves)
	l.FollowerMoves = cmp.Or(l.FollowerMoves, d.FollowerMoves)
	l.Drains = cmp.Or(l.Drains, d.Drains)
	return l
}

// Input is everything besides the table that Arrange, New and Adopt depend on.
type Input struct {
	// Next is the epoch of the next table. It must be newer than the present
	// table's.
	Next conclave.Epoch
	// Live are the data nodes with a lease, at most one incarnation of each
	// name, including forbidden nodes. The order does not matter.
	Live []conclave.NodeID
	// Silent are the live nodes that have not sent their first report, so that
	// their copies are unknown. A node that has reported no slot at all is not
	// silent.
	Silent []conclave.NodeID
	// Forbidden are the names on the blacklist, of any role. A forbidden node
	// keeps its slots until others have taken them over. It is given nothing
	// new except the slot of a dead leader of which no allowed node has a
	// complete copy.
	Forbidden []string
	// Unheard are the names of live nodes that most sessions do not hear: they
	// cannot serve. They keep their copies, and other nodes lead their slots.
	Unheard []string
	// Replicas is the number of copies that each slot should have, its leader's
	// included.
	Replicas int
	// Frozen is protection: no slot leaves the nodes of its row. A slot whose
	// leader restarted goes to a complete copy in its row, or if there is none to
	// the newer incarnation; a switching slot may become stable.
	Frozen bool
	// Reports are the newest report of each node about each slot. If there are
	// several for the same node and slot, the last in the list counts. Of
	// reports from incarnations that are not live, only Counter is used.
	Reports []Report
	// FloorBase is the smallest version base of a new table (see New). The
	// caller passes the seconds since 2019 times conclave.VersionBase.
	FloorBase int64
	Limits    Limits
}

func (in Input) validate(old conclave.Epoch) error {
	if !old.Less(in.Next) {
		return fmt.Errorf("next epoch %s is not newer than the table's %s", in.Next, old)
	}
	if in.Replicas < 1 {
		return fmt.Errorf("%d replicas: want at least 1, the leader", in.Replicas)
	}
	if l := in.Limits; l.LeaderMoves < 0 || l.FollowerMoves < 0 || l.Drains < 0 || l.Slack < 0 || l.Slack >= 1 {
		return fmt.Errorf("limits %+v: want no negative number and a slack below 1", l)
	}
	names := make(map[string]conclave.NodeID, len(in.Live))
	for _, n := range in.Live {
		if n.Name == "" || n.Incarnation == "" {
			return fmt.Errorf("live node %q is not a name and an incarnation", n)
		}
		if o, twice := names[n.Name]; twice {
			return fmt.Errorf("%s and %s are both live", o, n)
		}
		names[n.Name] = n
	}
	return nil
}

// MoveKind is the kind of change that one write makes to a slot.
type MoveKind string

// The kinds, in the order of a hand-over.
const (
	Granted    MoveKind = "granted"    // the leader was lost: To leads, in phase crash, at a new leader epoch
	Prepared   MoveKind = "prepared"   // To was chosen as the successor of From
	Abandoned  MoveKind = "abandoned"  // the successor From was lost or forbidden
	Switched   MoveKind = "switched"   // To leads at a new leader epoch and takes over from From
	Settled    MoveKind = "settled"    // To serves; the slot is stable
	Followed   MoveKind = "followed"   // To became a follower
	Unfollowed MoveKind = "unfollowed" // From is no longer a follower
	Rebound    MoveKind = "rebound"    // the follower From restarted as To
)

// Move is one change of one slot, for events and logs.
type Move struct {
	Slot int             `json:"slot"`
	Kind MoveKind        `json:"kind"`
	From conclave.NodeID `json:"from,omitzero"`
	To   conclave.NodeID `json:"to,omitzero"`
	Why  string          `json:"why"`
}

// String returns the move as one line of text.
func (m Move) String() string {
	return fmt.Sprintf("slot %d %s %s -> %s (%s)", m.Slot, m.Kind, m.From, m.To, m.Why)
}

// ErrNoSuccessor reports that a node cannot be drained because no other node
// could take over. The error's text has the reason.
var ErrNoSuccessor = errors.New("no successor")
