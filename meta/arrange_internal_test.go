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

// A leader with nothing to do makes no table again from what it was made from before.
func TestArranged_DiffersByWhatCanMoveASlot(t *testing.T) {
	a, b := conclave.NodeID{Name: "a", Incarnation: "1"}, conclave.NodeID{Name: "b", Incarnation: "1"}
	at := func(change func(*arranged)) arranged {
		x := arranged{table: conclave.Epoch{Term: 1, Seq: 4}, in: slot.Input{
			Next: conclave.Epoch{Term: 1, Seq: 5}, Live: []conclave.NodeID{a, b}, Replicas: 2, Limits: slot.DefaultLimits(),
		}, reports: [][]slot.Report{{{Node: a, Slot: 3, State: slot.Serving}}, {{Node: b, Slot: 3, State: slot.CaughtUp}}}}
		change(&x)
		return x
	}
	now := at(func(*arranged) {})
	assert.True(t, now.as(at(func(*arranged) {})))
	assert.True(t, now.as(at(func(x *arranged) { x.reports[1][0].Position, x.reports[1][0].LagMs = 7, slot.MaxLagMs })), "a write moves no slot")
	assert.False(t, now.as(arranged{}), "none was made")
	for what, change := range map[string]func(*arranged){
		"the table":    func(x *arranged) { x.table.Seq++ },
		"live":         func(x *arranged) { x.in.Live = x.in.Live[1:] },
		"incarnation":  func(x *arranged) { x.in.Live[0].Incarnation = "2" },
		"silent":       func(x *arranged) { x.in.Silent = x.in.Live[1:] },
		"forbidden":    func(x *arranged) { x.in.Forbidden = []string{"a"} },
		"unheard":      func(x *arranged) { x.in.Unheard = []string{"a"} },
		"replicas":     func(x *arranged) { x.in.Replicas++ },
		"frozen":       func(x *arranged) { x.in.Frozen = true },
		"limits":       func(x *arranged) { x.in.Limits.Drains++ },
		"state":        func(x *arranged) { x.reports[1][0].State = slot.Following },
		"epoch":        func(x *arranged) { x.reports[0][0].Epoch.Seq++ },
		"lag":          func(x *arranged) { x.reports[1][0].LagMs = slot.MaxLagMs + 1 },
		"reporter":     func(x *arranged) { x.reports[0][0].Node = b },
		"fewer copies": func(x *arranged) { x.reports = x.reports[:1] },
	} {
		assert.False(t, now.as(at(change)), what)
	}
}
