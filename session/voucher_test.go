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

// A connection vouches for two thirds of the grace after each word; a word that
// comes when the lease is over is none.
func TestVoucher(t *testing.T) {
	const lease, grace = 5 * time.Second, 15 * time.Second
	now := time.Now()
	var v voucher
	assert.False(t, v.vouches(now, grace), "it was never heard")
	assert.True(t, v.hear(now, lease), "the first word")
	assert.True(t, v.vouches(now.Add(10*time.Second-1), grace))
	assert.False(t, v.vouches(now.Add(10*time.Second), grace))
	assert.True(t, v.hear(now.Add(lease), lease))
	assert.False(t, v.hear(now.Add(2*lease+1), lease), "the process stood still: who knows how old this word is")
	assert.False(t, v.vouches(now.Add(15*time.Second), grace), "it has not counted")
	v.stand(now.Add(time.Minute))
	assert.True(t, v.vouches(now.Add(time.Minute-1), grace))
	assert.False(t, v.vouches(now.Add(time.Minute), grace))
}

// What nobody vouches for is neither offered nor taken away, until it is shown
// again or its connection's lease ends.
func TestHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(15 * time.Second)
		require.True(t, r.resize(1))
		e1, e2 := conclave.Epoch{Term: 1, Seq: 1}, conclave.Epoch{Term: 1, Seq: 2}
		old := heard(&connection{client: "a"})
		p := conclave.Publisher{ID: "a", Data: dataOf("x"), Version: 2}
		gone := conclave.Publisher{ID: "b", Data: dataOf("x"), Version: 7, Withdrawn: true}
		for _, p := range []conclave.Publisher{p, gone} {
			_, err := r.put(old, p)
			require.NoError(t, err)
		}
		changes, _ := r.take(0, 1<<20)
		require.Len(t, r.settle(0, e1, changes), 2)
		time.Sleep(10 * time.Second)
		_, err := r.put(heard(&connection{client: "c"}), conclave.Publisher{ID: "c", Data: dataOf("x"), Version: 1})
		require.NoError(t, err)

		// A data node that lacks it is told all else, and then that this is not all.
		theirs := modelData{}
		same, err := diffOnce(r, 0, e2, theirs)
		require.NoError(t, err)
		assert.False(t, same)
		assert.Equal(t, modelData{"b": 7, "c": 1}, theirs, "tombstones bring nothing back")
		_, err = diffOnce(r, 0, e2, theirs)
		assert.Equal(t, wire.CodeUnavailable, wire.CodeOf(err))
		theirs["a"] = 1
		_, err = diffOnce(r, 0, e2, theirs)
		assert.Equal(t, wire.CodeUnavailable, wire.CodeOf(err), "an older version is not all either")
		// One that has it keeps it.
		theirs["a"] = 2
		same, err = diffOnce(r, 0, e2, theirs)
		require.NoError(t, err)
		assert.True(t, same)
		theirs["d"] = 1
		_, err = diffOnce(r, 0, e2, theirs)
		require.NoError(t, err)
		assert.Equal(t, modelData{"a": 2, "b": 7, "c": 1}, theirs)

		// Nor is it written.
		r.slots[0].covered = e1
		r.audit(0, e2)
		changes, _ = r.take(0, 1<<20)
		assert.ElementsMatch(t, []string{"b", "c"}, idsOf(changes))

		// Its client is back: it is written again, and said to be stored only then.
		stored, err := r.put(heard(&connection{client: "a", number: 1}), p)
		require.NoError(t, err)
		assert.False(t, stored)
		changes, _ = r.take(0, 1<<20)
		assert.ElementsMatch(t, []string{"a", "b", "c"}, idsOf(changes))
		assert.Len(t, r.settle(0, e2, changes), 2, "and that of the new one")
	})
}

func idsOf(changes []*change) (ids []string) {
	for _, c := range changes {
		ids = append(ids, c.id)
	}
	return ids
}

// A client that announced that it will leave, and left, vouches for as long as it
// said. If it broke instead it may be elsewhere: what it has is held back like any
// other's, but nobody waits for it.
func TestAnnouncedClientVouches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClients(15 * time.Second)
		c.refuse("")
		r := newRegistry(15 * time.Second)
		require.True(t, r.resize(1))
		for _, x := range []struct {
			id          string
			left, asked bool
		}{{"left", true, false}, {"broke", false, false}, {"moved", true, true}} {
			who := heard(&connection{client: x.id, announced: true, linger: time.Hour, asked: x.asked, out: newOutbox()})
			require.NoError(t, c.admit(who))
			_, err := r.put(who, conclave.Publisher{ID: x.id, Data: dataOf("x"), Version: 1})
			require.NoError(t, err)
			c.release(who, true, x.left, time.Now())
		}
		offered := func() (ids []string) {
			res, err := r.diff(0, conclave.Epoch{Term: 1, Seq: 1}, &wirev1.DiffRequest{})
			require.NoError(t, err)
			assert.False(t, res.More)
			for _, p := range res.Puts {
				ids = append(ids, p.Id)
			}
			return ids
		}
		assert.Equal(t, []string{"broke", "left", "moved"}, offered())
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"left"}, offered())
		time.Sleep(time.Hour)
		assert.Empty(t, offered())
	})
}
