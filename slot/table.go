package slot

import (
	"slices"

	"conclave"
)

// Clone returns a copy that shares no memory with t.
func (t Table) Clone() Table {
	c := Table{Epoch: t.Epoch, Slots: make([]Slot, len(t.Slots))}
	for i, s := range t.Slots {
		c.Slots[i] = s.clone()
	}
	return c
}

// Equal reports whether both tables have the same epoch and the same rows.
func (t Table) Equal(o Table) bool {
	return t.Epoch == o.Epoch && slices.EqualFunc(t.Slots, o.Slots, Slot.Equal)
}

// At returns the same assignment under another epoch. The first write of a term
// uses it to seal the table again. The result shares its rows with t.
func (t Table) At(epoch conclave.Epoch) Table {
	t.Epoch = epoch
	return t
}

// LedBy returns the ids of the slots that this incarnation of node leads.
func (t Table) LedBy(node conclave.NodeID) []int {
	return t.ids(func(s Slot) bool { return s.Leader == node })
}

// HeldBy returns the ids of the slots of which this incarnation of node has a
// copy or is loading one, whatever its place in the row.
func (t Table) HeldBy(node conclave.NodeID) []int {
	return t.ids(func(s Slot) bool { return s.Holds(node) })
}

func (t Table) ids(pick func(Slot) bool) []int {
	var ids []int
	for _, s := range t.Slots {
		if pick(s) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// StableAll reports whether every slot is stable: its leader has reported that
// it serves, and no hand-over is in progress. The table does not record whether
// the leaders are alive; see Even.
func (t Table) StableAll() bool {
	return !slices.ContainsFunc(t.Slots, func(s Slot) bool { return s.Phase != Stable })
}

// Even reports whether the given nodes lead every slot and none of them leads
// two more than another. An empty table is even.
func (t Table) Even(nodes []conclave.NodeID) bool {
	if len(t.Slots) == 0 {
		return true
	}
	leads := make(map[conclave.NodeID]int, len(nodes))
	for _, s := range t.Slots {
		if !slices.Contains(nodes, s.Leader) {
			return false
		}
		leads[s.Leader]++
	}
	least, most := len(t.Slots), 0
	for _, n := range nodes {
		least, most = min(least, leads[n]), max(most, leads[n])
	}
	return most-least <= 1
}
