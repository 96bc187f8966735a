package session

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// A message keeps its connection fresh for two thirds of the grace. A message
// that arrives after the lease has expired does not count.
func TestFreshness_LastsTwoThirdsOfTheGrace(t *testing.T) {
	const lease, grace = 5 * time.Second, 15 * time.Second
	now := time.Now()
	var f freshness
	assert.False(t, f.valid(now, grace), "no message has arrived")
	assert.True(t, f.renew(now, lease), "the first message")
	assert.True(t, f.valid(now.Add(10*time.Second-1), grace))
	assert.False(t, f.valid(now.Add(10*time.Second), grace))
	assert.True(t, f.renew(now.Add(lease), lease))
	assert.False(t, f.renew(now.Add(2*lease+1), lease), "the process was suspended: the age of this message is unknown")
	assert.False(t, f.valid(now.Add(15*time.Second), grace), "the late message does not count")
	f.linger(now.Add(time.Minute))
	assert.True(t, f.valid(now.Add(time.Minute-1), grace))
	assert.False(t, f.valid(now.Add(time.Minute), grace))
}

// A registration whose connection is not fresh is neither published nor removed
// until it is sent again or the lease of its connection ends.
func TestRegistration_IsHeldBackUntilSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(15 * time.Second)
		require.True(t, r.resize(1))
		e1, e2 := conclave.Epoch{Term: 1, Seq: 1}, conclave.Epoch{Term: 1, Seq: 2}
		old := active(&connection{client: "a"})
		p := conclave.Publisher{ID: "a", Data: dataOf("x"), Version: 2}
		gone := conclave.Publisher{ID: "b", Data: dataOf("x"), Version: 7, Withdrawn: true}
		for _, p := range []conclave.Publisher{p, gone} {
			_, err := r.put(old, p)
			require.NoError(t, err)
		}
		changes, _ := r.take(0, 1<<20)
		require.Len(t, r.settle(0, e1, changes), 2)
		time.Sleep(10 * time.Second)
		_, err := r.put(active(&connection{client: "c"}), conclave.Publisher{ID: "c", Data: dataOf("x"), Version: 1})
		require.NoError(t, err)

		// A data node without the registration gets all others first, and is
		// then refused, because that was not all.
		theirs := modelData{}
		same, err := diffOnce(r, 0, e2, theirs)
		require.NoError(t, err)
		assert.False(t, same)
		assert.Equal(t, modelData{"b": 7, "c": 1}, theirs, "tombstones are always published")
		_, err = diffOnce(r, 0, e2, theirs)
		assert.Equal(t, wire.CodeUnavailable, wire.CodeOf(err))
		theirs["a"] = 1
		_, err = diffOnce(r, 0, e2, theirs)
		assert.Equal(t, wire.CodeUnavailable, wire.CodeOf(err), "an older version of it is refused as well")
		// A data node that has it keeps it.
		theirs["a"] = 2
		same, err = diffOnce(r, 0, e2, theirs)
		require.NoError(t, err)
		assert.True(t, same)
		theirs["d"] = 1
		_, err = diffOnce(r, 0, e2, theirs)
		require.NoError(t, err)
		assert.Equal(t, modelData{"a": 2, "b": 7, "c": 1}, theirs)

		// It is not written either.
		r.slots[0].covered = e1
		r.audit(0, e2)
		changes, _ = r.take(0, 1<<20)
		assert.ElementsMatch(t, []string{"b", "c"}, idsOf(changes))

		// Its client is back: it is written again, and acknowledged as stored
		// only after that.
		stored, err := r.put(active(&connection{client: "a", number: 1}), p)
		require.NoError(t, err)
		assert.False(t, stored)
		changes, _ = r.take(0, 1<<20)
		assert.ElementsMatch(t, []string{"a", "b", "c"}, idsOf(changes))
		assert.Len(t, r.settle(0, e2, changes), 2, "the new registration, and the one sent again")
	})
}

func idsOf(changes []*change) (ids []string) {
	for _, c := range changes {
		ids = append(ids, c.id)
	}
	return ids
}

// A client that announced a linger and left keeps its registrations fresh for
// that time. If its connection broke instead, the client may be at another
// session: its registrations are held back like any other's, but a diff does
// not wait for them.
func TestFreshness_LastsForTheLingerOfAClientThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClients(15 * time.Second)
		c.refuse("")
		r := newRegistry(15 * time.Second)
		require.True(t, r.resize(1))
		for _, x := range []struct {
			id          string
			left, asked bool
		}{{"left", true, false}, {"broke", false, false}, {"moved", true, true}} {
			conn := active(&connection{client: x.id, announced: true, linger: time.Hour, asked: x.asked, out: newOutbox()})
			require.NoError(t, c.admit(conn))
			_, err := r.put(conn, conclave.Publisher{ID: x.id, Data: dataOf("x"), Version: 1})
			require.NoError(t, err)
			c.release(conn, true, x.left, time.Now())
		}
		published := func() (ids []string) {
			res, err := r.diff(0, conclave.Epoch{Term: 1, Seq: 1}, &wirev1.DiffRequest{})
			require.NoError(t, err)
			assert.False(t, res.More)
			for _, p := range res.Puts {
				ids = append(ids, p.Id)
			}
			return ids
		}
		assert.Equal(t, []string{"broke", "left", "moved"}, published())
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"left"}, published())
		time.Sleep(time.Hour)
		assert.Empty(t, published())
	})
}
