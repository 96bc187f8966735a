package slot

import (
	"errors"
	"fmt"

	"conclave"
)

// ReportState is how a data node says that it stands with one slot.
type ReportState string

// The states that beats carry. They repeat in every beat, so that a new meta
// leader goes on where the old one stopped.
const (
	Following ReportState = "following" // loads the leader's snapshot: no complete copy yet
	CaughtUp  ReportState = "caughtUp"  // has a complete copy and reads the leader's feed with small lag
	Migrating ReportState = "migrating" // leads in the table, but may not serve yet
	Serving   ReportState = "serving"   // leads and serves
	Finished  ReportState = "finished"  // was source, has finished, keeps its copy
)

// MaxLagMs is the lag in milliseconds up to which a successor counts as caught
// up: what a hand-over may have to wait for while nobody serves.
const MaxLagMs = 1000

// Report is what a node's newest beat said of one slot. A beat replaces all
// earlier reports of its node.
type Report struct {
	Node conclave.NodeID `json:"node"`
	Slot int             `json:"slot"`
	// Epoch is the leader epoch it speaks of: the one that the node leads at,
	// or that of the leader it follows. Of other epochs nothing is concluded.
	Epoch    conclave.Epoch `json:"epoch"`
	State    ReportState    `json:"state"`
	Position uint64         `json:"position"` // in the leader's feed at Epoch
	LagMs    int64          `json:"lagMs"`
	Counter  int64          `json:"counter"` // the highest version that the node knows of the slot
}

// caughtUpWith says that the node can take over from the leader of epoch e.
func (r Report) caughtUpWith(e conclave.Epoch) bool {
	return r.State == CaughtUp && r.Epoch == e && r.LagMs <= MaxLagMs
}

// complete says that the node has a whole copy as of r.Epoch.
func (r Report) complete() bool {
	return r.State == CaughtUp || r.State == Serving || r.State == Finished
}

// Limits bound what one write of the arranger sets in motion. A zero field
// means the default, except Slack, whose zero means even.
type Limits struct {
	LeaderMoves   int     // hand-overs that balancing starts in one write; default 16
	FollowerMoves int     // followers that balancing adds in one write; default 32
	Drains        int     // hand-overs under way, of whatever cause, up to which a drain starts more; default 16
	Slack         float64 // how far, as a share of the average, a node may be over or under it; 0: max - min <= 1
}

// DefaultLimits are those of the profile conclave.
func DefaultLimits() Limits { return Limits{LeaderMoves: 16, FollowerMoves: 32, Drains: 16} }

// OriginalLimits are those of the profile sofa: 6 leaders and 10 followers a
// round, water marks at 1.1 and 0.9 of the average, and a leaving node's slots
// all at once.
func OriginalLimits() Limits {
	return Limits{LeaderMoves: 6, FollowerMoves: 10, Drains: MaxSlots, Slack: 0.1}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	if l.LeaderMoves == 0 {
		l.LeaderMoves = d.LeaderMoves
	}
	if l.FollowerMoves == 0 {
		l.FollowerMoves = d.FollowerMoves
	}
	if l.Drains == 0 {
		l.Drains = d.Drains
	}
	return l
}

// Input is all that the arranger knows besides the table.
type Input struct {
	// Next is the epoch that the next table will be written under: newer than
	// the table's.
	Next conclave.Epoch
	// Live are the data nodes that hold a lease, one incarnation of a name;
	// forbidden ones are among them. Its order does not matter.
	Live []conclave.NodeID
	// Silent are those of Live whose first report is still awaited: it is not
	// known yet what copies they have. A node that reports no slot at all is not
	// silent.
	Silent []conclave.NodeID
	// Forbidden are the names on the blacklist (of any role). They keep what
	// they have until it is taken over. The only thing that they are given is the
	// slot of a dead leader of which no allowed node has a complete copy.
	Forbidden []string
	// Replicas is how many copies a slot should have, its leader's included.
	Replicas int
	// Frozen is protection: no slot moves, but one whose node restarted is
	// bound to the newer incarnation, and a slot that is switching may arrive.
	Frozen bool
	// Reports are the newest of each node and slot; of two for the same, the
	// later in the list counts. Reports of other incarnations than the live
	// ones count for nothing but their Counter.
	Reports []Report
	// FloorBase is the least version base of a table made from nothing (New);
	// the caller passes the seconds since 2019 times conclave.VersionBase.
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
		return fmt.Errorf("limits %+v: want no negative number, and a slack under 1", l)
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

// MoveKind is what became of a slot in one write.
type MoveKind string

// The kinds, in the order of a hand-over.
const (
	Granted    MoveKind = "granted"    // the leader is gone: To leads, as crash, at a new leader epoch
	Prepared   MoveKind = "prepared"   // To was chosen to succeed From
	Abandoned  MoveKind = "abandoned"  // the successor From can no longer take over
	Switched   MoveKind = "switched"   // To leads at a new leader epoch and takes over from From
	Settled    MoveKind = "settled"    // To serves; the slot is stable
	Followed   MoveKind = "followed"   // To became a follower
	Unfollowed MoveKind = "unfollowed" // From is no follower any more
	Rebound    MoveKind = "rebound"    // the follower From restarted as To
)

// Move is one step of one slot: what events and logs tell of a write.
type Move struct {
	Slot int             `json:"slot"`
	Kind MoveKind        `json:"kind"`
	From conclave.NodeID `json:"from,omitzero"`
	To   conclave.NodeID `json:"to,omitzero"`
	Why  string          `json:"why"`
}

// String is one line for people.
func (m Move) String() string {
	return fmt.Sprintf("slot %d %s %s -> %s (%s)", m.Slot, m.Kind, m.From, m.To, m.Why)
}

// ErrNoSuccessor says that a node cannot be drained, because nobody could take
// over; the message has the reason.
var ErrNoSuccessor = errors.New("no successor")
