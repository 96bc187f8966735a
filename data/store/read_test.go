package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// Read reads a whole list, for a session that has pushed a version and has the content
// of a hash.
func (s *Store) Read(data string, version int64, hash uint64, now time.Time) *wirev1.Fetched {
	f, _, _ := s.Answer(&wirev1.Want{DataInfoId: data, Version: version, Hash: hash}, 0, 0, now)
	return f
}

// A reader with a higher version makes the leader's counter rise above it.
func TestRead_HigherVersionRaisesCounter(t *testing.T) {
	s, now := New(time.Second), time.Now()
	s.Serve(100, time.Time{}, now)
	s.Write(CopyOf(testOwners[0], publisher(testData[0], "r1", 1, false)), now)
	f := s.Read(testData[0], 5000, 42, now)
	assert.Equal(t, int64(5001), f.GetDatum().GetVersion())
	assert.Equal(t, int64(5001), s.Read(testData[0], 0, f.GetHash(), now).GetDatum().GetVersion())
	s.Serve(4000, time.Time{}, now)
	assert.Equal(t, int64(5002), s.Read(testData[0], 0, 0, now).GetDatum().GetVersion())
}

// Readers that claim versions which were never pushed cannot use up the versions.
func TestRead_ClaimsRaiseCounterByOneBase(t *testing.T) {
	s, now := New(time.Second), time.Now()
	s.Serve(100, time.Time{}, now)
	for n := range int64(100) {
		s.Read(testData[0], 1<<52+n, 42, now)
		s.Read(testData[0], s.Counter(), 42, now)
	}
	assert.LessOrEqual(t, s.Counter(), int64(101+conclave.VersionBase+100))
}

// A slot's mark is passed to the guard as such, with what is known to be
// withdrawn; a datum's own mark is not.
func TestRead_IncompleteNamesPublishers(t *testing.T) {
	s, now := New(15*time.Second), time.Now()
	for _, id := range []string{"r1", "r2"} {
		s.Write(CopyOf(testOwners[0], publisher(testData[0], id, 1, false)), now)
	}
	s.Write(CopyOf(testOwners[0], publisher(testData[0], "r3", 1, true)), now)
	f := s.Read(testData[0], 0, 0, now)
	assert.Equal(t, []uint32{list.PublisherHash("r1"), list.PublisherHash("r2")}, f.GetDatum().GetPublishers())
	assert.Zero(t, f.GetIncompleteMs())
	assert.Empty(t, f.GetWithdrawn())

	s.Serve(0, now.Add(15*time.Second), now)
	assert.Zero(t, s.Read(testData[0], 0, 0, now).GetIncompleteMs(), "marked, but nothing is missing")
	s.MarkIncomplete(now.Add(15 * time.Second))
	f = s.Read(testData[0], 0, 0, now)
	assert.Equal(t, int64(15_000), f.GetIncompleteMs())
	assert.Equal(t, []uint32{list.PublisherHash("r3")}, f.GetWithdrawn())

	now = now.Add(15 * time.Second)
	s.Remove(Key{testOwners[0], testData[0], "r2"}, 1, ownerGone, now)
	f = s.Read(testData[0], 0, 0, now)
	assert.Positive(t, f.GetUnconfirmedMs())
	assert.Zero(t, f.GetIncompleteMs(), "one removal is unconfirmed, nothing else may be missing")
	assert.Equal(t, []uint32{list.PublisherHash("r1")}, f.GetDatum().GetPublishers())
}

// A client that left a session has taken its registrations to another one, or has died:
// that session's removal is no withdrawal, although it hides an older copy. (Storm 1348.)
func TestRead_IncompleteTakesNoRemovalForAWithdrawal(t *testing.T) {
	s, now := New(15*time.Second), time.Now()
	at := func(owner int, version int64, withdrawn bool) Copy {
		return CopyOf(testOwners[owner], publisher(testData[0], "r1", version, withdrawn))
	}
	s.MarkIncomplete(now.Add(15 * time.Second))
	s.Write(at(0, 1, false), now)
	s.Write(at(1, 2, false), now)
	s.Remove(at(1, 2, false).Key, 2, clientGone, now)
	f := s.Read(testData[0], 0, 0, now)
	assert.Empty(t, f.GetDatum().GetPublishers(), "what the removal hides stays hidden")
	assert.Empty(t, f.GetWithdrawn())
	s.Write(at(0, 2, true), now)
	assert.Equal(t, []uint32{list.PublisherHash("r1")}, s.Read(testData[0], 0, 0, now).GetWithdrawn())
}

func TestServe_MarksWholeSlot(t *testing.T) {
	s, now := New(15*time.Second), time.Now()
	s.Serve(100, now.Add(15*time.Second), now)
	f := s.Read(testData[1], 0, 0, now)
	assert.Equal(t, int64(15_000), f.GetUnconfirmedMs())
	assert.Equal(t, f.GetDatum().GetVersion(), f.GetUnexplainedVersion())
}

// partReader reads a datum in parts, as a session does.
type partReader struct {
	list list.Assembly
	last *wirev1.Fetched
}

// read reads the next part. It returns the list when it is complete.
func (r *partReader) read(t *testing.T, s *Store, data string, now time.Time) *list.List {
	want := &wirev1.Want{DataInfoId: data, Parts: true}
	r.list.Continue(want)
	f, _, begun := s.Answer(want, 1<<20, 0, now)
	assert.Equal(t, f.GetPart().GetValuesAt() > 0, begun)
	r.last = f
	require.NotNil(t, f.GetPart())
	whole, err := r.list.Add(f, nil)
	require.NoError(t, err)
	return whole
}

// large returns a store with a datum of more than PartsFrom, and a function that
// changes one of its registrations.
func large(t *testing.T, now time.Time) (s *Store, change func(i int, version int64)) {
	s = New(time.Minute)
	change = func(i int, version int64) {
		p := publisher(testData[0], fmt.Sprintf("r%03d", i), version, false)
		p.Values = []string{fmt.Sprint(version, strings.Repeat("x", 60_000))}
		require.True(t, s.Write(CopyOf(conclave.NodeID{Name: "s", Incarnation: "i"}, p), now))
	}
	for i := range 80 {
		change(i, 1)
	}
	return s, change
}

// All parts are of the list that the first one is of, although it changes.
func TestAnswer_PartsAreOfOneVersion(t *testing.T) {
	now := time.Now()
	s, change := large(t, now)
	first := s.Read(testData[0], 0, 0, now)
	reader, other := &partReader{}, &partReader{}
	var whole *list.List
	reads := 0
	for version := int64(2); whole == nil && version < 20; version++ {
		whole = reader.read(t, s, testData[0], now)
		reads++
		assert.Equal(t, first.GetHash(), reader.last.GetHash())
		assert.Equal(t, first.GetDatum().GetVersion(), reader.last.GetDatum().GetVersion(), "the version that the list had")
		other.list = list.Assembly{}
		other.read(t, s, testData[0], now) // makes each content one that is kept
		change(int(version)%80, version)
		s.Prune(now)
		assert.LessOrEqual(t, len(s.bases[testData[0]]), basesKept+basesRead)
	}
	require.NotNil(t, whole)
	assert.Greater(t, reads, 4)
	assert.True(t, slices.Equal(first.GetDatum().GetValues(), whole.Values))
	assert.True(t, slices.Equal(first.GetDatum().GetPublishers(), whole.Publishers))

	// A reader that has stopped does not keep it.
	change(0, 1000)
	s.Prune(now)
	s.Prune(now.Add(basesFor))
	assert.Nil(t, s.bases)
	_, _, begun := s.Answer(&wirev1.Want{DataInfoId: testData[0], PartHash: first.GetHash()}, 1, 0, now)
	assert.False(t, begun)
}

// The same values of other publishers are another list.
func TestAnswer_PartsAreOfTheSamePublishers(t *testing.T) {
	now := time.Now()
	s, _ := large(t, now)
	first, reader := s.Read(testData[0], 0, 0, now), &partReader{}
	require.Nil(t, reader.read(t, s, testData[0], now))
	owner := conclave.NodeID{Name: "s", Incarnation: "i"}
	for i := range 80 {
		old := fmt.Sprintf("r%03d", i)
		p := publisher(testData[0], old+" again", 2, false)
		p.Values = []string{fmt.Sprint(1, strings.Repeat("x", 60_000))}
		require.True(t, s.Write(CopyOf(owner, p), now))
		require.True(t, s.Write(CopyOf(owner, publisher(testData[0], old, 2, true)), now))
	}
	second := s.Read(testData[0], 0, 0, now)
	require.Equal(t, first.GetHash(), second.GetHash())
	require.NotEqual(t, first.GetDatum().GetPublishers(), second.GetDatum().GetPublishers())
	var whole *list.List
	for whole == nil {
		whole = reader.read(t, s, testData[0], now)
	}
	assert.Equal(t, first.GetDatum().GetVersion(), reader.last.GetDatum().GetVersion())
	assert.True(t, slices.Equal(first.GetDatum().GetPublishers(), whole.Publishers))
}

// A list that is not kept any more is read from the beginning of the present one.
func TestAnswer_ListThatIsGoneBeginsAgain(t *testing.T) {
	now := time.Now()
	s, change := large(t, now)
	reader := &partReader{}
	require.Nil(t, reader.read(t, s, testData[0], now))
	change(79, 2)
	s.Prune(now)
	now = now.Add(basesFor)
	s.Prune(now)
	require.Nil(t, reader.read(t, s, testData[0], now))
	assert.Zero(t, reader.last.GetPart().GetValuesAt())
	var whole *list.List
	for whole == nil {
		whole = reader.read(t, s, testData[0], now)
	}
	assert.True(t, strings.HasPrefix(whole.Values[79], "2x"))
	_, _, begun := s.Answer(&wirev1.Want{DataInfoId: "unknown", PartHash: 7}, 1, 0, now)
	assert.False(t, begun)
}

func TestAnswer_OnlyLargeListsInParts(t *testing.T) {
	const most = 3 * conclave.MaxRequest
	now := time.Now()
	s := New(time.Minute)
	value := strings.Repeat("x", conclave.MaxValue)
	values := make([]string, conclave.MaxRequest/2/conclave.MaxValue)
	for i := range values {
		values[i] = value
	}
	read := func(n int) *wirev1.Fetched {
		for i := range n {
			p := publisher(testData[0], fmt.Sprintf("r%d.%d", n, i), 1, false)
			p.Values = values
			s.Write(CopyOf(conclave.NodeID{Name: "s", Incarnation: "i"}, p), now)
		}
		f, count, _ := s.Answer(&wirev1.Want{DataInfoId: testData[0], Parts: true}, 1<<20, most, now)
		assert.Len(t, s.Read(testData[0], 0, 0, now).GetDatum().GetValues(), count)
		return f
	}
	f := read(1)
	assert.Nil(t, f.GetPart())
	assert.Len(t, f.GetDatum().GetValues(), len(values))
	f = read(2)
	assert.NotNil(t, f.GetPart())
	assert.Less(t, len(f.GetDatum().GetValues()), len(values))
	f = read(most / (conclave.MaxRequest / 2))
	assert.Nil(t, f.GetPart())
	assert.Greater(t, f.GetTooLarge(), uint64(most))
	assert.Empty(t, f.GetDatum().GetValues())

	// A delta to it is not sent either.
	before := s.Read(testData[0], 0, 0, now).GetHash()
	require.True(t, s.Write(CopyOf(conclave.NodeID{Name: "s", Incarnation: "i"}, publisher(testData[0], "new", 1, false)), now))
	f, _, _ = s.Answer(&wirev1.Want{DataInfoId: testData[0], Parts: true, Deltas: true, Hash: before}, 1<<20, most, now)
	assert.NotZero(t, f.GetTooLarge())
	assert.Nil(t, f.GetDelta())
	f, _, _ = s.Answer(&wirev1.Want{DataInfoId: testData[0], Parts: true, Deltas: true, Hash: before}, 1<<20, 0, now)
	assert.NotNil(t, f.GetDelta(), "the limit is 256 MiB if there is no other")
}
