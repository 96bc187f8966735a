package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// What the owner wrote while a merge was pending wins over what was decided
// before.
func TestMerge_WriteOvertakesDiffAnswer(t *testing.T) {
	s, now := New(time.Second), time.Now()
	o := testOwners[0]
	s.Write(CopyOf(o, publisher(testData[0], "r1", 1, false)), now)
	f := s.Begin()
	s.Remove(Key{o, testData[0], "r1"}, 1, clientGone, now)
	s.Write(CopyOf(o, publisher(testData[0], "r2", 1, false)), now)
	// The session computed this before it wrote either.
	s.Merge(f, o, []*wirev1.Publisher{publisher(testData[0], "r1", 1, false)},
		[]Copy{{Key: Key{o, testData[0], "r2"}, Version: 1}}, now)
	s.End(f)
	assert.Equal(t, valuesOf("r2", 1), s.Read(testData[0], 0, 0, now).GetDatum().GetValues())

	f = s.Begin() // a later merge is not affected
	s.Merge(f, o, []*wirev1.Publisher{publisher(testData[0], "r1", 1, false)}, nil, now)
	s.End(f)
	assert.Len(t, s.Read(testData[0], 0, 0, now).GetDatum().GetValues(), 2)
	assert.Nil(t, s.touched)
}

// The same holds for the feed of an old leader and for its snapshot.
func TestFollow_WriteOvertakesOldLeadersFeed(t *testing.T) {
	s, now := New(time.Second), time.Now()
	o := testOwners[0]
	s.Write(CopyOf(o, publisher(testData[0], "r1", 1, false)), now)
	f := s.Begin()
	s.Remove(Key{o, testData[0], "r1"}, 1, clientGone, now)
	s.Write(CopyOf(o, publisher(testData[0], "r2", 1, false)), now)
	s.Follow(f, &wirev1.ReplicateEvent{
		Copies:   []*wirev1.Copy{copyOut(CopyOf(o, publisher(testData[0], "r1", 1, false)))},
		Removals: []*wirev1.CopyRemoval{{Owner: wire.NodeOut(o), DataInfoId: testData[0], Id: "r2", Cause: clientGone}},
	}, now)
	assert.Equal(t, valuesOf("r2", 1), s.Read(testData[0], 0, 0, now).GetDatum().GetValues())

	s = s.Install(f, loaded([]Copy{
		CopyOf(o, publisher(testData[0], "r1", 1, false)), CopyOf(o, publisher(testData[0], "r3", 1, false)),
	}, now), now)
	assert.Equal(t, append(valuesOf("r2", 1), valuesOf("r3", 1)...), s.Read(testData[0], 0, 0, now).GetDatum().GetValues())
	s.End(f)
	assert.Nil(t, s.touched)
}

// A merge that EndAll has ended ends no other one, and nothing is merged under
// it.
func TestPendingMerge_EndedTwiceEndsNoOther(t *testing.T) {
	s, now := New(time.Second), time.Now()
	o := testOwners[0]
	old := s.Begin()
	s.EndAll()
	f := s.Begin()
	assert.False(t, s.IsOpen(old))
	s.Remove(Key{o, testData[0], "r1"}, 1, clientGone, now)
	s.End(old)
	assert.True(t, s.IsOpen(f))
	s.Merge(f, o, []*wirev1.Publisher{publisher(testData[0], "r1", 1, false)}, nil, now)
	assert.Empty(t, s.All(), "the session removed it since the answer was computed")
	s.End(f)
	assert.False(t, s.IsOpen(f))
	assert.Nil(t, s.touched)
}
