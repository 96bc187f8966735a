package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Data has older versions for as long as it keeps a lost session's copies, and may lose
// the tombstone with the leader that has just stored it.
func TestTombstones_AreForgottenAGraceAfterTheyWereStored(t *testing.T) {
	r, now := New(time.Hour, 0, nil), time.Now()
	r.Resize(1, now)
	r.Adopt(0, conclave.Epoch{Term: 1, Seq: 1}, "", now)
	_, err := put(r, active(&Owner{}, now), conclave.Publisher{ID: "a", Data: dataOf("x"), Version: 1, Withdrawn: true}, now)
	require.NoError(t, err)
	now = now.Add(2 * time.Hour)
	r.ForgetTombstones(now)
	assert.Len(t, r.byID, 1, "data does not have it yet")
	r.Settle(takeAny(r, 0, "", 1, 1, now), now)
	now = now.Add(time.Hour)
	r.ForgetTombstones(now)
	assert.Len(t, r.byID, 1, "data has not had it for longer than the grace, however old it is")
	r.Adopt(0, conclave.Epoch{Term: 1, Seq: 2}, "", now)
	assert.Zero(t, r.Audit(now.Add(-1)), "the epoch is too young")
	assert.Equal(t, 1, r.Audit(now), "it is written again at a new epoch")
	r.ForgetTombstones(now.Add(1))
	assert.Empty(t, r.byID)
	assert.Equal(t, 1, takeAny(r, 0, "", 1, 1, now).Len(), "even if it is forgotten meanwhile")
}

// The earlier connection of a client is dead, but its handler still finds an
// old message in its buffers: what the client owns through its newer connection
// stays.
func TestOwner_EarlierConnectionTakesNothingBack(t *testing.T) {
	r, now := New(time.Hour, 0, nil), time.Now()
	r.Resize(1, now)
	earlier, later := active(&Owner{Client: "app", Number: 1}, now), active(&Owner{Client: "app", Number: 2}, now)
	p := conclave.Publisher{ID: "a", Data: dataOf("x"), Version: 1}
	show := func(o *Owner) {
		_, err := put(r, o, p, now)
		require.NoError(t, err)
	}
	show(earlier)
	show(later)
	show(earlier)
	p.Version = 2
	show(earlier)
	assert.Equal(t, 0, disown(r, earlier))
	assert.Len(t, publishers(r), 1)

	show(active(&Owner{Client: "other", Number: 1}, now))
	show(later)
	later.End()
	show(earlier) // it is the one that is still open
	assert.Equal(t, 1, disown(r, earlier))
}

// disown removes what a connection owns, in parts of two.
func disown(r *Registry, o *Owner) (removed int) {
	h := r.Holdings(o)
	for more := true; more; {
		var n int
		n, more = r.Disown(h, wirev1.Cause_CAUSE_CLIENT_GONE, 2)
		removed += n
	}
	return removed
}

// withdraw withdraws what a connection owns, in parts of two.
func withdraw(r *Registry, o *Owner) (withdrawn int) {
	h := r.Holdings(o)
	for more := true; more; {
		var n int
		n, more = r.Withdraw(h, 2)
		withdrawn += n
	}
	return withdrawn
}

// Between two parts, others may change what the connection owned: what belongs to
// another connection by then stays.
func TestHoldings_OnlyWhatStillBelongsToTheConnection(t *testing.T) {
	r, now := New(time.Hour, 0, nil), time.Now()
	r.Resize(1, now)
	gone, back := active(&Owner{Client: "app", Number: 1}, now), active(&Owner{Client: "app", Number: 2}, now)
	put := func(o *Owner, id string, version int64) {
		_, err := put(r, o, conclave.Publisher{ID: id, Data: dataOf("x"), Version: version}, now)
		require.NoError(t, err)
	}
	for i := range 5 {
		put(gone, fmt.Sprint("p", i), 1)
	}
	gone.End()
	h := r.Holdings(gone)
	removed, more := r.Disown(h, wirev1.Cause_CAUSE_CLIENT_GONE, 2)
	assert.Equal(t, 2, removed)
	require.True(t, more)
	put(back, "p2", 1)
	put(back, "p3", 2)
	removed, more = r.Disown(h, wirev1.Cause_CAUSE_CLIENT_GONE, 100)
	assert.Equal(t, 1, removed)
	assert.False(t, more)
	assert.Equal(t, 2, r.LiveOf(back))
	assert.Zero(t, r.LiveOf(gone))
}

// After most registrations have gone, their map is a small one.
func TestRegistry_GivesMemoryOfMapsBack(t *testing.T) {
	r, now := New(time.Millisecond, 0, nil), time.Now()
	r.Resize(1, now)
	r.Adopt(0, conclave.Epoch{Term: 1}, "data-1", now)
	o := active(&Owner{Client: "app", Number: 1}, now)
	for i := range 5000 {
		_, err := put(r, o, conclave.Publisher{ID: fmt.Sprint("p", i), Data: dataOf("x"), Version: 1}, now)
		require.NoError(t, err)
	}
	r.ForgetTombstones(now)
	assert.Equal(t, []int{5000, 5000}, []int{r.peakIDs, r.slots[0].peak})
	disown(r, o)
	_, counted := r.Settle(takeAny(r, 0, "data-1", 1<<30, 1<<20, now), now)
	require.True(t, counted)
	r.ForgetTombstones(now)
	assert.Equal(t, []int{0, 0}, []int{r.peakIDs, r.slots[0].peak})
	consistent(t, r)
}

// A registration belongs to the identity of its connection, until that is removed.
func TestPut_AnotherIdentityReplacesNothing(t *testing.T) {
	r, now := New(time.Hour, 0, nil), time.Now()
	r.Resize(1, now)
	shop, bank := active(&Owner{Client: "a", Number: 1, Identity: "shop"}, now), active(&Owner{Client: "a", Number: 2, Identity: "bank"}, now)
	p := conclave.Publisher{ID: "a", Data: dataOf("x"), Version: 1, Values: []string{"mine"}}
	_, err := put(r, shop, p, now)
	require.NoError(t, err)
	for _, theirs := range []conclave.Publisher{
		{ID: "a", Data: p.Data, Version: 1, Values: []string{"theirs"}},
		{ID: "a", Data: p.Data, Version: 2, Values: []string{"theirs"}},
		{ID: "a", Data: p.Data, Version: 2, Withdrawn: true},
	} {
		_, err := put(r, bank, theirs, now)
		assert.Equal(t, wire.CodeUnauthorized, wire.CodeOf(err))
	}
	assert.Equal(t, []string{"mine"}, publishers(r)[0].Values)
	shop.End()
	disown(r, shop)
	_, err = put(r, bank, p, now)
	assert.NoError(t, err, "the name of a token may change")
}
