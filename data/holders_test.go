package data_test

import (
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

// crashed is a slot of the node b, whose copy is at position 5, and of two
// other holders. The leader and the session lost are killed together.
type crashed struct {
	*cluster
	old, c1, c2 *fakeSource
	b           *node
	lost, alive *session
	from        conclave.Epoch // the leader epoch of the old leader
	id          string
}

func leaderAndSessionLost(t *testing.T, c *cluster) *crashed {
	s := &crashed{
		cluster: c, old: c.source("data-1"), c1: c.source("data-3"), c2: c.source("data-4"),
		lost: c.session("session-1", true), alive: c.session("session-2", true), id: dataIDIn(0, 1),
	}
	s.b = c.data("data-2")
	s.from = c.stable(1, s.old.id, s.b.id, s.c1.id, s.c2.id)
	s.old.events <- whole(s.from, 5, copyOf(s.lost.id, pub(s.id, "r1", 1, "old")))
	eventually(t, time.Second, "caught up", func() bool { return s.b.state(0) == slot.CaughtUp })
	s.alive.put(pub(s.id, "r2", 1, "new"))
	s.lost.kill()
	c.evict("session-1")
	c.evict("data-1")
	return s
}

func (s *crashed) serves() bool { return s.b.state(0) == slot.Serving }

func (s *crashed) values(t *testing.T) []string {
	v, ok := s.alive.read(s.id)
	require.True(t, ok)
	return v
}

// sends makes a holder answer with one snapshot.
func (f *fakeSource) sends(e *wirev1.ReplicateEvent) {
	f.collect = func(*wirev1.CollectRequest) ([]*wirev1.ReplicateEvent, error) {
		return []*wirev1.ReplicateEvent{e}, nil
	}
}

// A new leader takes the furthest copy of the other holders before it compares
// with the sessions.
func TestCrash_FurthestCopyIsTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s := leaderAndSessionLost(t, c)
		var asked *wirev1.CollectRequest
		s.c1.collect = func(r *wirev1.CollectRequest) ([]*wirev1.ReplicateEvent, error) {
			asked = r
			return []*wirev1.ReplicateEvent{whole(s.from, 7, copyOf(s.lost.id, pub(s.id, "r1", 3, "last")), copyOf(s.alive.id, pub(s.id, "r2", 0, "older")))}, nil
		}
		s.c2.sends(whole(s.from, 6, copyOf(s.lost.id, pub(s.id, "r1", 2, "middle"))))
		e := c.crash(0, s.b.id, s.c1.id, s.c2.id)
		eventually(t, time.Second, "serving", s.serves)
		assert.Equal(t, []string{"last", "new"}, s.values(t))
		require.Len(t, asked.GetSlots(), 1)
		assert.Equal(t, e, wire.EpochIn(asked.GetSlots()[0].GetLeaderEpoch()))
		assert.Equal(t, s.from, wire.EpochIn(asked.GetSlots()[0].GetCopyEpoch()))
		assert.EqualValues(t, 5, asked.GetSlots()[0].GetPosition())
	})
}

// A copy that is not further is not taken, whatever its position in an older
// feed.
func TestCrash_CopyThatIsNotFurtherIsNotTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s := leaderAndSessionLost(t, c)
		s.c1.sends(whole(conclave.Epoch{Term: s.from.Term, Seq: s.from.Seq - 1}, 90, copyOf(s.lost.id, pub(s.id, "r1", 0, "older"))))
		s.c2.sends(whole(s.from, 5, copyOf(s.lost.id, pub(s.id, "r1", 0, "other"))))
		c.crash(0, s.b.id, s.c1.id, s.c2.id)
		eventually(t, time.Second, "serving", s.serves)
		assert.Equal(t, []string{"old", "new"}, s.values(t))
	})
}

// A snapshot that breaks off is not taken.
func TestCrash_IncompleteCopyIsNotTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s := leaderAndSessionLost(t, c)
		e := whole(s.from, 7, copyOf(s.lost.id, pub(s.id, "r9", 3, "part")))
		e.SnapshotEnd = false
		s.c1.sends(e)
		c.crash(0, s.b.id, s.c1.id, s.c2.id)
		eventually(t, time.Second, "serving", s.serves)
		assert.Equal(t, []string{"old", "new"}, s.values(t))
	})
}

// A silent holder delays the slot by FinishTimeout, one that cannot be asked not
// at all, and a late answer changes nothing.
func TestCrash_SilentHolderIsLeftOut(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s := leaderAndSessionLost(t, c)
		s.c1.collect = func(*wirev1.CollectRequest) ([]*wirev1.ReplicateEvent, error) {
			time.Sleep(400 * time.Millisecond)
			return []*wirev1.ReplicateEvent{whole(s.from, 7, copyOf(s.lost.id, pub(s.id, "r1", 3, "late")))}, nil
		}
		c.crash(0, s.b.id, s.c1.id, s.c2.id)
		never(t, 290*time.Millisecond, "served before the holder had its time", s.serves)
		eventually(t, 100*time.Millisecond, "serving", s.serves)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"old", "new"}, s.values(t))
	})
	inBubble(t, func(t *testing.T, c *cluster) {
		s := leaderAndSessionLost(t, c)
		c.cut("data-3")
		c.crash(0, s.b.id, s.c1.id)
		eventually(t, 100*time.Millisecond, "serving", s.serves)
		assert.Equal(t, []string{"old", "new"}, s.values(t))
	})
}

// What a session writes to the new leader before the copy arrives is newer.
func TestCrash_WriteOvertakesTheCopyThatIsTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s := leaderAndSessionLost(t, c)
		s.c1.collect = func(*wirev1.CollectRequest) ([]*wirev1.ReplicateEvent, error) {
			time.Sleep(100 * time.Millisecond)
			return []*wirev1.ReplicateEvent{whole(s.from, 7, copyOf(s.alive.id, pub(s.id, "r2", 1, "new")), copyOf(s.lost.id, pub(s.id, "r1", 3, "last")))}, nil
		}
		e := c.crash(0, s.b.id, s.c1.id)
		eventually(t, 50*time.Millisecond, "migrating", func() bool { return s.b.state(0) == slot.Migrating })
		s.alive.put(pub(s.id, "r2", 2, "newest"))
		access, err := s.alive.write(s.alive.at(s.b, e), 0, []*wirev1.Publisher{pub(s.id, "r2", 2, "newest")})
		require.NoError(t, err)
		require.Equal(t, wirev1.Access_ACCESS_ACCEPT, access)
		eventually(t, time.Second, "serving", s.serves)
		assert.Equal(t, []string{"last", "newest"}, s.values(t))
	})
}

// caughtUp is a slot that is about to be handed over to b, whose copy is at
// position 5, while c1 is a follower.
func caughtUp(t *testing.T, c *cluster) *crashed {
	s := &crashed{
		cluster: c, old: c.source("data-1"), c1: c.source("data-3"),
		lost: c.session("session-1", true), alive: c.session("session-2", true), id: dataIDIn(0, 1),
	}
	s.b = c.data("data-2")
	s.from = c.stable(1, s.old.id, s.b.id, s.c1.id)
	s.old.events <- whole(s.from, 5, copyOf(s.lost.id, pub(s.id, "r1", 1, "old")))
	eventually(t, time.Second, "caught up", func() bool { return s.b.state(0) == slot.CaughtUp })
	return s
}

// A successor whose source does not answer, or whose feed of it is too slow, takes
// the furthest copy of the other holders before it compares with the sessions: what
// they have is newer.
func TestHandOver_FurthestCopyReplacesASilentSource(t *testing.T) {
	for name, how := range map[string]func(*crashed){
		"dead": func(s *crashed) { s.net.Kill(s.old.id.Name) },
		"silent": func(s *crashed) {
			s.old.finish = func() (*wirev1.FinishedSlot, error) {
				time.Sleep(time.Second)
				return nil, wire.Errorf(wire.CodeUnavailable, "too late")
			}
		},
		"finished, its feed is too slow, and no holder has the rest": func(s *crashed) {
			s.old.finish = func() (*wirev1.FinishedSlot, error) {
				return &wirev1.FinishedSlot{Access: wirev1.Access_ACCESS_ACCEPT, SourceEpoch: wire.EpochOut(s.from), Position: 9}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				s := caughtUp(t, c)
				s.alive.put(pub(s.id, "r2", 1, "new"))
				s.c1.collect = func(*wirev1.CollectRequest) ([]*wirev1.ReplicateEvent, error) {
					time.Sleep(100 * time.Millisecond) // the sessions would answer sooner
					return []*wirev1.ReplicateEvent{whole(s.from, 7, copyOf(s.lost.id, pub(s.id, "r1", 3, "last")), copyOf(s.alive.id, pub(s.id, "r3", 1, "withdrawn")))}, nil
				}
				how(s)
				c.switchTo(0, s.b.id)
				if name != "dead" {
					eventually(t, 100*time.Millisecond, "the source is asked", func() bool { return s.old.finished() > 0 })
				}
				s.lost.kill()
				c.evict("session-1")
				c.evict("data-1")
				eventually(t, 2*time.Second, "serving", s.serves)
				assert.Equal(t, []string{"last", "new"}, s.values(t))
			})
		})
	}
}

// A source that finished has nothing newer than the position at which it did. So a
// successor that took the rest from another holder waits for nothing more: not for
// the source's feed, and not for the answer of a session that was lost.
func TestHandOver_HolderCompletesAFinishedSourcesCopy(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s := caughtUp(t, c)
		s.old.finish = func() (*wirev1.FinishedSlot, error) {
			return &wirev1.FinishedSlot{Access: wirev1.Access_ACCESS_ACCEPT, SourceEpoch: wire.EpochOut(s.from), Position: 7}, nil
		}
		s.c1.sends(whole(s.from, 7, copyOf(s.lost.id, pub(s.id, "r1", 3, "last")), copyOf(s.alive.id, pub(s.id, "r2", 1, "one"))))
		s.alive.put(pub(s.id, "r2", 1, "one"))
		s.lost.kill()
		c.evict("session-1")
		c.switchTo(0, s.b.id)
		eventually(t, 400*time.Millisecond, "serving", s.serves)
		assert.Equal(t, []string{"last", "one"}, s.values(t))
		assert.Equal(t, 1, s.old.finished(), "the source is not asked again")
	})
}

// collectFrom asks a node as the leader of slot 0 at an epoch does.
func (c *cluster) collectFrom(n *node, epoch, copyEpoch conclave.Epoch, position uint64) (out []*wirev1.ReplicateEvent) {
	peers := wire.NewPeers(c.host("asker"), &wire.Interceptor{}, wire.PingTimeout)
	defer peers.Close()
	stream, err := peers.Data(n.Address()).Collect(c.t.Context(), connect.NewRequest(&wirev1.CollectRequest{
		Leader: wire.NodeOut(conclave.NodeID{Name: "asker", Incarnation: "x"}),
		Slots:  []*wirev1.HeldCopy{{LeaderEpoch: wire.EpochOut(epoch), CopyEpoch: wire.EpochOut(copyEpoch), Position: position}},
	}))
	require.NoError(c.t, err)
	for stream.Receive() {
		out = append(out, stream.Msg())
	}
	require.NoError(c.t, stream.Err())
	require.NoError(c.t, stream.Close())
	return out
}

// A follower sends its copy if that is further, follows its old leader no
// longer, and refuses an older epoch.
func TestCollect_FollowerSendsItsCopyAndFollowsNoLonger(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s := leaderAndSessionLost(t, c)
		next := conclave.Epoch{Term: s.from.Term, Seq: s.from.Seq + 50}
		older := conclave.Epoch{Term: s.from.Term, Seq: s.from.Seq - 1}
		assert.Empty(t, c.collectFrom(s.b, older, conclave.Epoch{}, 0), "an older epoch is refused")
		s.old.events <- part(s.from, 5, 6, copyOf(s.lost.id, pub(s.id, "r1", 2, "stored")))
		eventually(t, time.Second, "the feed continues", func() bool { return position(s.b, 0) == 6 })
		assert.Empty(t, c.collectFrom(s.b, next, s.from, 6), "not further")
		sent := c.collectFrom(s.b, next, s.from, 5)
		require.Len(t, sent, 1)
		assert.Equal(t, s.from, wire.EpochIn(sent[0].GetLeaderEpoch()))
		assert.EqualValues(t, 6, sent[0].GetPosition())
		assert.True(t, sent[0].GetSnapshotBegin() && sent[0].GetSnapshotEnd())
		require.Len(t, sent[0].GetCopies(), 1)
		assert.Equal(t, []string{"stored"}, sent[0].GetCopies()[0].GetPublisher().GetValues())
		s.old.events <- part(s.from, 6, 7, copyOf(s.lost.id, pub(s.id, "r1", 3, "too late")))
		never(t, time.Second, "the old feed was read further", func() bool { return position(s.b, 0) != 6 })
		assert.Equal(t, slot.CaughtUp, s.b.state(0), "the copy is still reported")
	})
}

// An old leader that does not know the new one yet stops serving.
func TestCollect_OldLeaderFinishes(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, s1, d := c.data("data-1"), c.session("session-1", true), dataIDIn(0, 1)
		c.make(1)
		eventually(t, time.Second, "serving", func() bool { return a.state(0) == slot.Serving })
		s1.store(pub(d, "r1", 1, "v1"))
		e := c.table().Slots[0].LeaderEpoch
		sent := c.collectFrom(a, conclave.Epoch{Term: e.Term, Seq: e.Seq + 50}, conclave.Epoch{}, 0)
		require.Len(t, sent, 1)
		require.Len(t, sent[0].GetCopies(), 1)
		_, access, err := s1.fetch(s1.at(a, e), d)
		require.NoError(t, err)
		assert.Equal(t, wirev1.Access_ACCESS_MOVED, access)
	})
}
