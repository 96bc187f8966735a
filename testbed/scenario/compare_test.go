package scenario

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"conclave"
	"conclave/slot"
	"conclave/testbed"
	"conclave/testbed/check"
)

// A leader that was evicted while it was ahead of every copy is recorded, like
// one that is killed. One that was not ahead, or that hands its slot over, is
// not.
func TestNoteEvicted_OnlyLeadersThatWereAhead(t *testing.T) {
	before, after := conclave.Epoch{Term: 1, Seq: 1}, conclave.Epoch{Term: 1, Seq: 2}
	row := func(phase slot.Phase, epoch conclave.Epoch) slot.Table {
		return slot.Table{Slots: []slot.Slot{{Phase: phase, Leader: conclave.NodeID{Name: "data-2"}, LeaderEpoch: epoch}}}
	}
	old := testbed.SlotCopy{Node: "data-1", Leads: true, Epoch: before, Position: 5}
	replacement := func(position uint64, epoch conclave.Epoch) testbed.SlotCopy {
		return testbed.SlotCopy{Node: "data-2", Detached: true, Epoch: epoch, Position: position}
	}
	for name, c := range map[string]struct {
		table slot.Table
		all   []testbed.SlotCopy
		noted int
	}{
		"the replacement is behind":                  {row(slot.Crash, after), []testbed.SlotCopy{old, replacement(4, before)}, 1},
		"the replacement's copy is of an older feed": {row(slot.Crash, after), []testbed.SlotCopy{old, replacement(5, conclave.Epoch{Term: 1})}, 1},
		"the replacement has everything":             {row(slot.Crash, after), []testbed.SlotCopy{old, replacement(5, before)}, 0},
		"a third node has everything":                {row(slot.Crash, after), []testbed.SlotCopy{old, replacement(4, before), {Node: "data-3", Detached: true, Epoch: before, Position: 5}}, 0},
		"the replacement serves already":             {row(slot.Crash, after), []testbed.SlotCopy{old, {Node: "data-2", Leads: true, Epoch: after}}, 0},
		"the slot is handed over":                    {row(slot.Switching, after), []testbed.SlotCopy{old, replacement(4, before)}, 0},
		"it is the leader of the newest epoch":       {row(slot.Crash, before), []testbed.SlotCopy{old, replacement(4, before)}, 0},
	} {
		p := &player{rec: check.NewRecorder(name, testbed.Size{})}
		p.rec.Begin()
		p.noteEvicted(c.all, c.table)
		p.noteEvicted(c.all, c.table) // the second call records nothing
		noted := 0
		for _, e := range p.rec.History(true).Entries {
			if e.Op != nil && e.Op.Kind == check.OpAhead {
				noted++
			}
		}
		assert.Equal(t, c.noted, noted, name)
	}
}
