package data_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/data"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Article 002's claims about data nodes, one test each.

// While a node comes and takes slots over, one session writes and another reads
// all the time: no read lacks what was stored before it began.
//
// Article 002: a data node that joins copies the data to the end before it
// answers for it.
func TestArticleANodeThatComesSynchronisesBeforeItServes(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.auto, c.latency = true, 2*time.Millisecond
		s1, s2 := c.session("session-1", true), c.session("session-2", true)
		a := c.data("data-1")
		c.make(loadSlots)
		eventually(t, time.Second, "stable", func() bool { return c.table().StableAll() })
		var mu sync.Mutex
		stored := map[string]int64{} // the newest version that was acknowledged
		store := func(i int, version int64) {
			d := idIn(fmt.Sprint("svc", i), i%loadSlots, loadSlots)
			s1.store(pub(d, fmt.Sprint("r", i), version, strconv.FormatInt(version, 10)))
			mu.Lock()
			defer mu.Unlock()
			stored[d] = version
		}
		for i := range 20 {
			store(i, 1)
		}
		written, end := make(chan int64), make(chan struct{})
		go func() {
			version := int64(1)
			for running := true; running; {
				version++
				for i := range 20 {
					store(i, version)
				}
				select {
				case <-end:
					running = false
				default:
				}
			}
			written <- version
		}()
		b := c.data("data-2")
		reads := 0
		for arrived := false; !arrived || reads < 1000; arrived = len(c.table().LedBy(b.id)) == 2 && c.settled() {
			for i := range 20 {
				d := idIn(fmt.Sprint("svc", i), i%loadSlots, loadSlots)
				mu.Lock()
				want := stored[d]
				mu.Unlock()
				values, ok := s2.read(d)
				if !ok {
					time.Sleep(100 * time.Microsecond)
					continue
				}
				reads++
				if assert.Len(t, values, 1, "read of %s", d) {
					got, err := strconv.ParseInt(values[0], 10, 64)
					require.NoError(t, err)
					assert.GreaterOrEqual(t, got, want, "read of %s", d)
				}
			}
		}
		close(end)
		assert.Greater(t, <-written, int64(3), "it was written to meanwhile")
		assert.NotEmpty(t, c.table().LedBy(a.id))
	})
}

func TestArticleAStopKeepsItsOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.latency = time.Millisecond // each step lasts longer than the time between two checks
		nodes, s1, _ := stormCluster(t, c)
		n := nodes[0]
		s1.store(pub(dataIDIn(0, loadSlots), "r1", 1, "v1"))
		var order []string
		note := func(what string) {
			for _, x := range order {
				if x == what {
					return
				}
			}
			order = append(order, what)
		}
		done := make(chan error, 1)
		go func() { done <- n.Shutdown(t.Context()) }()
		for ended := false; !ended; time.Sleep(100 * time.Microsecond) {
			blacklisted := len(c.blacklist()) == 1
			owns := len(c.table().HeldBy(n.id)) > 0
			_, listed := c.members().Find("data-1")
			conn, err := c.net.Host("probe").DialContext(t.Context(), "tcp", n.Address())
			if err == nil {
				conn.Close()
			}
			if blacklisted && owns {
				note("blacklisted, slots still here")
			}
			if blacklisted && !owns && listed {
				note("owns no slot, still a member")
			}
			if !listed && err == nil {
				note("left the list, port still open")
			}
			if err != nil {
				note("port closed")
			}
			select {
			case err := <-done:
				require.NoError(t, err)
				ended = true
			default:
			}
		}
		assert.Equal(t, []string{"blacklisted, slots still here", "owns no slot, still a member", "left the list, port still open", "port closed"}, order)
		v, ok := s1.read(dataIDIn(0, loadSlots))
		assert.True(t, ok)
		assert.Equal(t, []string{"v1"}, v)
	})
	// Article 002: a data node stops by having itself blacklisted, waiting
	// until no slot is its own, and only then closing its servers.
}

// Article 002, isStopPushSwitch: while pushes are stopped, a data node that stops
// does not wait. Here it does not wait until another node has its copies as a
// follower; the slots that it leads it hands over all the same, because otherwise
// the stop would lose what a crash can lose.
func TestArticleAStopWithStopPushWaitsForNoNewCopies(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := serving(t, c)
		d := c.data("data-3") // could hold b's copy, and is given none
		s1 := c.session("session-1", true)
		s1.store(pub(dataIDIn(0, 1), "r1", 1, "v1"))
		stopPush := func(value string) {
			c.set(func(s *wire.State, e conclave.Epoch) {
				s.Switches = wire.Switches{Epoch: e, List: []wire.Switch{{Key: wire.SwitchStopPush, Value: value, Version: e.Seq}}}
			})
		}
		stopPush("off")
		follower, leader := make(chan error, 1), make(chan error, 1)
		go func() { follower <- b.Shutdown(t.Context()) }()
		never(t, 10*time.Second, "the follower left while pushes were not stopped", func() bool { return !c.members().Has(b.id) })
		stopPush("on")
		eventually(t, time.Second, "the follower left", func() bool { return !c.members().Has(b.id) })
		require.NoError(t, <-follower)

		go func() { leader <- a.Shutdown(t.Context()) }()
		never(t, 10*time.Second, "the leader left with its slot", func() bool { return !c.members().Has(a.id) })
		c.prepare(0, d.id)
		eventually(t, time.Second, "d has caught up", func() bool { return d.state(0) == slot.CaughtUp })
		c.switchTo(0, d.id)
		eventually(t, time.Second, "d serves", func() bool { return d.state(0) == slot.Serving })
		c.settle(0)
		require.NoError(t, <-leader)
		v, ok := s1.read(dataIDIn(0, 1))
		assert.True(t, ok)
		assert.Equal(t, []string{"v1"}, v)
	})
}

func TestArticleSlotsLeaveOneByOneWhileTheNodeServes(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.latency = time.Millisecond
		nodes, s1, s2 := stormCluster(t, c)
		l := startLoad(t, c, s1, s2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, nodes[1].Shutdown(ctx))
		time.Sleep(20 * time.Millisecond)
		l.stop(s1)
		finished := 0
		for _, e := range events(nodes[1]) {
			if e == "slot.finished" {
				finished++
			}
		}
		assert.Positive(t, finished, "each slot was finished for its successor")
		served := 0
		for _, n := range []*node{nodes[0], nodes[2]} {
			all, _ := n.Events().Since(0)
			for _, e := range all {
				if e.Type == "slot.serving" && e.Data["source"] == "data-2" {
					served++
					assert.Zero(t, e.Data["heard"], "a hand-over asks no session")
					assert.LessOrEqual(t, e.Data["unreadableMs"], 20.0)
				}
			}
		}
		assert.Equal(t, finished, served)
	})
	// Article 002: the leaving node's slots are handed to followers one after
	// the other while it goes on answering.
}

func TestArticleTheLastStepOfAStartLeavesTheBlacklist(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.onRestore = func() {
			for _, n := range []string{"data-1"} {
				conn, err := c.net.Host("meta-1").DialContext(t.Context(), "tcp", n+":9622")
				if assert.NoError(t, err, "the servers are open") {
					conn.Close()
				}
				_, listed := c.members().Find(n)
				assert.True(t, listed, "the node has registered")
			}
			c.restored++
		}
		n := c.data("data-1")
		eventually(t, time.Second, "ready", func() bool { return httpStatus(t, c, n, "/readyz") == http.StatusOK })
		assert.Equal(t, 1, c.restored)
	})
	// Article 002: a data node opens its servers, renews with meta, and takes
	// itself off the blacklist last.
}

// With stop-push on, too, a follower stays while the leader may be dead: its copy
// may be the only one.
func TestStop_WithStopPushWaitsForALeaderThatIsSilent(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := serving(t, c)
		c.data("data-3")
		eventually(t, 5*time.Second, "b has a copy", func() bool { return b.state(0) == slot.CaughtUp })
		c.set(func(s *wire.State, e conclave.Epoch) {
			s.Switches = wire.Switches{Epoch: e, List: []wire.Switch{{Key: wire.SwitchStopPush, Value: "on", Version: e.Seq}}}
		})
		c.cut(a.id.Name) // its lease has not ended: it is still a member
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Shutdown(ctx) }()
		never(t, 10*time.Second, "the only complete copy has left", func() bool { return !c.members().Has(b.id) })
		c.evict(a.id.Name)
		c.crash(0, b.id)
		eventually(t, time.Second, "b serves", func() bool { return b.state(0) == slot.Serving })
		cancel()
		require.Error(t, <-done)
	})
}

// Article 002: a starting node fetches the provide data and the system properties
// before it serves. Here they come with the slot table, in the answer to its first
// beat: when the node serves a slot it has them.
func TestArticleAStartingNodeHasItsSettingsBeforeItServes(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.stable(1, lostLeader)
		c.set(func(s *wire.State, e conclave.Epoch) {
			s.Switches = wire.Switches{Epoch: e, List: []wire.Switch{{Key: wire.SwitchStopPush, Value: "on", Version: 1}}}
			s.Config = wire.ConfigValues{Epoch: e, List: []wire.ConfigValue{{ID: "limits", Value: "10", Epoch: e}}}
		})
		c.crash(0, conclave.NodeID{Name: "data-1", Incarnation: "i1"})
		n := c.data("data-1")
		eventually(t, time.Second, "it serves", func() bool { return slices.Contains(events(n), "slot.serving") })
		st := n.View().State()
		assert.Equal(t, "on", st.Switches.Get(wire.SwitchStopPush, "off"))
		v, found := st.Config.Find("limits")
		assert.True(t, found)
		assert.Equal(t, "10", v.Value)
	})
}

// Article 002: a node that leaves is put on a migration list, and marked there when
// its slots have moved (succeed). Here one list is enough, the blacklist; what is left
// to move is read from the slot table, and the mark is that Shutdown returns no error
// and the node has left the member list. A stop that has not moved its slots has no
// such mark: it returns an error.
func TestArticleAStopSucceedsWhenItsSlotsHaveMoved(t *testing.T) {
	for _, moves := range []bool{true, false} {
		inBubble(t, func(t *testing.T, c *cluster) {
			a, _ := serving(t, c)
			d := c.data("data-3")
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- a.Shutdown(ctx) }()
			eventually(t, time.Second, "it is on the list", func() bool { return len(c.blacklist()) == 1 })
			assert.Equal(t, "data-1", c.blacklist()[0].Name)
			never(t, 5*time.Second, "it left with a slot", func() bool { return !c.members().Has(a.id) })
			if moves {
				c.prepare(0, d.id)
				eventually(t, time.Second, "d has caught up", func() bool { return d.state(0) == slot.CaughtUp })
				c.switchTo(0, d.id)
				eventually(t, time.Second, "d serves", func() bool { return d.state(0) == slot.Serving })
				c.settle(0)
				require.NoError(t, <-done)
				assert.False(t, c.members().Has(a.id))
			} else {
				require.ErrorContains(t, <-done, "still leads 1 slots")
			}
			assert.Equal(t, moves, len(c.table().LedBy(a.id)) == 0)
			assert.Len(t, c.blacklist(), 1, "until it starts again")
		})
	}
}

func TestArticleALostSessionsTaskIsRetriedAndOthersAreNotHeldUp(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1, s2 := c.session("session-1", true), c.session("session-2", true)
		b := c.data("data-1", func(cfg *data.Config) { cfg.DiffTimeout = 200 * time.Millisecond })
		s1.silence()
		c.stable(1, lostLeader)
		c.crash(0, b.id)
		time.Sleep(3 * time.Second)
		assert.GreaterOrEqual(t, s1.asked(), 5, "tried again and again")
		assert.Equal(t, 1, s2.asked(), "the other one answered at once")
		assert.Equal(t, slot.Migrating, b.state(0))
		s1.unmute()
		eventually(t, time.Second, "served", func() bool { return b.state(0) == slot.Serving })
	})
	// Article 002: for each session a synchronising task; one that fails is
	// tried again. The article's emergency exit, which counts a failed session
	// as done, does not exist here: the member list decides which sessions are
	// waited for.
}

func TestArticleALostSlotIsNotReadUntilAllSessionsWereHeard(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		nodes, s1, s2 := stormCluster(t, c)
		d := dataIDIn(0, loadSlots)
		s1.store(pub(d, "r1", 1, "one"))
		s2.store(pub(d, "r2", 1, "two"))
		s2.silence()
		for i, n := range nodes {
			n.kill()
			c.evict(n.id.Name)
			nodes[i] = c.data(n.id.Name)
		}
		var seen [][]string
		end := time.Now().Add(3 * time.Second)
		for time.Now().Before(end) {
			if v, ok := s1.read(d); ok {
				seen = append(seen, v)
			}
			time.Sleep(5 * time.Millisecond)
		}
		assert.Empty(t, seen, "read before session-2 answered")
		s2.unmute()
		eventually(t, 3*time.Second, "served", func() bool { return c.table().StableAll() })
		v, ok := s1.read(d)
		assert.True(t, ok)
		assert.Equal(t, []string{"one", "two"}, v)
	})
	// Article 002, completeness: when every replica of a slot is gone, only
	// the sessions' caches can replay it, and until they have it is not read:
	// no empty and no wrong push.
}

func TestArticleTwoTablesMayCoexist(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1 := c.session("session-1", true)
		a, b := serving(t, c)
		d := dataIDIn(0, 1)
		old := s1.at(a, c.table().Slots[0].LeaderEpoch)
		s1.store(pub(d, "r1", 1, "v1"))
		eventually(t, time.Second, "b follows", func() bool { return publishers(b, 0) == 1 })
		c.prepare(0, b.id)
		e2 := c.switchTo(0, b.id)
		eventually(t, time.Second, "b serves", func() bool { return b.state(0) == slot.Serving })
		access, err := s1.write(old, 0, []*wirev1.Publisher{pub(d, "r2", 1, "late")})
		require.NoError(t, err)
		assert.Equal(t, wirev1.Access_ACCESS_MOVED, access, "a session with the old table is refused as moved")
		_, access, err = s1.fetch(old, d)
		require.NoError(t, err)
		assert.Equal(t, wirev1.Access_ACCESS_MOVED, access)
		access, err = s1.write(s1.at(b, e2), 0, []*wirev1.Publisher{pub(d, "r2", 1, "late")})
		require.NoError(t, err)
		assert.Equal(t, wirev1.Access_ACCESS_ACCEPT, access)
	})
	// Article 002: while a new table is being distributed, nodes with the old
	// and the new one work side by side.
}
