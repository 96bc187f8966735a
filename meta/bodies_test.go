package meta

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/slot"
)

// A table read back equals the one that was stored, in every phase, and the
// stored form is small.
func TestPackedTable_RoundTrip(t *testing.T) {
	node := func(name string) conclave.NodeID { return conclave.NodeID{Name: name, Incarnation: "0123456789abcdef"} }
	in := slot.Input{
		Next: conclave.Epoch{Term: 1, Seq: 1}, Live: []conclave.NodeID{node("data-1"), node("data-2"), node("data-3")}, Replicas: 2,
		FloorBase: 248_000_000 * conclave.VersionBase,
	}
	table, err := slot.New(256, in)
	require.NoError(t, err)
	table.Slots[0].Phase, table.Slots[0].Source, table.Slots[0].SourceEpoch = slot.Switching, node("data-9"), conclave.Epoch{Term: 1, Seq: 0}
	table.Slots[1].Phase, table.Slots[1].Successor = slot.Preparing, node("data-8")
	table.Slots[2].Phase = slot.Stable
	table.Slots[2].Leaving = table.Slots[2].Followers[0]

	text, err := json.Marshal(tableBody{2, table.Slots})
	require.NoError(t, err)
	assert.Less(t, len(text), 24<<10)
	var out tableBody
	require.NoError(t, json.Unmarshal(text, &out))
	assert.Equal(t, tableBody{2, table.Slots}, out)

	assert.Error(t, json.Unmarshal([]byte(`{"nodes":[],"slots":[{"leader":1}]}`), &out), "a number without a node")
}
