package slot_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave"
	"conclave/slot"
)

func TestApply_WholeTableThenChanges(t *testing.T) {
	first := table(t, 16, 2, "a", "b", "c")
	full := slot.Full(first)
	assert.Len(t, full.Slots, 16)
	got, err := slot.Apply(slot.Table{}, full)
	require.NoError(t, err)
	assert.True(t, got.Equal(first))

	second, moves, err := slot.Arrange(first, slot.Input{Next: epoch(1, 3), Live: nodes("a", "b"), Replicas: 1})
	require.NoError(t, err)
	require.NotEmpty(t, moves)
	d := slot.Diff(first, second)
	assert.Less(t, len(d.Slots), 16, "rows without c are not in it")
	assert.NotEmpty(t, d.Slots)
	got, err = slot.Apply(first, d)
	require.NoError(t, err)
	assert.True(t, got.Equal(second))

	// A whole table replaces any older one, but not a newer one.
	got, err = slot.Apply(first, slot.Full(second))
	require.NoError(t, err)
	assert.True(t, got.Equal(second))
	for what, d := range map[string]slot.Delta{
		"against another base":   d,
		"an older whole table":   slot.Full(first),
		"the same table, whole":  slot.Full(second),
		"rows without new epoch": {Base: second.Epoch, Epoch: second.Epoch, Slots: d.Slots},
	} {
		got, err = slot.Apply(second, d)
		assert.ErrorIs(t, err, slot.ErrBase, what)
		assert.True(t, got.Equal(second), what)
	}
	for what, d := range map[string]slot.Delta{
		"nothing for a table":  {Epoch: epoch(9, 9)},
		"a slot out of range":  {Base: second.Epoch, Epoch: epoch(9, 9), Slots: []slot.Slot{{ID: 16}}},
		"a negative slot":      {Base: second.Epoch, Epoch: epoch(9, 9), Slots: []slot.Slot{{ID: -1}}},
		"a slot twice":         {Base: second.Epoch, Epoch: epoch(9, 9), Slots: []slot.Slot{second.Slots[3], second.Slots[3]}},
		"a slot without phase": {Base: second.Epoch, Epoch: epoch(9, 9), Slots: []slot.Slot{{ID: 3}}},
	} {
		got, err = slot.Apply(second, d)
		assert.ErrorIs(t, err, slot.ErrInvalid, what)
		assert.True(t, got.Equal(second), what)
	}
}

// drawTable draws a valid table, at an epoch of the given term.
func drawTable(t *rapid.T, label string, slots int, term uint64) slot.Table {
	names := rapid.SampledFrom([][]conclave.NodeID{nodes("a"), nodes("a", "b"), nodes("b", "c", "d"), {again("a"), node("b"), node("e")}}).Draw(t, label+" nodes")
	w, err := slot.New(slots, slot.Input{Next: epoch(term, 1), Live: names, Replicas: rapid.IntRange(1, 3).Draw(t, label+" replicas")})
	require.NoError(t, err)
	for seq := range rapid.Uint64Range(0, 3).Draw(t, label+" rounds") {
		in := slot.Input{Next: epoch(term, seq+2), Live: names, Replicas: 2, Reports: answers(w)}
		if rapid.Bool().Draw(t, label+" drain") {
			in.Forbidden = []string{"b"}
		}
		w, _, err = slot.Arrange(w, in)
		require.NoError(t, err)
	}
	return w
}

func applyUndoesDiff(t *rapid.T) {
	slots := 1 << rapid.IntRange(0, 4).Draw(t, "slots as a power of two")
	old := drawTable(t, "old", slots, 1)
	if rapid.Bool().Draw(t, "from nothing") {
		old = slot.Table{}
	}
	next := drawTable(t, "next", slots, 2)
	before := old.Clone()
	d := slot.Diff(old, next)
	text, err := json.Marshal(d)
	require.NoError(t, err)
	var read slot.Delta
	require.NoError(t, json.Unmarshal(text, &read))

	got, err := slot.Apply(old, read)
	require.NoError(t, err)
	require.True(t, got.Equal(next))
	require.True(t, before.Equal(old))
	for i, s := range d.Slots { // only changed rows are in it
		require.True(t, i == 0 || d.Slots[i-1].ID < s.ID)
		require.True(t, len(old.Slots) == 0 || !s.Equal(old.Slots[s.ID]))
	}

	// It applies to no other table.
	other := old.At(epoch(1, 99))
	if len(old.Slots) > 0 {
		got, err = slot.Apply(other, read)
		require.ErrorIs(t, err, slot.ErrBase)
		require.True(t, got.Equal(other))
	}
}

func TestApplyUndoesDiff(t *testing.T) { rapid.Check(t, applyUndoesDiff) }

func FuzzApplyUndoesDiff(f *testing.F) { f.Fuzz(rapid.MakeFuzz(applyUndoesDiff)) }

// Whatever delta a peer sends, the table either stays as it is or becomes a
// valid one, without a panic.
func FuzzApplyOfAnything(f *testing.F) {
	f.Add([]byte(`{"base":{"term":1,"seq":1},"epoch":{"term":1,"seq":2},"slots":[{"id":1,"phase":"crash"}]}`))
	f.Add([]byte(`{"epoch":{"term":1,"seq":2},"slots":[{"id":0,"phase":"crash","leader":{"name":"a","incarnation":"1"},"leaderEpoch":{"term":1,"seq":1}}]}`))
	w, err := slot.New(4, slot.Input{Next: epoch(1, 1), Live: nodes("a", "b"), Replicas: 2})
	require.NoError(f, err)
	text, err := json.Marshal(slot.Full(w.At(epoch(1, 2))))
	require.NoError(f, err)
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		var d slot.Delta
		if json.Unmarshal(text, &d) != nil {
			return
		}
		before := w.Clone()
		got, err := slot.Apply(w, d)
		require.True(t, before.Equal(w))
		require.NoError(t, got.Validate())
		if err != nil {
			require.True(t, got.Equal(w))
		} else {
			require.Equal(t, d.Epoch, got.Epoch)
		}
	})
}
