package wire

import (
	"time"

	"conclave"
	"conclave/slot"
	wirev1 "conclave/wire/v1"
)

// Conversions between the types of the packages conclave and slot and their
// protobuf messages. XOut returns the message and XIn reads it; a nil message
// reads as the zero value.

// EpochOut returns the message for an epoch, nil for the zero Epoch.
func EpochOut(e conclave.Epoch) *wirev1.Epoch {
	if e.IsZero() {
		return nil
	}
	return &wirev1.Epoch{Term: e.Term, Seq: e.Seq}
}

// EpochIn returns the epoch in a message, the zero Epoch for nil.
func EpochIn(e *wirev1.Epoch) conclave.Epoch {
	return conclave.Epoch{Term: e.GetTerm(), Seq: e.GetSeq()}
}

// NodeOut returns the message for a node's identity, nil for the zero NodeID.
func NodeOut(n conclave.NodeID) *wirev1.Node {
	if n.IsZero() {
		return nil
	}
	return &wirev1.Node{Name: n.Name, Incarnation: n.Incarnation}
}

// NodeIn returns the identity in a message, the zero NodeID for nil.
func NodeIn(n *wirev1.Node) conclave.NodeID {
	return conclave.NodeID{Name: n.GetName(), Incarnation: n.GetIncarnation()}
}

// CheckPublisher checks the limits of a registration; every one from outside passes
// here. Values over their limits are CodeTooLarge, all other errors CodeBadRequest.
// What passes has its full name, and no values if it is withdrawn: the message is
// then what is kept, without another form in between.
func CheckPublisher(p *wirev1.Publisher) error {
	data, err := conclave.ParseDataInfoID(p.GetDataInfoId())
	if err != nil {
		return Errorf(CodeBadRequest, "%v", err)
	}
	if err := conclave.ValidateValues(p.GetValues()); err != nil {
		return Errorf(CodeTooLarge, "%s: %v", data.DataID, err)
	}
	if id := p.GetId(); id == "" || len(id) > 128 {
		return Errorf(CodeBadRequest, "registration id %.20q: want 1 to 128 bytes", id)
	}
	if v := p.GetVersion(); v < 1 || v > conclave.MaxVersion {
		return Errorf(CodeBadRequest, "registration %s has version %d: want 1 to 2^53-1", p.GetId(), v)
	}
	p.DataInfoId = data.String()
	if p.Withdrawn {
		p.Values = nil
	}
	return nil
}

// SlotOut returns the message for one row of the table.
func SlotOut(s slot.Slot) *wirev1.Slot {
	return &wirev1.Slot{
		Id: uint32(s.ID), Phase: string(s.Phase), Leader: NodeOut(s.Leader), LeaderEpoch: EpochOut(s.LeaderEpoch),
		Successor: NodeOut(s.Successor), Source: NodeOut(s.Source), SourceEpoch: EpochOut(s.SourceEpoch),
		VersionBase: s.VersionBase, Followers: mapTo(s.Followers, NodeOut), Leaving: NodeOut(s.Leaving), First: s.First,
	}
}

// SlotIn returns the row in a message without checking it; the View checks the
// whole table.
func SlotIn(s *wirev1.Slot) slot.Slot {
	return slot.Slot{
		ID: int(s.GetId()), Phase: slot.Phase(s.GetPhase()), Leader: NodeIn(s.GetLeader()), LeaderEpoch: EpochIn(s.GetLeaderEpoch()),
		Successor: NodeIn(s.GetSuccessor()), Source: NodeIn(s.GetSource()), SourceEpoch: EpochIn(s.GetSourceEpoch()),
		VersionBase: s.GetVersionBase(), Followers: mapTo(s.GetFollowers(), NodeIn), Leaving: NodeIn(s.GetLeaving()), First: s.GetFirst(),
	}
}

func mapTo[A, B any](in []A, f func(A) B) []B {
	if in == nil {
		return nil
	}
	out := make([]B, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

// Ms returns a duration in milliseconds, the unit on the wire. It rounds up, so
// that a short time is never sent as 0.
func Ms(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// FromMs returns the duration of ms milliseconds.
func FromMs(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
