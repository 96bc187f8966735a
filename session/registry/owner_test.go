package registry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/wire"
)

// A message keeps its connection fresh for two thirds of the grace. A message
// that arrives after the lease has expired does not count.
func TestFreshness_LastsTwoThirdsOfTheGrace(t *testing.T) {
	const lease, grace = 5 * time.Second, 15 * time.Second
	now := time.Now()
	var o Owner
	assert.False(t, o.fresh(now, grace), "no message has arrived")
	assert.True(t, o.Renew(now, lease), "the first message")
	assert.True(t, o.fresh(now.Add(10*time.Second-1), grace))
	assert.False(t, o.fresh(now.Add(10*time.Second), grace))
	assert.True(t, o.Renew(now.Add(lease), lease))
	assert.False(t, o.Renew(now.Add(2*lease+1), lease), "the process was suspended: the age of this message is unknown")
	assert.False(t, o.fresh(now.Add(15*time.Second), grace), "the late message does not count")
	o.Linger(now.Add(time.Minute))
	assert.True(t, o.fresh(now.Add(time.Minute-1), grace))
	assert.False(t, o.fresh(now.Add(time.Minute), grace))
}

// A registration whose connection is not fresh is neither published nor removed
// until it is sent again or the lease of its connection ends.
func TestRegistration_IsHeldBackUntilSentAgain(t *testing.T) {
	r, now := New(15*time.Second, 0, nil), time.Now()
	r.Resize(1, now)
	e1, e2 := conclave.Epoch{Term: 1, Seq: 1}, conclave.Epoch{Term: 1, Seq: 2}
	r.Adopt(0, e1, "", now)
	take := func() (Batch, []string) {
		b := takeAny(r, 0, r.slots[0].address, 1<<20, 100, now)
		var ids []string
		for _, p := range b.Message().GetPuts() {
			ids = append(ids, p.GetId())
		}
		return b, ids
	}
	settle := func() (acks []Ack) {
		b, _ := take()
		acks, _ = r.Settle(b, now)
		return acks
	}
	old := active(&Owner{Client: "a"}, now)
	p := conclave.Publisher{ID: "a", Data: dataOf("x"), Version: 2}
	gone := conclave.Publisher{ID: "b", Data: dataOf("x"), Version: 7, Withdrawn: true}
	for _, p := range []conclave.Publisher{p, gone} {
		_, err := put(r, old, p, now)
		require.NoError(t, err)
	}
	require.Len(t, settle(), 2)
	now = now.Add(10 * time.Second)
	_, err := put(r, active(&Owner{Client: "c"}, now), conclave.Publisher{ID: "c", Data: dataOf("x"), Version: 1}, now)
	require.NoError(t, err)

	// A data node without the registration gets all others first, and is then
	// refused, because that was not all.
	theirs := modelData{}
	same, err := theirs.diff(r, 0, e2, now)
	require.NoError(t, err)
	assert.False(t, same)
	assert.Equal(t, modelData{"b": 7, "c": 1}, theirs, "tombstones are always published")
	_, err = theirs.diff(r, 0, e2, now)
	assert.Equal(t, wire.CodeUnavailable, wire.CodeOf(err))
	theirs["a"] = 1
	_, err = theirs.diff(r, 0, e2, now)
	assert.Equal(t, wire.CodeUnavailable, wire.CodeOf(err), "an older version of it is refused as well")
	// A data node that has it keeps it.
	theirs["a"] = 2
	same, err = theirs.diff(r, 0, e2, now)
	require.NoError(t, err)
	assert.True(t, same)
	theirs["d"] = 1
	_, err = theirs.diff(r, 0, e2, now)
	require.NoError(t, err)
	assert.Equal(t, modelData{"a": 2, "b": 7, "c": 1}, theirs)

	// It is not written either.
	r.slots[0].covered = e1
	r.Audit(now)
	_, ids := take()
	assert.ElementsMatch(t, []string{"b", "c"}, ids)

	// Its client is back: it is written again, and acknowledged as stored only
	// after that.
	stored, err := put(r, active(&Owner{Client: "a", Number: 1}, now), p, now)
	require.NoError(t, err)
	assert.False(t, stored)
	_, ids = take()
	assert.ElementsMatch(t, []string{"a", "b", "c"}, ids)
	assert.Len(t, settle(), 2, "the new registration, and the one sent again")
}
