package data_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/data"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// dataIDIn is a data info id that falls into a slot, otherIDIn is another one.
func dataIDIn(id, slots int) string  { return idIn("d", id, slots) }
func otherIDIn(id, slots int) string { return idIn("other", id, slots) }

func idIn(prefix string, id, slots int) string {
	for i := 0; ; i++ {
		d := conclave.DataInfoID{DataID: fmt.Sprint(prefix, i), Instance: conclave.DefaultInstance, Group: conclave.DefaultGroup}.String()
		if slot.Of(d, slots) == id {
			return d
		}
	}
}

func pub(dataID, id string, version int64, values ...string) *wirev1.Publisher {
	d, err := conclave.ParseDataInfoID(dataID)
	if err != nil {
		panic(err)
	}
	return &wirev1.Publisher{Id: id, DataInfoId: d.String(), Version: version, Values: values, Withdrawn: len(values) == 0}
}

// get sends a request to a node's HTTP API.
func get(t testing.TB, c *cluster, n *node, path string, body any) int {
	t.Helper()
	tr := &http.Transport{DialContext: c.net.Host("curl").DialContext, DisableKeepAlives: true}
	res, err := (&http.Client{Transport: tr}).Get("http://" + n.Address() + path)
	require.NoError(t, err)
	defer res.Body.Close()
	if body != nil {
		require.NoError(t, json.NewDecoder(res.Body).Decode(body))
	}
	return res.StatusCode
}

func httpStatus(t testing.TB, c *cluster, n *node, path string) int { return get(t, c, n, path, nil) }

// info returns a slot as the node's HTTP API shows it.
func info(n *node, id int) data.SlotInfo {
	var body struct{ Slots []data.SlotInfo }
	get(n.c.t, n.c, n, "/v1/slots", &body)
	for _, s := range body.Slots {
		if s.ID == id {
			return s
		}
	}
	return data.SlotInfo{}
}

func owners(n *node, id int) int      { return len(info(n, id).Owners) }
func publishers(n *node, id int) int  { return info(n, id).Publishers }
func position(n *node, id int) uint64 { return info(n, id).Position }

func TestMigration_NewClusterServesOnceSessionsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.auto = true
		s1 := c.session("session-1", true)
		s1.put(pub(dataIDIn(0, 4), "r1", 1, "v1"))
		n1, n2 := c.data("data-1"), c.data("data-2")
		c.make(4)
		eventually(t, time.Second, "stable", func() bool { return c.table().StableAll() })
		v, ok := s1.read(dataIDIn(0, 4))
		assert.True(t, ok)
		assert.Equal(t, []string{"v1"}, v)
		s1.store(pub(dataIDIn(1, 4), "r2", 1, "v2"))
		v, ok = s1.read(dataIDIn(1, 4))
		assert.True(t, ok)
		assert.Equal(t, []string{"v2"}, v)
		eventually(t, time.Second, "followers are caught up", func() bool {
			caught := 0
			for id := range 4 {
				for _, n := range []*node{n1, n2} {
					if n.state(id) == slot.CaughtUp {
						caught++
					}
				}
			}
			return caught == 4
		})
		require.Empty(t, n1.err)
	})
}

// The successor has a snapshot; a session writes to the old leader and reads
// that write there; then the slot switches. What was read once must be readable
// afterwards, however late the feed is.
func TestHandOver_SuccessorServesAtSourcesLastPosition(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, s1 := c.source("data-1"), c.session("session-1", true)
		b := c.data("data-2")
		d := dataIDIn(0, 1)
		e1 := c.stable(1, a.id, b.id)
		first, late := pub(d, "r1", 1, "first"), pub(d, "r2", 1, "late")
		a.events <- whole(e1, 5, copyOf(s1.id, first))
		eventually(t, time.Second, "caught up", func() bool { return b.state(0) == slot.CaughtUp })

		a.finish = func() (*wirev1.FinishedSlot, error) {
			return &wirev1.FinishedSlot{Access: wirev1.Access_ACCESS_ACCEPT, SourceEpoch: wire.EpochOut(e1), Position: 6, Counter: 4_000_000_000}, nil
		}
		e2 := c.switchTo(0, b.id)
		to := s1.at(b, e2)
		never(t, 100*time.Millisecond, "served without position 6", func() bool {
			_, access, err := s1.fetch(to, d)
			require.NoError(t, err)
			return access != wirev1.Access_ACCESS_MIGRATING
		})
		access, err := s1.write(to, 0, []*wirev1.Publisher{pub(d, "r3", 1, "new")})
		require.NoError(t, err)
		assert.Equal(t, wirev1.Access_ACCESS_ACCEPT, access, "it accepts writes in the meantime")
		a.events <- part(e1, 5, 6, copyOf(s1.id, late))
		eventually(t, time.Second, "serving", func() bool { return b.state(0) == slot.Serving })
		f, _, err := s1.fetch(to, d)
		require.NoError(t, err)
		assert.Equal(t, []string{"first", "late", "new"}, f.GetDatum().GetValues())
		assert.Greater(t, f.GetDatum().GetVersion(), int64(4_000_000_000), "above every version of the source")
		assert.Zero(t, s1.asked(), "no session was asked")
		assert.Equal(t, 1, a.finished())
	})
}

// The source does not answer for 300 ms, or refuses: the sessions are asked
// instead.
func TestHandOver_SilentSourceIsReplacedByDiffs(t *testing.T) {
	for name, how := range map[string]func(c *cluster, a *fakeSource){
		"silent": func(c *cluster, a *fakeSource) {
			a.finish = func() (*wirev1.FinishedSlot, error) {
				time.Sleep(time.Second)
				return nil, wire.Errorf(wire.CodeUnavailable, "too late")
			}
		},
		"refuses":  func(*cluster, *fakeSource) {},
		"has none": func(_ *cluster, a *fakeSource) { a.finish = answerMoved },
		"is dead":  func(c *cluster, a *fakeSource) { c.net.Kill(a.id.Name) },
		"never feeds": func(c *cluster, a *fakeSource) {
			a.finish = func() (*wirev1.FinishedSlot, error) {
				return &wirev1.FinishedSlot{Access: wirev1.Access_ACCESS_ACCEPT, SourceEpoch: wire.EpochOut(c.table().Slots[0].SourceEpoch), Position: 99}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				a, s1 := c.source("data-1"), c.session("session-1", true)
				b := c.data("data-2")
				d := dataIDIn(0, 1)
				e1 := c.stable(1, a.id, b.id)
				a.events <- whole(e1, 5, copyOf(s1.id, pub(d, "r1", 1, "first")))
				eventually(t, time.Second, "caught up", func() bool { return b.state(0) == slot.CaughtUp })
				// r2 reached only the source; r1 was withdrawn there.
				s1.put(pub(d, "r2", 1, "late"))
				how(c, a)
				start := time.Now()
				c.switchTo(0, b.id)
				eventually(t, 2*time.Second, "serving", func() bool { return b.state(0) == slot.Serving })
				assert.LessOrEqual(t, time.Since(start), 310*time.Millisecond)
				v, ok := s1.read(d)
				assert.True(t, ok)
				assert.Equal(t, []string{"late"}, v)
				require.NotZero(t, s1.asked())
			})
		})
	}
}

func answerMoved() (*wirev1.FinishedSlot, error) {
	return &wirev1.FinishedSlot{Access: wirev1.Access_ACCESS_MOVED}, nil
}

// A diff is a fence. S1 answers and then publishes; S2 answers later. What S1
// published goes to the new leader, because S1 has adopted its epoch.
func TestMigration_ServesWriteAfterDiff(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1, s2 := c.session("session-1", true), c.session("session-2", true)
		a, b := c.data("data-1"), c.data("data-2")
		d := dataIDIn(0, 1)
		c.stable(1, lostLeader)
		c.crash(0, a.id, b.id)
		eventually(t, time.Second, "a serves", func() bool { return a.state(0) == slot.Serving })
		e1 := c.table().Slots[0].LeaderEpoch
		s2.silence()
		e2 := c.crash(0, b.id, a.id)
		eventually(t, time.Second, "s1 has answered", func() bool { return s1.fence(0) == e2 })

		_, err := s1.write(s1.at(a, e1), 0, []*wirev1.Publisher{pub(d, "r1", 1, "v1")})
		assert.Error(t, err, "the old leader's answer does not count")
		s1.store(pub(d, "r1", 1, "v1"))
		never(t, 3*time.Second, "served before s2 answered", func() bool { return b.state(0) == slot.Serving })
		s2.unmute()
		eventually(t, 2*time.Second, "b serves", func() bool { return b.state(0) == slot.Serving })
		v, ok := s2.read(d)
		assert.True(t, ok)
		assert.Equal(t, []string{"v1"}, v)
	})
}

// The source keeps its copy until the successor is confirmed. Here the
// successor dies, and the source's copy of a dead session's publisher is the
// last one.
func TestHandOver_SourceKeepsCopyUntilSuccessorServes(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1 := c.session("session-1", true)
		a, b := c.data("data-1"), c.data("data-2")
		d := dataIDIn(0, 1)
		c.stable(1, lostLeader)
		c.crash(0, a.id)
		eventually(t, time.Second, "a serves", func() bool { return a.state(0) == slot.Serving })
		s1.store(pub(d, "r1", 1, "v1"))
		s1.kill()
		c.evict("session-1")
		reader := c.session("session-2", true)
		c.prepare(0, b.id)
		eventually(t, time.Second, "b follows", func() bool { return b.state(0) == slot.CaughtUp })
		c.switchTo(0, b.id)
		eventually(t, time.Second, "a has finished", func() bool { return a.state(0) == slot.Finished })
		b.kill()
		c.crash(0, a.id)
		eventually(t, time.Second, "a serves again", func() bool { return a.state(0) == slot.Serving })
		v, ok := reader.read(d)
		assert.True(t, ok)
		assert.Equal(t, []string{"v1"}, v)

		f, _, err := reader.fetch(reader.learn(0), d)
		require.NoError(t, err)
		assert.Positive(t, f.GetUnconfirmedMs(), "a crash grant with an owner that could not be asked")
	})
}

// The source drops its copy when the table is stable. Finish may be called
// again.
func TestHandOver_SourceDropsCopyWhenTableIsStable(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1 := c.session("session-1", true)
		a, b := c.data("data-1"), c.data("data-2")
		c.stable(1, lostLeader)
		c.crash(0, a.id)
		eventually(t, time.Second, "a serves", func() bool { return a.state(0) == slot.Serving })
		s1.store(pub(dataIDIn(0, 1), "r1", 1, "v1"))
		c.prepare(0, b.id)
		eventually(t, time.Second, "b follows", func() bool { return b.state(0) == slot.CaughtUp })
		e2 := c.switchTo(0, b.id)
		eventually(t, time.Second, "b serves", func() bool { return b.state(0) == slot.Serving })
		eventually(t, 50*time.Millisecond, "a has finished", func() bool { return a.state(0) == slot.Finished })
		ask := func() *wirev1.FinishedSlot {
			res, err := s1.peers.Data(a.Address()).Finish(t.Context(), connect.NewRequest(&wirev1.FinishRequest{
				Slots: []*wirev1.FinishSlot{{LeaderEpoch: wire.EpochOut(e2)}}, Successor: wire.NodeOut(b.id),
			}))
			require.NoError(t, err)
			return res.Msg.GetSlots()[0]
		}
		first, again := ask(), ask()
		never := conclave.Epoch{Term: 1<<64 - 1}
		res, err := s1.peers.Data(b.Address()).Finish(t.Context(), connect.NewRequest(&wirev1.FinishRequest{
			Slots: []*wirev1.FinishSlot{{LeaderEpoch: wire.EpochOut(never)}}, Successor: wire.NodeOut(a.id),
		}))
		require.NoError(t, err)
		assert.Equal(t, wirev1.Access_ACCESS_MOVED, res.Msg.GetSlots()[0].GetAccess())
		assert.Equal(t, slot.Serving, b.state(0), "an epoch that cannot be true ends nothing")
		assert.Equal(t, wirev1.Access_ACCESS_ACCEPT, first.GetAccess())
		assert.Equal(t, first.GetPosition(), again.GetPosition())
		c.settle(0)
		eventually(t, time.Second, "dropped", func() bool { _, has := c.report(a.id, 0); return !has })
		assert.Equal(t, wirev1.Access_ACCESS_MOVED, ask().GetAccess())
	})
}

// A leader that was evicted although it is alive learns of it from the table.
// It refuses all requests, and keeps its copy until another node has one.
func TestEviction_LivingLeaderKeepsItsCopy(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		lost, alive := c.session("session-1", true), c.session("session-2", true)
		a, b := c.data("data-1"), c.data("data-2")
		d := dataIDIn(0, 1)
		c.stable(1, lostLeader)
		e1 := c.crash(0, a.id)
		eventually(t, time.Second, "a serves", func() bool { return a.state(0) == slot.Serving })
		lost.store(pub(d, "r1", 1, "in grace"))
		lost.kill()
		c.evict("session-1")
		alive.silence()
		c.crash(0, b.id) // a is not in the row any more
		eventually(t, time.Second, "a has stopped", func() bool { return a.state(0) == slot.Finished })
		_, access, err := alive.fetch(alive.at(a, e1), d)
		require.NoError(t, err)
		assert.Equal(t, wirev1.Access_ACCESS_MOVED, access)
		b.kill()
		alive.unmute()
		c.crash(0, a.id)
		eventually(t, 2*time.Second, "a serves again", func() bool { return a.state(0) == slot.Serving })
		v, ok := alive.read(d)
		assert.True(t, ok)
		assert.Equal(t, []string{"in grace"}, v)
	})
}

// A successor's copy comes from the slot's leader and not only from the
// sessions: a session in grace cannot be asked any more.
func TestHandOver_KeepsPublishersOfSessionsInGrace(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		lost, alive := c.session("session-1", true), c.session("session-2", true)
		a, b := c.data("data-1"), c.data("data-2")
		d := dataIDIn(0, 1)
		c.stable(1, lostLeader)
		c.crash(0, a.id)
		eventually(t, time.Second, "a serves", func() bool { return a.state(0) == slot.Serving })
		lost.store(pub(d, "r1", 1, "in grace"))
		alive.store(pub(d, "r2", 1, "alive"))
		lost.kill()
		c.evict("session-1")
		c.prepare(0, b.id)
		eventually(t, time.Second, "b follows", func() bool { return b.state(0) == slot.CaughtUp })
		c.switchTo(0, b.id)
		eventually(t, time.Second, "b serves", func() bool { return b.state(0) == slot.Serving })
		v, ok := alive.read(d)
		assert.True(t, ok)
		assert.Equal(t, []string{"in grace", "alive"}, v)

		// The same holds for a follower that is promoted after a crash.
		c.settle(0)
		third := c.data("data-3")
		c.row(0, func(s *slot.Slot) { s.Followers = []conclave.NodeID{third.id} })
		eventually(t, time.Second, "the third follows", func() bool { return third.state(0) == slot.CaughtUp })
		b.kill()
		c.crash(0, third.id)
		eventually(t, time.Second, "the third serves", func() bool { return third.state(0) == slot.Serving })
		v, ok = alive.read(d)
		assert.True(t, ok)
		assert.Equal(t, []string{"in grace", "alive"}, v)

		// Its grace ends fifteen seconds after this node first saw it gone.
		eventually(t, 20*time.Second, "removed", func() bool { v, _ := alive.read(d); return len(v) == 1 })
	})
}

// Another incarnation answers at the session's address. Its empty set is no
// evidence about the old incarnation's publishers.
func TestDiff_RestartedSessionIsAnotherOwner(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		old := c.session("session-1", true)
		a, b := c.data("data-1"), c.data("data-2")
		d := dataIDIn(0, 1)
		c.stable(1, lostLeader)
		c.crash(0, a.id, b.id)
		eventually(t, time.Second, "a serves", func() bool { return a.state(0) == slot.Serving })
		old.store(pub(d, "r1", 1, "v1"))
		c.settle(0)
		eventually(t, time.Second, "b follows", func() bool { return publishers(b, 0) == 1 })
		old.kill()
		// The process is back before the member list changes: the crash grant
		// asks for the old incarnation, and the new one answers.
		fresh := c.session("session-1", false)
		a.kill()
		c.crash(0, b.id)
		never(t, time.Second, "the old incarnation is still on the list", func() bool { return b.state(0) == slot.Serving })
		c.join(wire.Member{Node: fresh.id, Role: conclave.RoleSession, Address: fresh.address})
		eventually(t, time.Second, "b serves", func() bool { return b.state(0) == slot.Serving })
		v, ok := fresh.read(d)
		assert.True(t, ok)
		assert.Equal(t, []string{"v1"}, v, "the old incarnation's publisher is in grace")

		fresh.store(pub(d, "r1", 2, "v2"))
		v, _ = fresh.read(d)
		assert.Equal(t, []string{"v2"}, v)
		eventually(t, 20*time.Second, "only one owner is left", func() bool {
			v, ok = fresh.read(d)
			require.True(t, ok)
			assert.Equal(t, []string{"v2"}, v)
			return owners(b, 0) == 1
		})
	})
}

// A restarted data node gets its slots back at a new leader epoch, with higher
// versions.
func TestMigration_RestartedNodeIsNewLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.auto = true
		s1 := c.session("session-1", true)
		a := c.data("data-1")
		d := dataIDIn(0, 4)
		c.make(4)
		eventually(t, time.Second, "stable", func() bool { return c.table().StableAll() })
		s1.store(pub(d, "r1", 1, "v1"))
		f, _, err := s1.fetch(s1.learn(0), d)
		require.NoError(t, err)
		before, e1 := f.GetDatum().GetVersion(), c.table().Slots[0].LeaderEpoch
		a.kill()
		restarted := c.data("data-1") // 0 ms later: the table still names the old incarnation
		eventually(t, time.Second, "stable", func() bool { return c.table().Slots[0].Leader == restarted.id && c.table().StableAll() })
		assert.True(t, e1.Less(c.table().Slots[0].LeaderEpoch))
		f, _, err = s1.fetch(s1.learn(0), d)
		require.NoError(t, err)
		assert.Equal(t, []string{"v1"}, f.GetDatum().GetValues())
		assert.GreaterOrEqual(t, f.GetDatum().GetVersion(), before/conclave.VersionBase*conclave.VersionBase+conclave.VersionBase)
	})
}

// A session that is connected but not on the member list yet is asked.
func TestMigration_AsksConnectedSessionThatIsNotListed(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		listed, joining := c.session("session-1", true), c.session("session-2", false)
		b := c.data("data-2")
		d := dataIDIn(0, 1)
		joining.put(pub(d, "r1", 1, "v1"))
		c.stable(1, lostLeader)
		joining.watch(t.Context(), b)
		c.crash(0, b.id)
		eventually(t, time.Second, "b serves", func() bool { return b.state(0) == slot.Serving })
		v, ok := listed.read(d)
		assert.True(t, ok)
		assert.Equal(t, []string{"v1"}, v)
	})
}

func TestMigration_DoesNotWaitForSessionThatLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1, s2 := c.session("session-1", true), c.session("session-2", true)
		b := c.data("data-2")
		s2.silence()
		c.stable(1, lostLeader)
		c.crash(0, b.id)
		never(t, 2*time.Second, "s2 is on the list", func() bool { return b.state(0) == slot.Serving })
		ready := httpStatus(t, c, b, "/readyz")
		assert.Equal(t, 503, ready)
		c.evict("session-2")
		eventually(t, 100*time.Millisecond, "b serves", func() bool { return b.state(0) == slot.Serving })
		f, _, err := s1.fetch(s1.learn(0), dataIDIn(0, 1))
		require.NoError(t, err)
		assert.Positive(t, f.GetUnconfirmedMs(), "s2 had to be given up: what it had may be missing")
		assert.Equal(t, 200, httpStatus(t, c, b, "/readyz"))
	})
}
