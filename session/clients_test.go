package session

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/session/registry"
	wirev1 "conclave/wire/v1"
)

// A suspended session starts the leases of broken connections again, even if
// that happens often, but not for ever if their clients have had time to come
// back.
func TestLeases_AreNotRenewedForEver(t *testing.T) {
	const linger = 5 * time.Second
	suspensions := func(ran time.Duration) (n int) {
		c, now := newClients(15*time.Second), time.Unix(0, 0)
		conn := &connection{Owner: &registry.Owner{}, linger: linger}
		c.open[conn.Owner], c.empty = conn, make(chan struct{})
		c.release(conn, 1, false, now)
		for ; n < 100; n++ {
			c.addRunTime(ran, 0)
			now = now.Add(ran + 3*time.Second)
			c.renew(now, linger)
			if over, _ := c.expired(now.Add(linger - 1)); len(over) > 0 {
				break
			}
		}
		return n
	}
	assert.Equal(t, 100, suspensions(100*time.Millisecond), "it has run for two leases only")
	assert.Equal(t, 3, suspensions(4*time.Second))
}

// The rest of a lease begins where the time ends in which its connection was seen
// to be closed: it keeps what was added because this session was late or suspended.
func TestAwait_KeepsWhatTheLeaseWasGiven(t *testing.T) {
	const linger, late = 5 * time.Second, 700 * time.Millisecond
	begun := time.Unix(100, 0)
	ends := func(given func(c *clients)) time.Duration {
		c, conn := newClients(15*time.Second), &connection{Owner: &registry.Owner{}, linger: linger, closed: true}
		c.empty = make(chan struct{})
		c.release(conn, 1, false, begun)
		given(c)
		seen, _ := c.expired(begun.Add(time.Hour))
		c.awaitLease(seen)
		again, next := c.expired(begun)
		require.Empty(t, again)
		return next.Sub(begun)
	}
	assert.Equal(t, linger, ends(func(*clients) {}))
	assert.Equal(t, linger+late, ends(func(c *clients) { c.addRunTime(time.Second, late) }))
	assert.Equal(t, time.Minute+linger, ends(func(c *clients) { c.renew(begun.Add(time.Minute), linger) }))
}

// The end of a linger is fixed. A client that announced one but broke off may come
// back: it has what any other has, and no more.
func TestLeases_OnlyALingerThatHasBegunIsFixed(t *testing.T) {
	const lease, late = 5 * time.Second, 700 * time.Millisecond
	begun := time.Unix(100, 0)
	ends := func(linger time.Duration, left, asked bool, given func(c *clients)) time.Duration {
		c := newClients(15 * time.Second)
		c.empty = make(chan struct{})
		c.release(&connection{Owner: &registry.Owner{Announced: true}, linger: linger, asked: asked}, 1, left, begun)
		given(c)
		_, next := c.expired(begun)
		return next.Sub(begun)
	}
	isLate := func(c *clients) { c.addRunTime(time.Second, late) }
	suspended := func(c *clients) { c.renew(begun.Add(time.Minute), lease) }
	for _, linger := range []time.Duration{lease + time.Second, time.Minute} {
		assert.Equal(t, linger, ends(linger, true, false, isLate))
		assert.Equal(t, linger, ends(linger, true, false, suspended))
		assert.Equal(t, linger+late, ends(linger, false, false, isLate))
		assert.Equal(t, time.Minute+lease, ends(linger, false, false, suspended))
		assert.Equal(t, time.Minute+lease, ends(linger, true, true, suspended), "it was asked to move, and may not have arrived")
	}
	assert.Equal(t, time.Hour, ends(time.Hour, false, false, suspended))
	assert.Equal(t, time.Minute+time.Second, ends(time.Second, false, false, suspended))
}

// A session that is cut off takes back all clients that were here, also one that
// has registered nothing, and no others.
func TestClients_CutOffSessionTakesBackASubscriber(t *testing.T) {
	c := newClients(15 * time.Second)
	c.refuse("")
	conn := &connection{Owner: &registry.Owner{Client: "reader"}, out: &outbox{}}
	require.NoError(t, c.admit(conn, &wirev1.Welcome{}))
	c.refuse(cutOff)
	for range 2 { // it breaks off and comes back
		c.release(conn, 0, false, time.Now())
		require.NoError(t, c.refusal("reader"))
		require.NoError(t, c.admit(conn, &wirev1.Welcome{}))
		c.refuse(cutOff) // this changes nothing
	}
	require.ErrorContains(t, c.refusal("other"), cutOff)
	c.release(conn, 0, false, time.Now())
	c.refuse("")
	c.refuse(cutOff)
	require.ErrorContains(t, c.refusal("reader"), cutOff, "it was not here this time")
}

// A client that announced a linger and left keeps its registrations fresh for
// that time. If its connection broke instead, the client may be at another
// session: its registrations are held back like any other's, but a diff does
// not wait for them.
func TestFreshness_LastsForTheLingerOfAClientThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data, err := conclave.NewDataInfoID("x", "", "")
		require.NoError(t, err)
		c := newClients(15 * time.Second)
		c.refuse("")
		r := registry.New(15*time.Second, 0, nil)
		r.Resize(1, time.Now())
		for _, x := range []struct {
			id          string
			left, asked bool
		}{{"left", true, false}, {"broke", false, false}, {"moved", true, true}} {
			conn := &connection{Owner: &registry.Owner{Client: x.id, Announced: true}, linger: time.Hour, asked: x.asked, out: &outbox{}}
			conn.Renew(time.Now(), 0)
			require.NoError(t, c.admit(conn, &wirev1.Welcome{}))
			_, err := r.Put(conn.Owner, &wirev1.Publisher{Id: x.id, DataInfoId: data.String(), Version: 1}, time.Now())
			require.NoError(t, err)
			c.release(conn, 1, x.left, time.Now())
		}
		published := func() (ids []string) {
			res, _, err := r.Diff(&wirev1.DiffRequest{LeaderEpoch: &wirev1.Epoch{Term: 1, Seq: 1}}, false, time.Now())
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

// Registrants that ask for another time to live with each request cost the order of all
// leases once in each round, not with each request.
func TestRenewLease_ShorterLeasesAreOrderedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClients(15 * time.Second)
		var all []*connection
		for range 3 {
			conn := &connection{leased: true, linger: 10 * time.Second, Owner: &registry.Owner{}}
			conn.Renew(time.Now(), 0)
			c.lease(conn, time.Now())
			all = append(all, conn)
		}
		for i := range 1000 {
			time.Sleep(time.Millisecond)
			for _, conn := range all[1:] {
				require.Equal(t, conn, c.renewLease(conn.Owner, time.Duration(5+i%2)*time.Second, time.Now()))
			}
			require.Equal(t, all, []*connection{c.broken[0].conn, c.broken[1].conn, c.broken[2].conn})
			require.LessOrEqual(t, len(c.shorter), 2)
		}
		_, next := c.expired(time.Now())
		assert.WithinDuration(t, time.Now().Add(5*time.Second), next, 2*time.Millisecond)
		assert.Equal(t, all[0], c.broken[2].conn, "whose lease is the longest now")
		time.Sleep(6 * time.Second)
		expired, _ := c.expired(time.Now())
		assert.Len(t, expired, 2)
	})
}
