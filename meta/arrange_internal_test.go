package meta

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave"
	"conclave/slot"
)

func TestHandOversUntil_SuccessorsServeOrALeaderIsDead(t *testing.T) {
	a, b, c := conclave.NodeID{Name: "a", Incarnation: "1"}, conclave.NodeID{Name: "b", Incarnation: "1"}, conclave.NodeID{Name: "c", Incarnation: "1"}
	old, now := conclave.Epoch{Term: 1, Seq: 4}, conclave.Epoch{Term: 1, Seq: 5}
	table := slot.Table{Epoch: now, Slots: []slot.Slot{
		{ID: 0, Phase: slot.Switching, Leader: b, LeaderEpoch: now, Source: a, SourceEpoch: old},
		{ID: 1, Phase: slot.Switching, Leader: c, LeaderEpoch: now, Source: a, SourceEpoch: old},
		{ID: 2, Phase: slot.Stable, Leader: a, LeaderEpoch: old},
	}}
	serves := func(slots ...int) (out []slot.Report) {
		for _, id := range slots {
			out = append(out, slot.Report{Slot: id, Node: table.Slots[id].Leader, Epoch: now, State: slot.Serving})
		}
		return out
	}
	live := []conclave.NodeID{a, b, c}
	began := time.Now()
	end := began.Add(handOverTime)

	assert.Equal(t, end, handOversUntil(table, slot.Input{Live: live}, began), "no successor serves")
	assert.Equal(t, end, handOversUntil(table, slot.Input{Live: live, Reports: serves(0)}, began), "one of two serves")
	assert.Zero(t, handOversUntil(table, slot.Input{Live: live, Reports: serves(0, 1)}, began), "both serve")
	before := serves(0, 1)
	before[1].Epoch = old
	assert.Equal(t, end, handOversUntil(table, slot.Input{Live: live, Reports: before}, began), "one reports an older leadership")
	assert.Zero(t, handOversUntil(table, slot.Input{Live: live[1:], Reports: serves(0)}, began), "the slot of a dead leader waits for no hand-over")
}
