package data_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// served grants slot 0 to n as after a crash, and returns how long it takes
// until n serves it.
func served(t *testing.T, c *cluster, n *node, limit time.Duration) time.Duration {
	t.Helper()
	start := time.Now()
	epoch := c.crash(0, n.id)
	eventually(t, limit, "the slot is served", func() bool {
		r, _ := c.report(n.id, 0)
		return r.State == slot.Serving && r.Epoch == epoch
	})
	return time.Since(start)
}

func partial(n *node) []conclave.NodeID { return info(n, 0).Partial }

// A member at whose address nothing listens is given up after a node lease and
// a session grace; what is served is marked until the member is gone.
func TestGiveUp_MemberThatCannotBeDialled(t *testing.T) {
	for name, address := range map[string]string{"refused": "session-9:1", "no route": "10.9.9.9:1", "no answer": "dark:1"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				c.net.Cut("data-1", "dark")
				s1, a := c.session("session-1", true), c.data("data-1")
				c.stable(1, lostLeader)
				lost := conclave.NodeID{Name: "session-9", Incarnation: "x"}
				c.join(wire.Member{Node: lost, Role: conclave.RoleSession, Address: address})
				assert.InDelta(t, 18*time.Second, served(t, c, a, 30*time.Second), float64(2500*time.Millisecond))
				assert.Equal(t, []conclave.NodeID{lost}, partial(a))
				events, _ := a.Events().Since(0)
				assert.True(t, slices.ContainsFunc(events, func(e wire.Event) bool { return e.Type == "slot.partial" }))

				marked := func() time.Duration {
					f, _, err := s1.fetch(s1.learn(0), dataIDIn(0, 1))
					require.NoError(t, err)
					return wire.FromMs(f.GetUnconfirmedMs())
				}
				assert.Greater(t, marked(), 13*time.Second)
				time.Sleep(30 * time.Second)
				assert.Greater(t, marked(), 13*time.Second, "as long as it is a member")
				c.evict("session-9")
				time.Sleep(17 * time.Second)
				assert.Zero(t, marked())
				assert.Empty(t, partial(a))
			})
		})
	}
}

// A session that was given up is not waited for again, until it can be dialled.
func TestGiveUp_IsNotRepeatedForEachSlot(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.session("session-1", true)
		s2, a := c.session("session-2", true), c.data("data-1")
		c.stable(1, lostLeader)
		s2.silence()
		c.net.ClosePort("session-2")
		assert.InDelta(t, 18*time.Second, served(t, c, a, 30*time.Second), float64(2500*time.Millisecond))
		assert.Equal(t, []conclave.NodeID{s2.id}, partial(a))
		assert.Less(t, served(t, c, a, 30*time.Second), 2*time.Second)
		assert.Equal(t, []conclave.NodeID{s2.id}, partial(a))

		c.net.OpenPort("session-2")
		time.Sleep(5 * time.Second) // the repair dials it meanwhile
		epoch := c.crash(0, a.id)
		never(t, 30*time.Second, "served without a session that accepts dials", func() bool {
			r, _ := c.report(a.id, 0)
			return r.State == slot.Serving && r.Epoch == epoch
		})
	})
}

// A member that accepts connections and does not answer is waited for.
func TestGiveUp_SilentMemberIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.session("session-1", true)
		s2, a := c.session("session-2", true), c.data("data-1")
		c.stable(1, lostLeader)
		s2.silence()
		c.crash(0, a.id)
		never(t, time.Minute, "served without session-2", func() bool { return a.state(0) == slot.Serving })
		c.evict("session-2")
		eventually(t, 2*time.Second, "served", func() bool { return a.state(0) == slot.Serving })
		assert.Empty(t, partial(a))
	})
}

// A feed under an invented name delays a slot no longer than a member that
// cannot be dialled, whatever address it gave.
func TestGiveUp_InventedFeed(t *testing.T) {
	for name, address := range map[string]string{"no address": "", "another session's address": "session-1:9603", "nothing there": "session-9:1"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				_, a := c.session("session-1", true), c.data("data-1")
				c.stable(1, lostLeader)
				peers := wire.NewPeers(c.net.Host("stranger"), &wire.Interceptor{Address: address, View: wire.NewView()}, wire.PingTimeout)
				ctx, cancel := context.WithCancel(t.Context())
				stream, err := peers.Data(a.Address()).Watch(ctx, connect.NewRequest(&wirev1.WatchRequest{Session: wire.NodeOut(conclave.NodeID{Name: "session-9", Incarnation: "x"})}))
				require.NoError(t, err)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					for stream.Receive() {
					}
				}()
				t.Cleanup(func() { cancel(); <-ended; _ = stream.Close(); peers.Close() })
				assert.InDelta(t, 18*time.Second, served(t, c, a, 30*time.Second), float64(2500*time.Millisecond))
			})
		})
	}
}

// A node that reaches no session at all assumes that the fault is its own.
func TestGiveUp_NodeThatReachesNoSessionGivesNoneUp(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.session("session-1", true)
		c.session("session-2", true)
		a := c.data("data-1")
		c.stable(1, lostLeader)
		for _, s := range []string{"session-1", "session-2"} {
			c.net.Cut("data-1", s)
			c.net.Cut(s, "data-1")
		}
		c.crash(0, a.id)
		never(t, time.Minute, "served", func() bool { return a.state(0) == slot.Serving })
		for _, s := range []string{"session-1", "session-2"} {
			c.net.Heal("data-1", s)
			c.net.Heal(s, "data-1")
		}
		eventually(t, 5*time.Second, "served", func() bool { return a.state(0) == slot.Serving })
		assert.Empty(t, partial(a))
	})
}

// When a session that was given up can be asked again, the slot becomes
// complete.
func TestGiveUp_ReturningSessionCompletesSlot(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.session("session-1", true)
		s2, a := c.session("session-2", true), c.data("data-1")
		p := pub(dataIDIn(0, 1), "r1", 1, "v1")
		s2.put(p)
		c.stable(1, lostLeader)
		c.net.Cut("data-1", "session-2")
		c.net.Cut("session-2", "data-1")
		served(t, c, a, 30*time.Second)
		assert.Equal(t, []conclave.NodeID{s2.id}, partial(a))
		c.net.Heal("data-1", "session-2")
		c.net.Heal("session-2", "data-1")
		eventually(t, 15*time.Second, "compared", func() bool { return len(partial(a)) == 0 })
		values, ok := s2.read(p.DataInfoId)
		assert.True(t, ok)
		assert.Equal(t, p.Values, values)
	})
}

// A hand-over passes on which session is missing, and the successor compares
// with it as soon as it serves.
func TestGiveUp_HandOverKeepsPartial(t *testing.T) {
	for name, back := range map[string]bool{"still unreachable": false, "reachable again": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				c.session("session-1", true)
				s2, a, b := c.session("session-2", true), c.data("data-1"), c.data("data-2")
				p := pub(dataIDIn(0, 1), "r1", 1, "v1")
				s2.put(p)
				c.stable(1, lostLeader)
				for _, n := range []string{"data-1", "data-2"} {
					c.net.Cut(n, "session-2")
				}
				c.net.Cut("session-2", "data-1")
				served(t, c, a, 30*time.Second)
				require.Equal(t, []conclave.NodeID{s2.id}, partial(a))
				c.prepare(0, b.id)
				eventually(t, 5*time.Second, "caught up", func() bool { return b.state(0) == slot.CaughtUp })
				if back {
					c.net.Heal("data-2", "session-2")
				}
				c.switchTo(0, b.id)
				eventually(t, time.Second, "handed over", func() bool { return b.state(0) == slot.Serving })
				if back {
					eventually(t, time.Second, "compared", func() bool { return len(partial(b)) == 0 })
				} else {
					assert.Equal(t, []conclave.NodeID{s2.id}, partial(b))
				}
			})
		})
	}
}
