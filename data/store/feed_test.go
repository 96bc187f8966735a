package store

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protodelim"

	"conclave"
	wirev1 "conclave/wire/v1"
)

// FuzzFeed reads messages from arbitrary bytes and applies them as a follower
// does, and as a successor does to which sessions write meanwhile. Whatever
// arrives, the copy agrees with its own digests, and its snapshot makes the same
// copy again.
func FuzzFeed(f *testing.F) {
	leader, now := New(time.Second), time.Now()
	leader.Serve(100, time.Time{}, now)
	leader.SetFollowed(true)
	for v, id := range testIDs {
		leader.Write(CopyOf(testOwners[v], publisher(testData[0], id, int64(v+1), v == 1)), now)
	}
	leader.Remove(Key{testOwners[0], testData[0], testIDs[0]}, 1, clientGone, now)
	feed, _ := leader.Changes(1)
	var whole, log, both bytes.Buffer
	for _, e := range leader.Snapshot(leader.Position(), now).Messages(0, conclave.Epoch{Term: 1, Seq: 1}) {
		_, err := protodelim.MarshalTo(&whole, e)
		require.NoError(f, err)
	}
	_, err := protodelim.MarshalTo(&log, feed)
	require.NoError(f, err)
	both.Write(whole.Bytes())
	both.Write(log.Bytes())
	for _, seed := range [][]byte{whole.Bytes(), log.Bytes(), both.Bytes(), nil} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, messages []byte, taking bool) {
		s, now := New(time.Second), time.Now()
		var m *PendingMerge
		if taking {
			m = s.Begin()
			s.Write(CopyOf(testOwners[0], publisher(testData[0], testIDs[0], 5, false)), now)
			s.Remove(Key{testOwners[1], testData[0], testIDs[1]}, 2, clientGone, now)
		}
		var l *Loading
		for in := bytes.NewReader(messages); ; {
			var e wirev1.ReplicateEvent
			if protodelim.UnmarshalFrom(in, &e) != nil {
				break
			}
			switch {
			case !e.GetSnapshot():
				s.Follow(m, &e, now)
			case e.GetSnapshotBegin():
				l = NewLoading(time.Second)
				fallthrough
			default:
				if l != nil && l.Add(&e, now) {
					s, l = s.Install(m, l, now), nil
				}
			}
			consistent(t, s)
		}
		if taking {
			for _, c := range s.All() {
				assert.False(t, c.Key == Key{testOwners[1], testData[0], testIDs[1]}, "the session has removed it since")
			}
			assert.Contains(t, s.All(), CopyOf(testOwners[0], publisher(testData[0], testIDs[0], 5, false)))
			s.End(m)
		}
		again := New(time.Second).Install(nil, loaded(s.All(), now), now)
		assert.Equal(t, s.All(), again.All())
	})
}

// consistent checks what a store derives from its copies.
func consistent(t *testing.T, s *Store) {
	counts := map[conclave.NodeID]uint64{}
	for _, c := range s.All() {
		counts[c.Owner]++
	}
	visible, sums, entries := 0, New(0), 0
	for _, d := range s.data {
		for _, r := range d.regs {
			assert.NotEmpty(t, r.copies)
			if _, ok := r.visible(); ok {
				visible++
			}
		}
	}
	assert.Equal(t, visible, s.Visible())
	for _, c := range s.All() {
		sums.put(c, time.Time{})
		entries++
	}
	for owner, n := range counts {
		count, sum := s.Digest(owner)
		wantCount, wantSum := sums.Digest(owner)
		assert.Equal(t, n, count)
		assert.Equal(t, [2]uint64{wantCount, wantSum}, [2]uint64{count, sum})
	}
	sum, n := s.Checksum()
	wantSum, _ := sums.Checksum()
	assert.Equal(t, entries, n)
	assert.Equal(t, wantSum, sum)
}

// What a session withdrew at a successor hides older versions, also those that
// the successor does not have yet: in a snapshot that it installs, and in the
// rest of its source's feed.
func TestInstall_RemovalByASessionHidesOlderVersions(t *testing.T) {
	now := time.Now()
	older, removed := CopyOf(testOwners[0], publisher(testData[0], "r1", 1, false)), CopyOf(testOwners[2], publisher(testData[0], "r1", 3, false))
	for _, c := range []struct {
		name   string
		has    []Copy
		arrive func(s *Store, m *PendingMerge) *Store
	}{
		{"snapshot", nil, func(s *Store, m *PendingMerge) *Store {
			return s.Install(m, loaded([]Copy{older, removed}, now), now)
		}},
		{"snapshot, the older one is here", []Copy{older}, func(s *Store, m *PendingMerge) *Store {
			return s.Install(m, loaded([]Copy{older, removed}, now), now)
		}},
		{"snapshot without it, the older one is here", []Copy{older}, func(s *Store, m *PendingMerge) *Store {
			return s.Install(m, loaded([]Copy{older}, now), now)
		}},
		{"feed", nil, func(s *Store, m *PendingMerge) *Store {
			s.Follow(m, &wirev1.ReplicateEvent{Copies: []*wirev1.Copy{copyOut(older), copyOut(removed)}}, now)
			return s
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := New(time.Second)
			for _, have := range c.has {
				s.put(have, now)
			}
			m := s.Begin()
			s.Remove(removed.Key, removed.Version, withdrawn, now)
			s = c.arrive(s, m)
			s.End(m)
			s.Serve(1, time.Time{}, now)
			assert.Empty(t, s.Read(testData[0], 0, 0, now).GetDatum().GetValues())
		})
	}
}
