package slot

import (
	"fmt"
	"hash/crc32"
	"slices"

	"conclave"
)

// Phase is a slot's state in the hand-over from one leader to the next.
type Phase string

// The phases of the hand-over. Each is stored in the slot's row before any node
// acts on it, so that a new meta leader can continue from there.
const (
	Stable    Phase = "stable"    // Leader serves at LeaderEpoch
	Preparing Phase = "preparing" // Leader serves; Successor follows it and reports its lag
	Switching Phase = "switching" // Leader is the successor: takes writes, asks Source to finish, then serves
	Crash     Phase = "crash"     // the old leader is dead, or most sessions do not hear it: Leader takes the furthest copy, compares with the sessions, then serves
)

// Slot is one row of the table: the leader, its leader epoch, and the nodes
// with copies. A node's name occurs at most once in a row.
type Slot struct {
	ID          int               `json:"id"`
	Phase       Phase             `json:"phase"`
	Leader      conclave.NodeID   `json:"leader"`
	LeaderEpoch conclave.Epoch    `json:"leaderEpoch"` // new with each grant: when Leader changes, incarnation included, and when Adopt grants the slot again
	Successor   conclave.NodeID   `json:"successor,omitzero"`
	Source      conclave.NodeID   `json:"source,omitzero"`      // the old leader; in the row, dead or alive, until the new one serves
	SourceEpoch conclave.Epoch    `json:"sourceEpoch,omitzero"` // the leader epoch of Source; Finish ends it
	VersionBase int64             `json:"versionBase"`          // lower bound of the versions issued at LeaderEpoch
	Followers   []conclave.NodeID `json:"followers"`            // sorted; never Leader, Successor or Source
	Leaving     conclave.NodeID   `json:"leaving,omitzero"`     // a follower that is being replaced; it leaves once the others have caught up
	First       bool              `json:"first,omitempty"`      // LeaderEpoch is the slot's first: no copy can have been lost
}

// Table is an immutable assignment of slots to data nodes under one epoch. The
// zero Table means that no slot has been assigned yet. Slots[i] is slot i.
type Table struct {
	Epoch conclave.Epoch `json:"epoch"`
	Slots []Slot         `json:"slots"`
}

// Holders returns every node that has a copy of the slot or is loading one: the
// leader first, then successor, source and followers.
func (s Slot) Holders() []conclave.NodeID {
	held := make([]conclave.NodeID, 0, 3+len(s.Followers))
	for _, n := range [...]conclave.NodeID{s.Leader, s.Successor, s.Source} {
		if !n.IsZero() {
			held = append(held, n)
		}
	}
	return append(held, s.Followers...)
}

// Holds reports whether this incarnation of node has a place in the row.
func (s Slot) Holds(node conclave.NodeID) bool {
	return !node.IsZero() && slices.Contains(s.Holders(), node)
}

// Names reports whether any incarnation of the named node has a place in the
// row.
func (s Slot) Names(name string) bool {
	return slices.ContainsFunc(s.Holders(), func(n conclave.NodeID) bool { return n.Name == name })
}

// Equal reports whether both rows are the same.
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

// MaxSlots is the largest number of slots in a table, given by the width of a
// slot id in the original.
const MaxSlots = 1 << 14

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ValidateCount returns an error unless slots is a power of two from 1 to
// MaxSlots. Powers of two are required because Of masks instead of dividing.
// The original masks too, but accepts any count, which leaves slots without
// keys.
func ValidateCount(slots int) error {
	if slots < 1 || slots > MaxSlots || slots&(slots-1) != 0 {
		return fmt.Errorf("slot count %d is not a power of two from 1 to %d", slots, MaxSlots)
	}
	return nil
}

// Of returns the slot of a key, usually a conclave.DataInfoID's String, in a
// table of that many slots (a count that ValidateCount accepts). It is
// byte-compatible with the original: the CRC-32C of the UTF-8 bytes as a signed
// number, its absolute value, masked.
func Of(key string, slots int) int {
	sum := int32(crc32.Checksum([]byte(key), castagnoli))
	if sum < 0 {
		// As in Java, the most negative number stays negative. Its low bits are
		// zero, so the mask turns it into slot 0.
		sum = -sum
	}
	return int(sum) & (slots - 1)
}

// Of returns the row of the slot that key belongs to. The table must not be
// empty.
func (t Table) Of(key string) Slot { return t.Slots[Of(key, len(t.Slots))] }
