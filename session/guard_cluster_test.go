package session_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/wire"
)

// Withdrawals down to zero: every list is correct and is pushed at once,
// including the empty one.
func TestWithdrawalToZeroPassesAtOnce(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		x := c.client("writer", "session-1")
		var pubs []*client.Publication
		for i := range 4 {
			pubs = append(pubs, c.published(x, "svc", fmt.Sprint(i)))
		}
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("all are seen", sub.shows("0", "1", "2", "3"))
		start := time.Now()
		for _, p := range pubs {
			require.NoError(t, p.Withdraw())
		}
		c.eventually("the list is empty", sub.shows())
		assert.Less(t, time.Since(start), 100*time.Millisecond)
	})
}

// All clients of a session go together, which may be a fault of the session's
// own network. The empty list is held back, displayed as held, and pushed when
// the mark ends.
func TestGuard_HoldsTheRemovalOfManyClients(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		values := c.fill(6, "svc", "session-1")
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("all are seen", sub.shows(values...))
		start := time.Now()
		for _, x := range c.clients[:6] {
			c.crash(x)
		}
		address := c.sessions["session-2"].server.Address()
		c.eventually("the push is held", func() bool { return c.list(address, "/v1/subscribers?dataId=svc")[0]["held"] == true })
		assert.InDelta(t, 10, time.Since(start).Seconds(), 0.5, "when two client leases ended: so many at once are given a second one")
		assert.True(t, sub.shows(values...)())
		c.eventually("it is pushed in the end", sub.shows())
		assert.InDelta(t, 25, time.Since(start).Seconds(), 1, "a session grace later")
		assert.Len(t, sub.all(), 2, "there was no push in between")
		assert.Equal(t, false, c.list(address, "/v1/subscribers?dataId=svc")[0]["held"])
	})
}

// A subscription without a list and with a limit gets the list as it is when
// the limit ends, with the time for which it is unconfirmed.
func TestHoldAtMost_LimitsTheFirstPush(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		values := c.fill(6, "svc", "session-1")
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("all are seen", sub.shows(values...))
		for _, x := range c.clients[:6] {
			c.crash(x)
		}
		address := c.sessions["session-2"].server.Address()
		c.eventually("the push is held", func() bool { return c.list(address, "/v1/subscribers?dataId=svc")[0]["held"] == true })
		asker := c.client("asker", "session-2")
		start := time.Now()
		s, err := asker.Subscribe("svc", client.HoldAtMost(2*time.Second))
		require.NoError(t, err)
		d := <-s.C()
		assert.InDelta(t, 2, time.Since(start).Seconds(), 0.5)
		assert.Empty(t, d.Values)
		assert.InDelta(t, 13, d.Unconfirmed.Seconds(), 1)
		assert.True(t, sub.shows(values...)(), "others keep what they have")
	})
}

// The same, but the clients come back before the mark ends: no subscriber
// misses them.
func TestGuard_ClientsThatComeBackInTimeAreNotMissed(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		values := c.fill(6, "svc", "session-1")
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("all are seen", sub.shows(values...))
		for _, x := range c.clients[:6] {
			c.crash(x)
		}
		time.Sleep(10 * time.Second)
		var again []string
		for i := range 5 {
			again = append(again, fmt.Sprintf("new-%d", i))
			c.published(c.client(fmt.Sprintf("again-%d", i), "session-2"), "svc", again[i])
		}
		c.eventually("the new ones are seen", sub.shows(again...))
		for _, d := range sub.all() {
			assert.GreaterOrEqual(t, len(d.Values), 3, "growth is pushed from half the last list on: %v", d.Values)
		}
	})
}

// One client of many goes: its removal is pushed soon, because its end was seen.
func TestGuard_PassesTheRemovalOfOneClient(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		values := c.fill(6, "svc", "session-1")
		lone := c.client("lone", "session-1")
		c.published(lone, "single", "x")
		sub := c.watch(c.client("reader", "session-2"), "svc")
		single := c.watch(c.client("reader-2", "session-2"), "single")
		c.eventually("all are seen", sub.shows(values...))
		c.eventually("the single one is seen", single.shows("x"))
		start := time.Now()
		c.crash(lone)
		c.eventually("it is removed", single.shows())
		assert.InDelta(t, 1.25, time.Since(start).Seconds(), 0.1)
	})
}

// One of three clients of a session is killed, which had nearly all of its
// registrations. Its end was seen, so they are gone at every subscriber soon.
func TestGuard_PassesTheRemovalOfALargeClient(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		c.fill(2, "svc", "session-1")
		large := c.client("large", "session-1")
		for i := range 100 {
			c.published(large, fmt.Sprint("large-", i%10), fmt.Sprint(i))
		}
		var subs []*history
		for i := range 10 {
			subs = append(subs, c.watch(c.client(fmt.Sprint("reader-", i), fmt.Sprint("session-", 1+i%2)), fmt.Sprint("large-", i)))
			c.eventually("it is seen", func() bool { return len(subs[i].last()) == 10 })
		}
		start := time.Now()
		c.crash(large)
		for _, sub := range subs {
			c.eventually("it is removed", sub.shows())
		}
		assert.InDelta(t, 1.3, time.Since(start).Seconds(), 0.1)
	})
}

// A device between a client and its session resets the connection. The client
// connects again at once, here or elsewhere: no subscriber misses anything.
func TestGuard_ClientWhoseConnectionIsResetIsNotMissed(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		x := c.client("writer")
		for i := range 50 {
			c.published(x, "svc", fmt.Sprint(i))
		}
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("all are seen", func() bool { return len(sub.last()) == 50 })
		seen := len(sub.all())
		for range 10 {
			c.unplug("writer")
			time.Sleep(2 * time.Second)
		}
		assert.Len(t, sub.all(), seen)
	})
}

// A session dies with all its clients: their registrations stay for the grace;
// then the empty list is unexplained, is held back once more, and is pushed.
func TestSessionDiesWithItsClients(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		values := c.fill(4, "svc", "session-1")
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("all are seen", sub.shows(values...))
		start := time.Now()
		for _, x := range c.clients[:4] {
			c.crash(x)
		}
		kill(c, c.sessions["session-1"])

		// A new subscriber gets no empty first push while the mark is valid.
		time.Sleep(18 * time.Second)
		late := c.watch(c.client("late", "session-2"), "svc")
		time.Sleep(5 * time.Second)
		assert.Empty(t, late.all(), "the first push is empty and unconfirmed, and is held back")
		assert.True(t, sub.shows(values...)())

		c.eventually("it is pushed in the end", sub.shows())
		c.eventually("also to the late subscriber", late.shows())
		assert.InDelta(t, 31, time.Since(start).Seconds(), 2, "owner grace and mark")
	})
}

// A client with a linger is no loss: its registrations stay for the time
// announced, and then count as withdrawn.
func TestGuard_PassesTheEndOfALinger(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		sub := c.watch(c.client("reader", "session-2"), "svc")
		x, err := client.New(client.Config{
			Sessions: []string{c.sessions["session-1"].server.Address()}, Linger: 2 * time.Second, Network: c.host("tool"), Rand: c.seed(),
		})
		require.NoError(t, err)
		ctx, leave := context.WithCancel(c.ctx)
		c.all.Go(func() { _ = x.Run(ctx) })
		c.published(x, "svc", "a")
		c.eventually("it is seen", sub.shows("a"))
		start := time.Now()
		leave()
		c.eventually("it is withdrawn", sub.shows())
		assert.InDelta(t, 2, time.Since(start).Seconds(), 0.1, "not held, though it was all that this session had")
	})
}

// The switch turns the guard off: a push that is held back goes out at once.
func TestGuardSwitch(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		values := c.fill(4, "svc", "session-1")
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("all are seen", sub.shows(values...))
		for _, x := range c.clients[:4] {
			c.crash(x)
		}
		time.Sleep(13 * time.Second)
		require.True(t, sub.shows(values...)(), "held")
		c.meta.setSwitch(wire.SwitchPushGuard, "off")
		start := time.Now()
		c.eventually("it is pushed", sub.shows())
		assert.Less(t, time.Since(start), 100*time.Millisecond)
	})
}

// With the switch stop-push nothing is pushed; afterwards every subscriber gets
// only the newest list.
func TestStopPush(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		p := c.published(c.client("writer", "session-1"), "svc", "0")
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("the value is seen", sub.shows("0"))
		c.meta.setSwitch(wire.SwitchStopPush, "on")
		time.Sleep(100 * time.Millisecond)
		for i := range 5 {
			require.NoError(t, p.Update([]string{fmt.Sprint(i)}))
			time.Sleep(time.Second)
		}
		fresh := c.watch(c.client("fresh", "session-2"), "svc")
		time.Sleep(time.Second)
		assert.Len(t, sub.all(), 1)
		assert.Empty(t, fresh.all())
		c.meta.setSwitch(wire.SwitchStopPush, "off")
		c.eventually("the newest is seen", sub.shows("4"))
		c.eventually("also by the new subscriber", fresh.shows("4"))
		assert.Len(t, sub.all(), 2)
	})
}

// Twenty updates a second are all pushed; a burst is merged, and its last value
// is pushed within the window.
func TestWindowMergesBursts(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		p := c.published(c.client("writer"), "svc", "first")
		sub := c.watch(c.client("reader"), "svc")
		c.eventually("the value is seen", sub.shows("first"))
		for i := range 20 {
			time.Sleep(50 * time.Millisecond)
			require.NoError(t, p.Update([]string{fmt.Sprint(i)}))
		}
		time.Sleep(20 * time.Millisecond)
		assert.True(t, sub.shows("19")())
		assert.Len(t, sub.all(), 21)
		for i := range 100 {
			time.Sleep(time.Millisecond)
			require.NoError(t, p.Update([]string{fmt.Sprint("burst ", i)}))
		}
		time.Sleep(20 * time.Millisecond)
		assert.True(t, sub.shows("burst 99")())
		merged := len(sub.all()) - 21
		assert.Greater(t, merged, 5)
		assert.LessOrEqual(t, merged, 12, "about one in each window of 10 ms")
		ctx, cancel := context.WithTimeout(c.ctx, time.Second)
		defer cancel()
		require.NoError(t, p.Stored(ctx))
	})
}

// All data nodes and the session are lost, and one of four publishers is back. A
// reader that waits for the others, one that has limited that, and an operator are
// given the same time for which the list is unconfirmed.
func TestUnconfirmed_IsTheSameByEveryWay(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		c.fill(4, "svc", "session-1")
		for _, x := range c.clients[1:] {
			c.crash(x)
		}
		kill(c, c.datas["data-1"])
		kill(c, c.sessions["session-1"])
		c.startData("data-1")
		c.startSession("session-1")
		var shown []map[string]any
		c.eventually("the first publisher is back", func() bool {
			shown = c.list(c.datas["data-1"].server.Address(), "/v1/datums")
			return len(shown) == 1
		})
		operator, _ := shown[0]["unconfirmedMs"].(float64)
		require.Positive(t, operator)
		for _, options := range [][]client.Option{nil, {client.HoldAtMost(2 * time.Second)}} {
			s, err := c.client("reader").Subscribe("svc", options...)
			require.NoError(t, err)
			d := <-s.C()
			assert.Equal(t, []string{"v0"}, d.Values)
			assert.InDelta(t, operator, d.Unconfirmed.Milliseconds(), 200)
		}
	})
}
