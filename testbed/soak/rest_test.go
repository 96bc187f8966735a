package soak

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"conclave/slot"
	"conclave/testbed"
)

func TestUnserved_DescribesWhatIsMissing(t *testing.T) {
	nodes := []string{"meta-1", "data-1"}
	now := testbed.Snapshot{Ready: []string{"meta-1"}}
	assert.Equal(t, "data-1 is not ready", unserved(now, nodes))
	now.Ready = nodes
	assert.Equal(t, "there is no slot table", unserved(now, nodes))
	now.Table.Slots = []slot.Slot{{Phase: slot.Stable}, {Phase: slot.Crash}}
	assert.Equal(t, "the slot table is not stable", unserved(now, nodes))
	now.Table.Slots[1].Phase = slot.Stable
	assert.Empty(t, unserved(now, nodes))
	now.Frozen = true
	assert.Equal(t, "the cluster is protected", unserved(now, nodes))
	now.Frozen, now.Forbid = false, []string{"data-1"}
	assert.Equal(t, "on the blacklist: data-1", unserved(now, nodes))
}

func TestFirstBad_FindsTheLine(t *testing.T) {
	assert.Empty(t, firstBad("all is well\nfine\n"))
	assert.Equal(t, "WARNING: DATA RACE", firstBad("all is well\n WARNING: DATA RACE\npanic: no\n"))
}
