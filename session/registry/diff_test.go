package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/wire"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

func TestDiff_LargeAnswerIsSplit(t *testing.T) {
	r, now := New(time.Hour, 0, nil), time.Now()
	r.Resize(1, now)
	owner := active(&Owner{}, now)
	large := make([]byte, 60<<10)
	for i := range large {
		large[i] = 'x'
	}
	for i := range 60 { // 3.5 MiB
		_, err := put(r, owner, conclave.Publisher{ID: fmt.Sprintf("r%02d", i), Data: dataOf("x"), Version: 1, Values: []string{string(large)}}, now)
		require.NoError(t, err)
	}
	theirs := modelData{}
	rounds := 0
	for same := false; !same; rounds++ {
		var err error
		same, err = theirs.diff(r, 0, conclave.Epoch{Term: 1, Seq: 1}, now)
		require.NoError(t, err)
		require.Less(t, rounds, 10)
	}
	assert.Len(t, theirs, 60)
	assert.Equal(t, 5, rounds)
}

// No data node can end a slot's writes for ever with an epoch that no leader reaches.
func TestDiff_EpochThatCannotBeTrueIsRefused(t *testing.T) {
	r, now := New(time.Hour, 0, nil), time.Now()
	r.Resize(1, now)
	seen := conclave.Epoch{Term: 3, Seq: 9}
	_, ok := r.Adopt(0, seen, "data-1:1", now)
	require.True(t, ok)
	for _, e := range []conclave.Epoch{{Term: 1<<64 - 1}, {Term: 3 + conclave.MaxJump + 1}, {Term: 3, Seq: 9 + conclave.MaxJump + 1}, {Term: 4, Seq: conclave.MaxJump + 1}} {
		_, adopted, err := r.Diff(&wirev1.DiffRequest{LeaderEpoch: wire.EpochOut(e)}, false, now)
		assert.Equal(t, wire.CodeBadRequest, wire.CodeOf(err), "%s", e)
		assert.False(t, adopted)
		assert.Equal(t, seen, r.of(0).epoch)
	}
	_, adopted, err := r.Diff(&wirev1.DiffRequest{LeaderEpoch: wire.EpochOut(conclave.Epoch{Term: 4, Seq: conclave.MaxJump})}, false, now)
	require.NoError(t, err)
	assert.True(t, adopted)
}

// FuzzDiff reads a request from arbitrary bytes. Whatever a data node asks, the
// epoch never falls, the answer has only what is held and may be published, and
// nothing is answered below the epoch.
func FuzzDiff(f *testing.F) {
	for _, req := range []*wirev1.DiffRequest{
		{},
		{LeaderEpoch: &wirev1.Epoch{Term: 1, Seq: 2}, AskerAddress: "data-1", Count: 1, Digest: list.EntryHash("r0", 1)},
		{LeaderEpoch: &wirev1.Epoch{Term: 1, Seq: 3}, Count: 2, Summarized: true, Entries: []*wirev1.DiffEntry{{Id: "r0", Version: 9}, {Id: "other", Version: 1}}},
		{Slot: 2, LeaderEpoch: &wirev1.Epoch{Term: 2}},
	} {
		body, err := proto.Marshal(req)
		require.NoError(f, err)
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var req wirev1.DiffRequest
		if proto.Unmarshal(body, &req) != nil || req.GetSlot() > 64 {
			return
		}
		r, now, before := New(testGrace, 0, nil), time.Now(), conclave.Epoch{Term: 1, Seq: 1}
		r.Resize(1, now)
		r.Adopt(0, before, "data-1", now)
		fresh := active(&Owner{}, now)
		for v, id := range testIDs {
			_, err := put(r, fresh, conclave.Publisher{ID: id, Data: dataOf(id), Version: int64(v + 1), Withdrawn: v == 1}, now)
			require.NoError(t, err)
		}
		silent := &Owner{Client: "silent", Announced: true}
		_, err := put(r, silent, conclave.Publisher{ID: "silent", Data: dataOf("x"), Version: 1}, now)
		require.NoError(t, err)

		asked := wire.EpochIn(req.GetLeaderEpoch())
		res, _, err := r.Diff(&req, false, now)
		consistent(t, r)
		s := r.of(int(req.GetSlot()))
		assert.False(t, s.epoch.Less(asked) && asked.Plausible(s.epoch))
		if asked.Less(before) && req.GetSlot() == 0 {
			assert.Equal(t, before, s.epoch)
			assert.Equal(t, wire.CodeStaleEpoch, wire.CodeOf(err))
		}
		if err != nil {
			return
		}
		for _, p := range res.GetPuts() {
			assert.Equal(t, r.byID[p.GetId()].version, p.GetVersion())
			assert.NotEqual(t, "silent", p.GetId(), "it is held back")
		}
		for _, e := range res.GetRemoved() {
			if reg := r.held(s, e.GetId()); reg != nil {
				assert.Less(t, reg.version, e.GetVersion())
			}
		}
	})
}

// A digest that differs covers no slot, however little the asker has: what is stored at an
// older epoch is written again.
func TestDiff_ADigestCoversOnlyWhatIsTheSame(t *testing.T) {
	for name, tt := range map[string]struct {
		count, digest uint64
		same          bool
	}{
		"the same": {1, list.EntryHash("a", 1), true}, "another version": {1, list.EntryHash("a", 2), false}, "nothing": {0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, now := New(time.Hour, 0, nil), time.Now()
			r.Resize(1, now)
			r.Adopt(0, conclave.Epoch{Term: 1, Seq: 1}, "", now)
			_, err := put(r, active(&Owner{}, now), conclave.Publisher{ID: "a", Data: dataOf("x"), Version: 1, Values: []string{"v"}}, now)
			require.NoError(t, err)
			r.Settle(takeAny(r, 0, "", 1, 1, now), now)
			next := wire.EpochOut(conclave.Epoch{Term: 1, Seq: 2})
			res, adopted, err := r.Diff(&wirev1.DiffRequest{LeaderEpoch: next, Count: tt.count, Digest: tt.digest}, true, now)
			require.NoError(t, err)
			assert.True(t, adopted)
			assert.Equal(t, tt.same, res.GetSame())
			assert.Empty(t, res.GetPuts())
			assert.Equal(t, !tt.same, r.Audit(now.Add(time.Minute)) == 1)
		})
	}
}
