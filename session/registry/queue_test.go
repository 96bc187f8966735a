package registry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	wirev1 "conclave/wire/v1"
)

// A change that data refuses again and again is dropped, so that the changes
// behind it are written, and what data has of an earlier version is removed.
func TestRefuse_DropsWhatDataRefusesAgainAndAgain(t *testing.T) {
	r, now := New(time.Hour, 0, nil), time.Now()
	r.Resize(1, now)
	owner := active(&Owner{}, now)
	put := func(version int64) {
		_, err := put(r, owner, conclave.Publisher{ID: "a", Data: dataOf("x"), Version: version}, now)
		require.NoError(t, err)
	}
	take := func() Batch { return takeAny(r, 0, "", 1, 1, now) }
	put(1)
	old := take()
	put(2)
	for range 2 * refusedAfter {
		_, dropped := r.Refuse(old)
		assert.False(t, dropped, "a newer change has replaced it")
	}
	for range refusedAfter - 1 {
		_, dropped := r.Refuse(take())
		assert.False(t, dropped)
	}
	got, dropped := r.Refuse(take())
	assert.True(t, dropped)
	assert.Equal(t, Ack{"a", 2, owner}, got.Ack)
	assert.Empty(t, r.byID)
	consistent(t, r)
	assert.Equal(t, []*wirev1.Removal{{Id: "a", DataInfoId: keyOf("x"), Version: 2, Cause: wirev1.Cause_CAUSE_WITHDRAWN}}, take().Message().GetRemovals())
}

// An acknowledgement of a change leaves the newer change of that id queued: it
// settles what it was sent for, and nothing else.
func TestSettle_LeavesWhatWasPutMeanwhile(t *testing.T) {
	for _, between := range []struct {
		name string
		act  func(r *Registry, now time.Time)
	}{
		{"nothing else", func(*Registry, time.Time) {}},
		{"all slots are made again", func(r *Registry, now time.Time) { r.Resize(2, now); r.Resize(1, now) }},
	} {
		t.Run(between.name, func(t *testing.T) {
			r, now := New(time.Hour, 0, nil), time.Now()
			r.Resize(1, now)
			owner := active(&Owner{}, now)
			put := func(version int64) {
				_, err := put(r, owner, conclave.Publisher{ID: "a", Data: dataOf("x"), Version: version}, now)
				require.NoError(t, err)
			}
			put(1)
			inFlight := takeAny(r, 0, "", 1<<20, 10, now)
			put(2)
			between.act(r, now)
			acks, counted := r.Settle(inFlight, now)
			assert.True(t, counted)
			assert.Empty(t, acks)
			left := takeAny(r, 0, "", 1<<20, 10, now)
			require.Equal(t, 1, left.Len(), "version 2 is still to be written")
			assert.EqualValues(t, 2, left.Message().GetPuts()[0].GetVersion())
			acks, _ = r.Settle(left, now)
			assert.Equal(t, []Ack{{"a", 2, owner}}, acks)

			r.Resize(1, now)
			assert.Empty(t, r.Unwritten(), "the number of slots is the same: nothing is written again")
		})
	}
}

// What is in flight when all slots are made again is written again, and its
// acknowledgement leaves what is queued by then as it is.
func TestSettle_OfSlotsThatWereMadeAgain(t *testing.T) {
	r, now := New(time.Hour, 0, nil), time.Now()
	r.Resize(1, now)
	_, err := put(r, active(&Owner{}, now), conclave.Publisher{ID: "a", Data: dataOf("x"), Version: 1}, now)
	require.NoError(t, err)
	inFlight, unsent := takeAny(r, 0, "", 1<<20, 10, now), r.Unsent()
	r.Resize(2, now)
	r.Resize(1, now)
	acks, _ := r.Settle(inFlight, now)
	assert.Empty(t, acks)
	assert.Equal(t, unsent, r.Unsent())
	consistent(t, r)
	acks, _ = r.Settle(takeAny(r, 0, "", 1<<20, 10, now), now)
	assert.Len(t, acks, 1)
	assert.Zero(t, r.Unsent())
}

// A withdrawal that is asked for again and again is remembered once.
func TestSettle_TombstoneIsRememberedOnce(t *testing.T) {
	m := newMachine()
	r, o, now := m.r, m.conns[0], m.now
	_, err := r.Put(o, &wirev1.Publisher{Id: "a", DataInfoId: keyOf(testIDs[0]), Version: 7, Withdrawn: true}, now)
	require.NoError(t, err)
	for range 100 {
		for _, slot := range r.Unwritten() {
			for class := range classes {
				r.Settle(r.Take(slot, r.of(slot).address, class, 1<<20, 100, now), now)
			}
		}
		_, _, stored := r.Find("a")
		require.True(t, stored)
		r.Rewrite("a")
	}
	assert.Len(t, r.tombstones, 1)
	r.ForgetTombstones(now.Add(testGrace + time.Second))
	assert.Nil(t, r.byID["a"])
	assert.Empty(t, r.tombstones)
}
