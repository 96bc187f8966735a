package meta

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"conclave"
	"conclave/slot"
)

func TestBeginsHandOvers_OnlyTheTableThatSwitchesASlot(t *testing.T) {
	at := func(seq uint64, phase slot.Phase, leaderSeq uint64) slot.Table {
		return slot.Table{Epoch: conclave.Epoch{Term: 1, Seq: seq}, Slots: []slot.Slot{
			{ID: 0, Phase: slot.Stable, LeaderEpoch: conclave.Epoch{Term: 1, Seq: 1}},
			{ID: 1, Phase: phase, LeaderEpoch: conclave.Epoch{Term: 1, Seq: leaderSeq}},
		}}
	}
	before, switched := at(4, slot.Preparing, 1), at(5, slot.Switching, 5)
	assert.True(t, beginsHandOvers(before, switched))
	assert.True(t, beginsHandOvers(switched, at(6, slot.Switching, 6)), "handed on")
	assert.False(t, beginsHandOvers(switched, switched), "the receiver has it")
	assert.False(t, beginsHandOvers(switched, before), "an older one")
	assert.False(t, beginsHandOvers(switched, at(6, slot.Switching, 5)), "it was in progress before")
	assert.False(t, beginsHandOvers(before, at(5, slot.Crash, 5)), "a dead leader hands nothing over")
	assert.False(t, beginsHandOvers(before, at(5, slot.Stable, 1)))
}
