package slot

import (
	"slices"

	"conclave"
)

// Phase is where a slot stands in the hand-over from one leader to the next.
type Phase string

// The phases of the protocol; each is persisted in the slot's row before
// anyone acts on it, so that any new meta leader goes on from there.
const (
	Stable    Phase = "stable"    // Leader serves at LeaderEpoch
	Preparing Phase = "preparing" // Leader serves; Successor follows it and reports its lag
	Switching Phase = "switching" // Leader is the successor: takes writes, asks Source to finish, then serves
	Crash     Phase = "crash"     // the old leader is gone: Leader diffs with all who must be heard, then serves
)

// Slot is one row of the table: who leads it, since which epoch, and who copies.
// A node's name stands at most once in a row.
type Slot struct {
	ID          int               `json:"id"`
	Phase       Phase             `json:"phase"`
	Leader      conclave.NodeID   `json:"leader"`
	LeaderEpoch conclave.Epoch    `json:"leaderEpoch"` // changes exactly when Leader (with its incarnation) changes
	Successor   conclave.NodeID   `json:"successor,omitzero"`
	Source      conclave.NodeID   `json:"source,omitzero"`      // the old leader; stays in the row, dead or alive, until the new one serves
	SourceEpoch conclave.Epoch    `json:"sourceEpoch,omitzero"` // the epoch that Source led at: what Finish ends
	VersionBase int64             `json:"versionBase"`          // floor of the versions given out at LeaderEpoch
	Followers   []conclave.NodeID `json:"followers"`            // sorted; never Leader, Successor or Source
	Leaving     conclave.NodeID   `json:"leaving,omitzero"`     // a follower that others stand in for: it goes once they have caught up
	First       bool              `json:"first,omitempty"`      // no other leadership came before LeaderEpoch: no copy can have been lost
}

// Table is an immutable assignment of slots to data nodes under one epoch. The
// zero Table says that nothing has been decided yet. Slots[i] is slot i.
type Table struct {
	Epoch conclave.Epoch `json:"epoch"`
	Slots []Slot         `json:"slots"`
}

// Holders lists every node that has a copy of the slot, or is building one:
// the leader first, then successor, source and followers.
func (s Slot) Holders() []conclave.NodeID {
	held := make([]conclave.NodeID, 0, 3+len(s.Followers))
	for _, n := range [...]conclave.NodeID{s.Leader, s.Successor, s.Source} {
		if !n.IsZero() {
			held = append(held, n)
		}
	}
	return append(held, s.Followers...)
}

// Holds says that this very incarnation of node has a place in the row.
func (s Slot) Holds(node conclave.NodeID) bool {
	return !node.IsZero() && slices.Contains(s.Holders(), node)
}

// Names says that some incarnation of the named node has a place in the row.
func (s Slot) Names(name string) bool {
	return slices.ContainsFunc(s.Holders(), func(n conclave.NodeID) bool { return n.Name == name })
}

// Equal says that both rows say the same.
func (s Slot) Equal(o Slot) bool {
	return s.ID == o.ID && s.Phase == o.Phase &&
		s.Leader == o.Leader && s.LeaderEpoch == o.LeaderEpoch &&
		s.Successor == o.Successor &&
		s.Source == o.Source && s.SourceEpoch == o.SourceEpoch &&
		s.VersionBase == o.VersionBase && s.Leaving == o.Leaving && s.First == o.First &&
		slices.Equal(s.Followers, o.Followers)
}

func (s Slot) clone() Slot {
	s.Followers = append(make([]conclave.NodeID, 0, len(s.Followers)), s.Followers...)
	return s
}
