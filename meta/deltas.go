package meta

import (
	"sync"
	"time"

	"conclave"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// deltas makes the messages with the state that a stream lacks. The delta from
// one table to the next is made once and shared by all streams, because they
// send it at the same moment, and the hand-overs that it begins wait for it.
type deltas struct {
	mu       sync.Mutex // guards the rest; held while a delta is made, so that the other streams wait for it
	from, to conclave.Epoch
	last     *wirev1.SlotTable // never changed
}

// dataFirst is how much later than data nodes the others receive a table that
// begins hand-overs. They are not needed for these, and on a small machine they
// would take the time of the nodes that are. A session that watches a successor
// learns from it when it serves.
const dataFirst = 3 * time.Millisecond

// beginsHandOvers reports whether a slot is handed over in the table next and was
// not in the table before it.
func beginsHandOvers(before, next slot.Table) bool {
	if !before.Epoch.Less(next.Epoch) {
		return false
	}
	for i, row := range next.Slots {
		if row.Phase == slot.Switching && (i >= len(before.Slots) || before.Slots[i].LeaderEpoch != row.LeaderEpoch) {
			return true
		}
	}
	return false
}

// stateOut returns the part of the state that a receiver with the epochs in have
// lacks. sent is the table that was sent to it before on this stream, the zero
// Table if none was: it then gets the whole table.
func (d *deltas) stateOut(sent slot.Table, state wire.State, have *wirev1.Epochs) *wirev1.State {
	lacks := wire.EpochIn(have.GetTable()).Less(state.Table.Epoch)
	if !lacks || sent.Epoch.IsZero() || len(sent.Slots) != len(state.Table.Slots) {
		return wire.StateOut(state, have)
	}
	rest := state
	rest.Table = slot.Table{}
	out := wire.StateOut(rest, have)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil || d.from != sent.Epoch || d.to != state.Table.Epoch {
		d.from, d.to = sent.Epoch, state.Table.Epoch
		d.last = wire.DeltaOut(sent.Epoch, state.Table, slot.Diff(sent, state.Table).Slots, state.Replicas)
	}
	out.Table = d.last
	return out
}
