package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

var (
	d1 = conclave.NodeID{Name: "data-1", Incarnation: "a"}
	d2 = conclave.NodeID{Name: "data-2", Incarnation: "b"}
)

func epoch(term, seq uint64) conclave.Epoch { return conclave.Epoch{Term: term, Seq: seq} }

func table(e conclave.Epoch, leaders ...conclave.NodeID) slot.Table {
	t := slot.Table{Epoch: e}
	for i, l := range leaders {
		t.Slots = append(t.Slots, slot.Slot{ID: i, Phase: slot.Stable, Leader: l, LeaderEpoch: e})
	}
	return t
}

func full(t slot.Table) *wirev1.State {
	return &wirev1.State{Table: wire.TableOut(t, 2)}
}

// Article 002: two tables may coexist, so a receiver must know which is newer,
// and never return to the older one.
func TestView_AcceptsHigherRefusesLowerIgnoresEqual(t *testing.T) {
	v := wire.NewView()
	changed := v.Changed()

	took, err := v.Apply(full(table(epoch(2, 3), d1)))
	require.NoError(t, err)
	assert.True(t, took)
	select {
	case <-changed:
	default:
		t.Error("the channel of Changed is not closed")
	}

	took, err = v.Apply(full(table(epoch(2, 3), d2)))
	require.NoError(t, err)
	assert.False(t, took, "an equal epoch is ignored")
	assert.Zero(t, v.Refused())

	took, err = v.Apply(full(table(epoch(1, 9), d2)))
	require.NoError(t, err)
	assert.False(t, took, "a higher sequence of a lower term is older")
	assert.EqualValues(t, 1, v.Refused())
	assert.Equal(t, d1, v.Table().Slots[0].Leader)
}

func TestView_AppliesDeltaOnlyToItsBase(t *testing.T) {
	v := wire.NewView()
	base := table(epoch(1, 1), d1, d1)
	_, err := v.Apply(full(base))
	require.NoError(t, err)

	next := table(epoch(1, 2), d1, d2)
	delta := func(at conclave.Epoch) *wirev1.State {
		return &wirev1.State{Table: wire.DeltaOut(slot.Table{Epoch: at, Slots: base.Slots}, next, 2), Freeze: &wirev1.Freeze{Epoch: wire.EpochOut(epoch(1, 3)), Frozen: true}}
	}
	took, err := v.Apply(delta(epoch(1, 0)))
	assert.ErrorIs(t, err, wire.ErrBehind)
	assert.True(t, took, "the other kinds are accepted")
	assert.Equal(t, epoch(1, 1), v.TableEpoch())

	_, err = v.Apply(delta(epoch(1, 1)))
	require.NoError(t, err)
	assert.Equal(t, epoch(1, 2), v.TableEpoch())
	assert.Equal(t, []conclave.NodeID{d1, d2}, []conclave.NodeID{v.Table().Slots[0].Leader, v.Table().Slots[1].Leader})
}

func TestStateOut_ContainsWhatPeerLacks(t *testing.T) {
	state := wire.State{
		Table: table(epoch(3, 1), d1), Replicas: 2,
		Members:  wire.Members{Epoch: epoch(3, 2), List: []wire.Member{{Node: d1, Role: conclave.RoleData, Address: "h:1", Dialable: true}}, Lost: []wire.Member{{Node: conclave.NodeID{Name: "session-1", Incarnation: "c"}, Role: conclave.RoleSession, Address: "h:2"}}},
		Switches: wire.Switches{Epoch: epoch(3, 3), List: []wire.Switch{{Key: wire.SwitchStopPush, Value: "on", Version: 4}}},
		Freeze:   wire.Freeze{Epoch: epoch(3, 4), Frozen: true, Reason: "half are gone"},
	}
	out := wire.StateOut(state, &wirev1.Epochs{Table: wire.EpochOut(epoch(3, 1))})
	assert.Nil(t, out.Table, "the peer has it")
	assert.Nil(t, out.Blacklist, "there is none")

	v := wire.NewView()
	_, err := v.Apply(out)
	require.NoError(t, err)
	got := v.State()
	assert.Equal(t, state.Members, got.Members)
	assert.Equal(t, state.Switches, got.Switches)
	assert.Equal(t, state.Freeze, got.Freeze)
	assert.True(t, got.Members.Has(d1))
	assert.False(t, got.Members.Has(conclave.NodeID{Name: "data-1", Incarnation: "older"}), "a restarted node is a different member")
}

func TestFence_RefusesOlderTerm(t *testing.T) {
	var f wire.Fence
	require.NoError(t, f.Admit(4))
	require.NoError(t, f.Admit(5))
	err := f.Admit(4)
	var e *wire.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, wire.CodeStaleEpoch, e.Code)
	assert.EqualValues(t, 5, e.Epoch.Term, "the error has the highest term seen")
	assert.EqualValues(t, 1, f.Refused())
	assert.EqualValues(t, 5, f.Highest())
}

// A broken or hostile peer must not make a node refuse every later leader.
func TestFence_RefusesImplausibleTerm(t *testing.T) {
	var f wire.Fence
	require.NoError(t, f.Admit(5))
	assert.Equal(t, wire.CodeBadRequest, wire.CodeOf(f.Admit(1<<63)))
	f.Saw(1 << 63)
	assert.EqualValues(t, 5, f.Highest())
	assert.NoError(t, f.Admit(6))
}

func TestView_RefusesInvalidTable(t *testing.T) {
	v := wire.NewView()
	_, err := v.Apply(full(table(epoch(1, 1), d1)))
	require.NoError(t, err)
	_, err = v.Apply(full(table(epoch(2, 1), conclave.NodeID{})))
	assert.ErrorIs(t, err, slot.ErrInvalid)
	assert.Equal(t, epoch(1, 1), v.TableEpoch())
}
