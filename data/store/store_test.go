package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wirev1 "conclave/wire/v1"
)

// The client has moved from S1 to S2; S1 removes it late.
func TestRemove_TouchesOnlyOwnersCopy(t *testing.T) {
	s, now := New(time.Second), time.Now()
	s.Write(CopyOf(testOwners[0], publisher(testData[0], "r1", 1, false)), now)
	s.Write(CopyOf(testOwners[2], publisher(testData[0], "r1", 1, false)), now)
	s.TakeChanged()
	require.True(t, s.Remove(Key{testOwners[0], testData[0], "r1"}, 1, clientGone, now))
	assert.Equal(t, valuesOf("r1", 1), s.Read(testData[0], 0, 0, now).GetDatum().GetValues())
	assert.Empty(t, s.TakeChanged(), "subscribers see no difference")
}

// Found by storms: a client moved from S1, which was killed, to S2, changed its
// value there, and died. S1's copies stay for the session grace.
func TestRemove_ShowsNoOlderVersion(t *testing.T) {
	s, now := New(time.Second), time.Now()
	s.Serve(100, time.Time{}, now)
	s.SetFollowed(true)
	from := s.Position()
	s.Write(CopyOf(testOwners[0], publisher(testData[0], "r1", 20, false)), now)
	s.Write(CopyOf(testOwners[2], publisher(testData[0], "r1", 22, false)), now)
	require.True(t, s.Remove(Key{testOwners[2], testData[0], "r1"}, 22, clientGone, now))
	read := func(s *Store) []string { return s.Read(testData[0], 0, 0, now).GetDatum().GetValues() }
	assert.Empty(t, read(s), "version 20 was changed long ago")
	assert.Equal(t, testOwners[:1], s.Owners(), "no session is asked for it")

	e, _ := s.Changes(from)
	follower := New(time.Second)
	follower.Follow(nil, e, now)
	late := New(time.Second).Install(nil, loaded(s.All(), now), now)
	assert.Empty(t, read(follower))
	assert.Empty(t, read(late), "nor does a snapshot")

	s.Write(CopyOf(testOwners[1], publisher(testData[0], "r1", 22, false)), now)
	assert.Equal(t, valuesOf("r1", 22), read(s), "a session that offers the removed version is accepted")
	s.Remove(Key{testOwners[1], testData[0], "r1"}, 22, clientGone, now)
	assert.Equal(t, 1, s.RemoveOwner(testOwners[0], ownerGone, now))
	s.Compact(now.Add(time.Hour), now)
	assert.Empty(t, s.All(), "and in the end nothing is left")
}

// A removal that arrives before the copy that it removes hides older versions,
// too: at a successor that has not read the source's feed to its end, and at a
// node that compares itself with the sessions.
func TestRemove_BeforeItsCopyHidesOlderVersions(t *testing.T) {
	now := time.Now()
	newer := CopyOf(testOwners[2], publisher(testData[0], "r1", 3, false))
	for name, arrives := range map[string]func(s *Store, f *PendingMerge){
		"never": func(*Store, *PendingMerge) {},
		"by the feed": func(s *Store, f *PendingMerge) {
			s.Follow(f, &wirev1.ReplicateEvent{Copies: []*wirev1.Copy{copyOut(newer)}}, now)
		},
		"by an older diff": func(s *Store, f *PendingMerge) {
			s.Merge(f, testOwners[2], []*wirev1.Publisher{publisher(testData[0], "r1", 3, false)}, nil, now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(time.Second)
			s.put(CopyOf(testOwners[0], publisher(testData[0], "r1", 1, false)), now) // of a lost session
			f := s.Begin()
			s.Remove(Key{testOwners[2], testData[0], "r1"}, 3, clientGone, now)
			arrives(s, f)
			s.End(f)
			s.Serve(1, time.Time{}, now)
			assert.Empty(t, s.Read(testData[0], 0, 0, now).GetDatum().GetValues())
			s.Write(CopyOf(testOwners[1], publisher(testData[0], "r1", 3, false)), now)
			assert.Equal(t, valuesOf("r1", 3), s.Read(testData[0], 0, 0, now).GetDatum().GetValues(), "a session that offers the removed version is accepted")
		})
	}
}

// A datum that is deleted and returns has no version twice.
func TestDatum_VersionIsHigherWhenItReturns(t *testing.T) {
	s, now := New(time.Second), time.Now()
	s.Serve(100, time.Time{}, now)
	s.Write(CopyOf(testOwners[0], publisher(testData[0], "r1", 1, false)), now)
	first := s.Read(testData[0], 0, 0, now).GetDatum().GetVersion()
	s.Remove(Key{testOwners[0], testData[0], "r1"}, 1, clientGone, now)
	s.TakeChanged()
	s.Compact(now, now)
	empty := s.Read(testData[0], 0, 0, now).GetDatum().GetVersion()
	s.Write(CopyOf(testOwners[0], publisher(testData[0], "r1", 1, false)), now)
	again := s.Read(testData[0], 0, 0, now).GetDatum().GetVersion()
	assert.Less(t, first, empty)
	assert.Less(t, empty, again)
}
