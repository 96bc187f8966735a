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
	"pgregory.net/rapid"

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

// Whatever has changed since it was read, a content that is made of the one before is that
// which its registrations have; and it is made of it where each has one value.
func TestContent_IsMadeOfTheOneBefore(t *testing.T) {
	made := 0
	rapid.Check(t, func(t *rapid.T) {
		s, now := New(time.Minute), time.Now()
		owner := conclave.NodeID{Name: "s", Incarnation: "i"}
		write := func(i, version int, gone bool, values ...string) {
			p := publisher(testData[0], fmt.Sprintf("r%03d", i), int64(version), gone)
			p.Values = values
			s.Write(CopyOf(owner, p), now)
		}
		for i := range 40 {
			write(2*i, 1, false, fmt.Sprint(i, strings.Repeat("x", 100)))
		}
		s.Read(testData[0], 0, 0, now)
		id, version := rapid.IntRange(0, 80), 1
		for range rapid.IntRange(1, 8).Draw(t, "reads") {
			for range rapid.IntRange(1, 5).Draw(t, "changes") {
				version++
				switch i := id.Draw(t, "id"); rapid.IntRange(0, 30).Draw(t, "change") {
				case 0:
					write(i, version, false) // without a value
				case 1, 2, 3:
					write(i, version, true)
				case 4, 5, 6:
					s.Remove(Key{owner, testData[0], fmt.Sprintf("r%03d", i)}, int64(version), wirev1.Cause_CAUSE_WITHDRAWN, now)
				default:
					write(i, version, false, fmt.Sprint(version))
				}
			}
			d := s.data[testData[0]]
			if kept := s.bases[d.id]; len(kept) > 1 && rapid.IntRange(0, 9).Draw(t, "expired") == 0 {
				s.bases[d.id] = kept[:len(kept)-1] // the one before is being read in parts
			}
			if kept := s.bases[d.id]; len(kept) > 0 && d.read == nil {
				if _, _, ok := d.editsOf(kept[len(kept)-1]); ok {
					made++
				}
			}
			var values []string
			var publishers []uint32
			for _, r := range d.regs {
				if v, ok := r.visible(); ok {
					values, publishers = append(values, v...), append(publishers, r.hash)
				}
			}
			got := s.bases.content(d)
			require.Equal(t, values, got.Values)
			require.Equal(t, publishers, got.Publishers)
			require.Equal(t, list.ContentHash(values), got.Hash())
			for _, x := range s.bases[d.id] {
				if delta := s.bases.delta(d, x.Hash()); delta != nil && x.delta == delta { // the hash is not that of another base, too
					next, err := x.Apply(delta, 0)
					require.NoError(t, err)
					require.Equal(t, values, next.Values)
					require.Equal(t, publishers, next.Publishers)
				}
			}
		}
	})
	assert.Greater(t, made, 100)
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
