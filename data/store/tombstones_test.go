package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// A registration is withdrawn at one session while another has an older copy.
func TestTombstone_HidesLowerCopiesUntilTheyAreGone(t *testing.T) {
	s, now := New(time.Second), time.Now()
	s.Write(CopyOf(testOwners[2], publisher(testData[0], "r1", 1, false)), now)
	s.Write(CopyOf(testOwners[0], publisher(testData[0], "r1", 2, true)), now)
	assert.Empty(t, s.Read(testData[0], 0, 0, now).GetDatum().GetValues())
	s.Compact(now.Add(time.Hour), now)
	assert.False(t, s.Remove(Key{testOwners[0], testData[0], "r1"}, 2, clientGone, now), "it still hides the older copy")
	assert.Zero(t, s.RemoveOwner(testOwners[0], ownerGone, now))
	assert.Empty(t, s.Read(testData[0], 0, 0, now).GetDatum().GetValues())
	s.Write(CopyOf(testOwners[0], publisher(testData[0], "r1", 1, false)), now)
	assert.Empty(t, s.Read(testData[0], 0, 0, now).GetDatum().GetValues(), "an older put of the owner changes nothing")
	require.True(t, s.Remove(Key{testOwners[2], testData[0], "r1"}, 1, clientGone, now))
	s.Compact(now.Add(time.Hour), now)
	assert.Empty(t, s.All())
}

// A put is answered with the version that hides it: a higher one, live or withdrawn. A
// withdrawal is hidden only by a value that subscribers see.
func TestHiddenBy_NamesTheHigherVersion(t *testing.T) {
	s, now := New(time.Second), time.Now()
	write := func(owner int, version int64, withdrawn bool) int64 {
		c := CopyOf(testOwners[owner], publisher(testData[0], "r1", version, withdrawn))
		s.Write(c, now)
		return s.HiddenBy(c)
	}
	assert.Zero(t, write(0, 5, false))
	assert.Zero(t, write(1, 5, false), "one version has one content")
	assert.EqualValues(t, 5, write(2, 4, true), "it was withdrawn before it was registered again")
	assert.EqualValues(t, 5, write(2, 5, true))
	assert.Zero(t, write(2, 7, true))
	assert.EqualValues(t, 7, write(0, 6, false))
	assert.Zero(t, write(1, 6, true), "it is withdrawn")
	s.Remove(Key{testOwners[2], testData[0], "r1"}, 7, clientGone, now)
	assert.EqualValues(t, 7, write(0, 6, false), "as what is left of the removed one")
	assert.Zero(t, write(0, 8, false))
}

// A follower decides nothing, but keeps no records of deleted copies.
func TestPrune_FreesDeletedCopies(t *testing.T) {
	s, now := New(15*time.Second), time.Now()
	s.Follow(nil, &wirev1.ReplicateEvent{Copies: []*wirev1.Copy{
		copyOut(CopyOf(testOwners[0], publisher(testData[0], "r1", 1, true))), copyOut(CopyOf(testOwners[0], publisher(testData[1], "r2", 1, true))),
	}}, now)
	s.Follow(nil, &wirev1.ReplicateEvent{Removals: []*wirev1.CopyRemoval{
		{Owner: wire.NodeOut(testOwners[0]), DataInfoId: testData[0], Id: "r1", Cause: withdrawn},
	}}, now)
	s.Prune(now.Add(time.Hour))
	require.Len(t, s.tombstones, 1)
	assert.Equal(t, "r2", s.tombstones[0].ID, "the leader has not removed that tombstone")
	assert.Len(t, s.data, 1)
}

// What Prune visits does not grow with the number of data: only those that have
// lost their last registration and could not be forgotten at once.
func TestPrune_VisitsOnlyEmptiedData(t *testing.T) {
	s, now := New(15*time.Second), time.Now()
	for i := range 1000 {
		s.Write(CopyOf(testOwners[0], publisher(emptiedID(i), "r", 1, false)), now)
	}
	assert.Empty(t, s.emptied)
	lost := Key{testOwners[0], emptiedID(7), "r"}
	require.True(t, s.Remove(lost, 1, ownerGone, now))
	assert.Len(t, s.emptied, 1)
	s.TakeChanged()
	s.Prune(now)
	assert.Len(t, s.data, 1000, "the mark of the lost one has not ended")
	assert.Len(t, s.emptied, 1)
	s.Prune(now.Add(time.Hour))
	assert.Len(t, s.data, 999)
	assert.Empty(t, s.emptied)
}

func emptiedID(i int) string { return fmt.Sprint("service-", i, "#@#i#@#g") }
