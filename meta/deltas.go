package meta

import (
	"sync"

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
