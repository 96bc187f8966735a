package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

func TestAnswer_SessionWithAnEarlierContentIsSentTheDifference(t *testing.T) {
	s, now := New(time.Minute), time.Now()
	write := func(i int, version int64, gone bool) {
		p := publisher(testData[0], fmt.Sprintf("r%03d", i), version, gone)
		if !gone {
			p.Values = []string{fmt.Sprint(version, strings.Repeat("x", 1000))}
		}
		require.True(t, s.Write(CopyOf(conclave.NodeID{Name: "s", Incarnation: "i"}, p), now))
	}
	read := func(hash uint64) *wirev1.Fetched {
		f, _, _ := s.Answer(&wirev1.Want{DataInfoId: testData[0], Hash: hash, Deltas: true}, 0, 0, now)
		return f
	}
	for i := range 100 {
		write(i, 1, false)
	}
	first := read(0)
	assert.Nil(t, first.GetDelta(), "it has nothing")
	write(50, 2, false)
	write(7, 2, true)
	second := read(first.GetHash())
	require.NotNil(t, second.GetDelta())
	assert.Less(t, proto.Size(second), 1200)
	assert.Empty(t, second.GetDatum().GetValues())
	apply := func(f *wirev1.Fetched) *list.List {
		whole, err := new(list.Assembly).Add(f, list.New(first.GetDatum().GetValues(), first.GetDatum().GetPublishers(), first.GetHash()))
		require.NoError(t, err)
		return whole
	}
	got := apply(second)
	assert.True(t, slices.Equal(s.Read(testData[0], 0, 0, now).GetDatum().GetValues(), got.Values))
	assert.Len(t, got.Publishers, 99)
	assert.Equal(t, list.ContentHash(got.Values), second.GetHash(), "although only the changes are hashed")
	assert.Same(t, second.GetDelta(), read(first.GetHash()).GetDelta(), "it is made once for all sessions")

	// One that missed a change is sent both; one that missed too many the whole list.
	write(51, 2, false)
	third := read(first.GetHash())
	require.NotNil(t, third.GetDelta())
	assert.True(t, slices.Equal(s.Read(testData[0], 0, 0, now).GetDatum().GetValues(), apply(third).Values))
	write(52, 2, false)
	assert.NotNil(t, read(second.GetHash()).GetDelta())
	fourth := read(first.GetHash())
	assert.Nil(t, fourth.GetDelta())
	assert.Len(t, fourth.GetDatum().GetValues(), 99)
	assert.True(t, read(fourth.GetHash()).GetSame())
	assert.Len(t, s.bases[testData[0]], basesKept)
}

// Old contents of data that do not change any more are freed.
func TestPrune_FreesOldContents(t *testing.T) {
	s, now := New(time.Minute), time.Now()
	write := func(version int64) uint64 {
		p := publisher(testData[0], "r", version, false)
		p.Values = []string{fmt.Sprint(version, strings.Repeat("x", 2000)), strings.Repeat("y", 20_000)}
		require.True(t, s.Write(CopyOf(conclave.NodeID{Name: "s", Incarnation: "i"}, p), now))
		return s.Read(testData[0], 0, 0, now).GetHash()
	}
	first := write(1)
	second := write(2)
	s.Prune(now)
	now = now.Add(basesFor / 2)
	write(3)
	s.Prune(now)
	assert.Len(t, s.bases[testData[0]], 2)
	now = now.Add(basesFor / 2)
	s.Prune(now)
	assert.Nil(t, s.bases.delta(s.data[testData[0]], first))
	assert.NotNil(t, s.bases.delta(s.data[testData[0]], second), "it was read later")
	s.Prune(now.Add(basesFor / 2))
	assert.Nil(t, s.bases)
}
