package meta

import (
	"encoding/json"
	"fmt"
	"slices"

	"conclave"
	"conclave/blacklist"
	"conclave/slot"
	conclavesql "conclave/sql"
	"conclave/wire"
)

// The bodies of the rows. A row's epoch is in its columns; an epoch in a body
// is ignored.

type tableBody struct {
	Replicas int         `json:"replicas"`
	Slots    []slot.Slot `json:"slots"`
}

type membersBody struct {
	List []wire.Member `json:"list"`
	Lost []wire.Member `json:"lost,omitempty"`
}

type switchesBody struct {
	List []wire.Switch `json:"list"`
}

// freezeBody also names the data nodes that the cluster had when protection
// began, so that any later leader knows when enough of them are back.
type freezeBody struct {
	Frozen bool     `json:"frozen"`
	Reason string   `json:"reason,omitempty"`
	Of     []string `json:"of,omitempty"`
}

func encode(body any) (string, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return "", fmt.Errorf("encode a %T: %w", body, err)
	}
	return string(b), nil
}

// decode reads a row into the state. A kind that was never written reads as
// empty, with its epoch. The slot table is an exception: no table is published
// before there is one.
func (a *arranger) decode(row conclavesql.State) error {
	epoch := conclave.Epoch{Term: row.Term, Seq: row.Seq}
	read := func(into any) error {
		if row.Body == "" {
			return nil
		}
		if err := json.Unmarshal([]byte(row.Body), into); err != nil {
			return fmt.Errorf("the stored %s of epoch %s cannot be read: %w", row.Kind, epoch, err)
		}
		return nil
	}
	switch row.Kind {
	case conclavesql.KindTable:
		var b tableBody
		if err := read(&b); err != nil {
			return err
		}
		a.state.Table, a.state.Replicas = slot.Table{}, b.Replicas
		if len(b.Slots) > 0 {
			t := slot.Table{Epoch: epoch, Slots: b.Slots}
			if err := t.Validate(); err != nil {
				return fmt.Errorf("the stored slot table of epoch %s: %w", epoch, err)
			}
			a.state.Table = t
		}
	case conclavesql.KindMembers:
		var b membersBody
		if err := read(&b); err != nil {
			return err
		}
		a.state.Members = wire.Members{Epoch: epoch, List: b.List, Lost: b.Lost}
	case conclavesql.KindBlacklist:
		var set blacklist.Set
		if err := read(&set); err != nil {
			return err
		}
		a.black = set.At(epoch)
		a.state.Blacklist = wire.Blacklist{Epoch: epoch, Entries: set.List()}
	case conclavesql.KindSwitches:
		var b switchesBody
		if err := read(&b); err != nil {
			return err
		}
		a.state.Switches = wire.Switches{Epoch: epoch, List: b.List}
	case conclavesql.KindFreeze:
		var b freezeBody
		if err := read(&b); err != nil {
			return err
		}
		a.watch.of = b.Of
		a.state.Freeze = wire.Freeze{Epoch: epoch, Frozen: b.Frozen, Reason: b.Reason}
	}
	return nil
}

// sameMembers reports whether two lists are equal.
func sameMembers(a, b []wire.Member) bool { return slices.Equal(a, b) }
