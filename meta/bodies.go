package meta

import (
	"encoding/json"
	"fmt"

	"conclave"
	"conclave/blacklist"
	"conclave/slot"
	conclavesql "conclave/sql"
	"conclave/wire"
)

// The bodies of the rows are the values of wire.State, except for the two here. A
// row's epoch is in its columns; an epoch in a body is ignored.

type tableBody struct {
	Replicas int         `json:"replicas"`
	Slots    []slot.Slot `json:"slots"`
}

// freezeBody also names the data nodes that the cluster had when protection
// began, so that any later leader knows when enough of them are back.
type freezeBody struct {
	wire.Freeze
	Of []string `json:"of,omitempty"`
}

// encode returns the text of a body. A string is the text of a row already.
func encode(body any) (string, error) {
	if text, ok := body.(string); ok {
		return text, nil
	}
	b, err := json.Marshal(body)
	if err != nil {
		return "", fmt.Errorf("encode a %T: %w", body, err)
	}
	return string(b), nil
}

// decode reads a row into the state, and what only the leader has of it: of which
// data nodes protection is. A kind that was never
// written reads as empty, with its epoch. The slot table is an exception: no table
// is published before there is one.
func decode(row conclavesql.State, s *wire.State, of *[]string) error {
	epoch := conclave.Epoch{Term: row.Term, Seq: row.Seq}
	switch row.Kind {
	case conclavesql.KindTable:
		var b tableBody
		if err := read(row, &b); err != nil {
			return err
		}
		s.Table, s.Replicas = slot.Table{}, b.Replicas
		if len(b.Slots) > 0 {
			t := slot.Table{Epoch: epoch, Slots: b.Slots}
			if err := t.Validate(); err != nil {
				return fmt.Errorf("the stored slot table of epoch %s: %w", epoch, err)
			}
			s.Table = t
		}
	case conclavesql.KindBlacklist:
		next := wire.Blacklist{Epoch: epoch}
		if err := read(row, &next); err != nil {
			return err
		}
		if err := blacklist.Set(next.Entries).Validate(); err != nil {
			return fmt.Errorf("the stored blacklist of epoch %s: %w", epoch, err)
		}
		s.Blacklist = next
	case conclavesql.KindFreeze:
		b := freezeBody{Freeze: wire.Freeze{Epoch: epoch}}
		if err := read(row, &b); err != nil {
			return err
		}
		*of, s.Freeze = b.Of, b.Freeze
	case conclavesql.KindMembers:
		return replace(row, &s.Members, wire.Members{Epoch: epoch})
	case conclavesql.KindSwitches:
		return replace(row, &s.Switches, wire.Switches{Epoch: epoch})
	case conclavesql.KindConfig:
		return replace(row, &s.Config, wire.ConfigValues{Epoch: epoch})
	}
	return nil
}

// read reads the body of a row. An empty one leaves into as it is.
func read(row conclavesql.State, into any) error {
	if row.Body == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(row.Body), into); err != nil {
		return fmt.Errorf("the stored %s of epoch %s cannot be read: %w", row.Kind, conclave.Epoch{Term: row.Term, Seq: row.Seq}, err)
	}
	return nil
}

// replace reads the body of a row into next, and makes it the value of old.
func replace[T any](row conclavesql.State, old *T, next T) error {
	if err := read(row, &next); err != nil {
		return err
	}
	*old = next
	return nil
}

// packedTable is the stored form of the slot table. It is written with every step
// of every hand-over, so names are written once and each slot refers to them by
// number: 256 slots are 14 KB instead of 64 KB, and a write takes a quarter of
// the time.
type packedTable struct {
	Replicas int               `json:"replicas"`
	Nodes    []conclave.NodeID `json:"nodes"`
	// First is the epoch at which the table was made: slots that are still led
	// at it have had no other leadership. Absent: written by an older build, or
	// there is no such slot.
	First *[2]uint64   `json:"first,omitempty"`
	Slots []packedSlot `json:"slots"` // in the order of their ids
}

// packedSlot is one slot. Node numbers are positions in packedTable.Nodes, plus
// one; 0 is no node.
type packedSlot struct {
	Phase       slot.Phase `json:"phase,omitempty"` // absent: stable
	Leader      int        `json:"leader"`
	Epoch       [2]uint64  `json:"epoch"` // of the leader: term, sequence
	Base        int64      `json:"base"`  // of the versions
	Followers   []int      `json:"followers,omitempty"`
	Successor   int        `json:"successor,omitempty"`
	Source      int        `json:"source,omitempty"`
	SourceEpoch *[2]uint64 `json:"sourceEpoch,omitempty"`
	Leaving     int        `json:"leaving,omitempty"`
}

var (
	_ json.Marshaler   = tableBody{}
	_ json.Unmarshaler = (*tableBody)(nil)
)

// MarshalJSON packs the table.
func (b tableBody) MarshalJSON() ([]byte, error) {
	out := packedTable{Replicas: b.Replicas, Slots: make([]packedSlot, len(b.Slots))}
	places := map[conclave.NodeID]int{{}: 0}
	place := func(n conclave.NodeID) int {
		p, known := places[n]
		if !known {
			out.Nodes = append(out.Nodes, n)
			p = len(out.Nodes)
			places[n] = p
		}
		return p
	}
	for i, s := range b.Slots {
		p := packedSlot{
			Leader: place(s.Leader), Epoch: [2]uint64{s.LeaderEpoch.Term, s.LeaderEpoch.Seq}, Base: s.VersionBase,
			Successor: place(s.Successor), Source: place(s.Source), Leaving: place(s.Leaving),
		}
		if s.First {
			out.First = &p.Epoch
		}
		if s.Phase != slot.Stable {
			p.Phase = s.Phase
		}
		if !s.SourceEpoch.IsZero() {
			p.SourceEpoch = &[2]uint64{s.SourceEpoch.Term, s.SourceEpoch.Seq}
		}
		for _, f := range s.Followers {
			p.Followers = append(p.Followers, place(f))
		}
		out.Slots[i] = p
	}
	return json.Marshal(out)
}

// UnmarshalJSON unpacks the table. A number without a node is an error.
func (b *tableBody) UnmarshalJSON(text []byte) error {
	var in packedTable
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	var wrong error
	node := func(place int) conclave.NodeID {
		switch {
		case place == 0:
			return conclave.NodeID{}
		case place < 0 || place > len(in.Nodes):
			wrong = fmt.Errorf("node number %d of %d", place, len(in.Nodes))
			return conclave.NodeID{}
		}
		return in.Nodes[place-1]
	}
	*b = tableBody{Replicas: in.Replicas, Slots: make([]slot.Slot, len(in.Slots))}
	for i, p := range in.Slots {
		s := slot.Slot{
			ID: i, Phase: p.Phase, Leader: node(p.Leader), LeaderEpoch: conclave.Epoch{Term: p.Epoch[0], Seq: p.Epoch[1]},
			VersionBase: p.Base, Successor: node(p.Successor), Source: node(p.Source), Leaving: node(p.Leaving),
			Followers: make([]conclave.NodeID, len(p.Followers)),
		}
		s.First = in.First != nil && p.Epoch == *in.First
		if s.Phase == "" {
			s.Phase = slot.Stable
		}
		if p.SourceEpoch != nil {
			s.SourceEpoch = conclave.Epoch{Term: p.SourceEpoch[0], Seq: p.SourceEpoch[1]}
		}
		for j, f := range p.Followers {
			s.Followers[j] = node(f)
		}
		b.Slots[i] = s
	}
	return wrong
}
