package registry

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

func limited(l Limits) (*Registry, time.Time) {
	r, now := New(time.Hour, 0, nil), time.Now()
	r.Resize(1, now)
	r.Limit(l)
	return r, now
}

// What exceeds a limit is refused with limit_reached, and what is held stays, may be
// updated and withdrawn, and makes room when it is gone.
func TestLimits_OfOneClient(t *testing.T) {
	r, now := limited(Limits{Registrations: 3, Subscriptions: 2})
	o, other := active(&Owner{Client: "a", Host: "h"}, now), active(&Owner{Client: "b", Host: "h"}, now)
	put := func(to *Owner, id string, version int64, withdrawn bool) error {
		_, err := put(r, to, conclave.Publisher{ID: id, Data: dataOf("x"), Version: version, Withdrawn: withdrawn}, now)
		return err
	}
	for i := range 3 {
		require.NoError(t, put(o, fmt.Sprint(i), 1, false))
	}
	err := put(o, "3", 1, false)
	assert.Equal(t, wire.CodeLimitReached, wire.CodeOf(err))
	assert.EqualError(t, err, "limit_reached: there are 3 registrations of this client: the limit is 3")
	require.NoError(t, put(o, "0", 2, false), "an update is none more")
	require.NoError(t, put(other, "3", 1, false), "others have limits of their own")
	require.NoError(t, put(o, "1", 2, true))
	require.NoError(t, put(o, "4", 1, false))
	assert.Error(t, put(o, "1", 3, false), "it would be one more again")
	assert.Equal(t, 3, o.live)

	// Withdrawals of what is not held here are tombstones, which may be as many again.
	require.NoError(t, put(o, "gone-0", 1, true))
	require.NoError(t, put(o, "gone-1", 1, true))
	assert.Equal(t, wire.CodeLimitReached, wire.CodeOf(put(o, "gone-2", 1, true)))
	require.NoError(t, put(o, "4", 2, true), "what is held can always be withdrawn")

	subscribe := func(id string) error {
		_, err := r.Subscribe(o, &wirev1.Subscription{Id: id, DataInfoId: dataOf(id).String()}, now)
		return err
	}
	require.NoError(t, subscribe("s1"))
	require.NoError(t, subscribe("s2"))
	assert.EqualError(t, subscribe("s3"), "limit_reached: there are 2 subscriptions of this client: the limit is 2")
	require.NoError(t, subscribe("s2"), "it takes the place of the one that is there")
	assert.Len(t, o.subs, 2)
	r.Unsubscribe(o, "s1")
	assert.NoError(t, subscribe("s3"))
}

// Bytes are counted for the client and for its address, also those of connections
// that have ended and left registrations, and end with what they were counted for.
func TestLimits_OfBytes(t *testing.T) {
	r, now := limited(Limits{Bytes: 10_000, AddressBytes: 15_000})
	value := strings.Repeat("v", 4000)
	put := func(to *Owner, id string, version int64, values ...string) error {
		_, err := put(r, to, conclave.Publisher{ID: id, Data: dataOf("x"), Version: version, Values: values}, now)
		return err
	}
	a, b, c := active(&Owner{Client: "a", Host: "h"}, now), active(&Owner{Client: "b", Host: "h"}, now), active(&Owner{Client: "c", Host: "other"}, now)
	require.NoError(t, put(a, "a1", 1, value))
	require.NoError(t, put(a, "a2", 1, value))
	assert.ErrorContains(t, put(a, "a3", 1, value), "bytes of what this client holds: the limit is 10000")
	require.NoError(t, put(a, "a2", 2, value, value), "an update may grow beyond the limit")
	assert.ErrorContains(t, put(a, "a2", 3, value, value, value, value), "bytes of what this client holds: the limit is 20000", "but not beyond twice the limit")
	require.NoError(t, put(a, "a2", 3, value[1:]))
	require.NoError(t, put(b, "b1", 1, value))
	assert.ErrorContains(t, put(b, "b2", 1, value), "bytes of what the clients from this address hold: the limit is 15000")
	require.NoError(t, put(c, "c1", 1, value), "another address")
	_, err := r.Subscribe(b, &wirev1.Subscription{Id: "s", DataInfoId: dataOf("x").String(), Publishers: make([]uint32, 4000)}, now)
	assert.Equal(t, wire.CodeLimitReached, wire.CodeOf(err), "what a subscription brings counts, too: %v", err)

	a.End()
	assert.Equal(t, 2, r.Release(a))
	assert.Error(t, put(b, "b2", 1, value), "the ended connection has left what counts")
	again := active(&Owner{Client: "a", Host: "h", Number: 2}, now)
	require.NoError(t, put(again, "a1", 2, value), "it is not counted twice when its client is back")
	for h, more := r.Holdings(a), true; more; {
		_, more = r.Disown(h, wirev1.Cause_CAUSE_CLIENT_GONE, 100)
	}
	require.NoError(t, put(b, "b2", 1, value))
	for _, o := range []*Owner{again, b, c} {
		o.End()
		r.Release(o)
		for h, more := r.Holdings(o), true; more; {
			_, more = r.Disown(h, wirev1.Cause_CAUSE_CLIENT_GONE, 100)
		}
		assert.Zero(t, o.bytes)
	}
	r.ForgetTombstones(now)
	assert.Empty(t, r.accounts)
}

// A connection on which a client repeats what it has is charged with it: the account of
// its address stays what it was, and does not end with the connection before it.
func TestLimits_RepeatedRegistrationsStayCounted(t *testing.T) {
	r, now := limited(Limits{AddressBytes: 10_000})
	put := func(to *Owner) {
		_, err := put(r, to, conclave.Publisher{ID: "p", Data: dataOf("x"), Version: 1, Values: []string{strings.Repeat("v", 4000)}}, now)
		require.NoError(t, err)
	}
	before := active(&Owner{Client: "a", Host: "h", Number: 1}, now)
	put(before)
	held := r.accounts["h"].bytes
	require.Greater(t, held, 4000)
	for n := range uint64(3) {
		again := active(&Owner{Client: "a", Host: "h", Number: n + 2}, now)
		put(again)
		before.End()
		r.Release(before)
		assert.Equal(t, held, r.accounts["h"].bytes)
		assert.Equal(t, held, again.bytes)
		before = again
	}
	elsewhere := active(&Owner{Client: "a", Host: "other", Number: 9}, now)
	put(elsewhere)
	assert.Zero(t, r.accounts["h"].bytes)
	assert.Equal(t, held, r.accounts["other"].bytes)
}

// A subscription that is asked for again is not ended by a refusal, and counts once.
func TestLimits_RefusedSubscriptionKeepsTheOneBefore(t *testing.T) {
	r, now := limited(Limits{Bytes: 5000, Subscriptions: 1})
	o := active(&Owner{Client: "a", Host: "h"}, now)
	subscribe := func(publishers int) error {
		_, err := r.Subscribe(o, &wirev1.Subscription{Id: "s", DataInfoId: keyOf("x"), Publishers: make([]uint32, publishers)}, now)
		return err
	}
	require.NoError(t, subscribe(900))
	before := o.subs["s"]
	require.NoError(t, subscribe(900), "it counts in the place of the one before")
	require.NoError(t, subscribe(2000), "to twice the limit")
	assert.NotSame(t, before, o.subs["s"])
	before = o.subs["s"]
	assert.Error(t, subscribe(3000))
	assert.Same(t, before, o.subs["s"])
	assert.Len(t, r.topics, 1)
	assert.Equal(t, before.bytes, o.bytes)
}

// The publishers of a list that a client brings count until the session has a list in
// their place, which all subscribers share.
func TestLimits_PublishersCountUntilTheyAreShared(t *testing.T) {
	const clients, publishers = 100, 1000
	for name, equal := range map[string]bool{"a newer list": false, "an equal one": true} {
		t.Run(name, func(t *testing.T) {
			r, now := limited(Limits{AddressBytes: 1 << 20})
			r.Adopt(0, conclave.Epoch{Term: 1}, "data-1", now)
			d := datumOf(&wirev1.Datum{DataInfoId: keyOf("x"), Version: 7, Values: make([]string, publishers), Publishers: make([]uint32, publishers)}, 0)
			for i := range clients {
				in := &wirev1.Subscription{Id: "s", DataInfoId: keyOf("x"), Version: 6, Hash: 9, Count: publishers, Publishers: make([]uint32, publishers)}
				if equal {
					in.Hash = d.Hash()
				}
				_, err := r.Subscribe(active(&Owner{Client: fmt.Sprint(i), Host: "h"}, now), in, now)
				require.NoError(t, err)
			}
			assert.Greater(t, r.accounts["h"].bytes, clients*4*publishers)
			reads, _ := r.TakeReads(0, "data-1", 10, now)
			_, counted := r.Fetched(reads, []*wirev1.Fetched{{Datum: d.message}}, now)
			require.True(t, counted)
			assert.Less(t, r.accounts["h"].bytes, 2*clients*subscriptionBytes)
			for _, s := range slices.Clone(r.topics[keyOf("x")].subs) {
				r.Unsubscribe(s.to, s.id)
				assert.Zero(t, s.to.bytes)
			}
			assert.Zero(t, r.accounts["h"].bytes)
		})
	}
}
