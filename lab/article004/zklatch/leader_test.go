package zklatch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/lab/article004/zklatch"
	"conclave/testbed/simulated/simnet"
)

// One test per statement of article 004 about leaders.

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// watching returns how many watches are set.
func (b *bench) watching() int {
	if b.server == nil {
		return b.real.Watches(b.t)
	}
	return b.server.Watches()
}

// candidate is a latch with a log of its notifications.
type candidate struct {
	*zklatch.Latch
	user *user
	log  *log
}

func (b *bench) candidate(id string) candidate {
	b.t.Helper()
	c := candidate{user: b.user(), log: &log{}}
	c.Latch = c.user.Latch(b.path+"/leader", id)
	c.Listen(zklatch.Listener{
		IsLeader:  func() { c.log.say("is leader") },
		NotLeader: func() { c.log.say("not leader") },
	})
	require.NoError(b.t, c.Start())
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		c.Close(ctx, zklatch.Silent)
	})
	return c
}

// candidates starts candidates one after the other, so that their order is known.
func (b *bench) candidates(n int) (list []candidate) {
	for i := range n {
		c := b.candidate(fmt.Sprint("c", i+1))
		b.until("it to stand in the line", func() bool { return len(b.names(c.user, "/leader")) == i+1 })
		list = append(list, c)
	}
	return list
}

// Article 004: every node has the same chance; there is one; others notice its loss
// and elect again.
func TestArticleThereIsOneLeaderAndItsLossIsNoticed(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		list := b.candidates(4)
		for i, c := range list { // kill each in turn
			require.NoError(t, c.Await(b.limited()))
			for _, other := range list[i+1:] {
				assert.False(t, other.HasLeadership(), "there is one leader")
			}
			participants, err := list[3].user.Participants(b.limited(), b.path+"/leader")
			require.NoError(t, err)
			assert.Equal(t, fmt.Sprint("c", i+1), string(participants[0].Data), "the first in the queue leads first")
			if i < 3 {
				c.user.cable.Cut() // as the kernel of a killed process does
			}
		}
	})
}

// Article 004: start, close (silent, or notifying the leader's listener).
func TestArticleCloseIsSilentOrNotifies(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		for _, ending := range []zklatch.Ending{zklatch.Silent, zklatch.Notifying} {
			c := b.candidate("c")
			assert.ErrorIs(t, c.Start(), zklatch.ErrStarted)
			require.NoError(t, c.Await(b.limited()))
			b.until("the listener", func() bool { return len(c.log.all()) == 1 })
			c.Close(b.limited(), ending)
			assert.False(t, c.HasLeadership())
			assert.ErrorIs(t, c.Await(b.limited()), zklatch.ErrClosed)
			want := []string{"is leader"}
			if ending == zklatch.Notifying {
				want = append(want, "not leader")
			}
			assert.Equal(t, want, c.log.all())
			assert.Empty(t, b.names(c.user, "/leader"), "its node is deleted")
		}
	})
}

// Article 004: await with a limit, hasLeadership.
func TestArticleAwaitWithALimit(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		list := b.candidates(2)
		require.NoError(t, list[0].Await(b.limited()))
		assert.True(t, list[0].HasLeadership())
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, list[1].Await(ctx), context.DeadlineExceeded)
		assert.False(t, list[1].HasLeadership())
		list[0].Close(b.limited(), zklatch.Silent)
		require.NoError(t, list[1].Await(b.limited()))
	})
}

// Closing the Client ends Await of all its latches.
func TestLatch_AwaitEndsWithClient(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		list := b.candidates(2)
		require.NoError(t, list[0].Await(b.limited()))
		awaited := make(chan error, 1)
		go func() { awaited <- list[1].Await(b.limited()) }()
		synctest.Wait()
		list[1].user.Close()
		assert.ErrorIs(t, next(b, awaited), zklatch.ErrClosed)
		assert.ErrorIs(t, list[1].Await(b.limited()), zklatch.ErrClosed)
		list[0].user.Close()
		assert.ErrorIs(t, list[0].Await(b.limited()), zklatch.ErrClosed, "also of the leader")
	})
}

// A leader that is cut off stops by its own clock before another one can begin. It
// continues at the same place if its session has not ended.
//
// Article 004: listeners isLeader and notLeader; a reset on reconnect.
func TestArticleAReconnectComparesTheOwner(t *testing.T) {
	t.Run("the session has lasted", func(t *testing.T) {
		everywhere(t, func(t *testing.T, b *bench) {
			list := b.candidates(2)
			require.NoError(t, list[0].Await(b.limited()))
			before := sorted(b.names(list[1].user, "/leader"))
			mend := list[0].user.cut()
			b.until("the leader to stop", func() bool { return len(list[0].log.all()) == 2 })
			mend()
			b.until("it to lead again", func() bool { return list[0].HasLeadership() && len(list[0].log.all()) == 3 })
			assert.Equal(t, []string{"is leader", "not leader", "is leader"}, list[0].log.all())
			assert.Equal(t, before, sorted(b.names(list[1].user, "/leader")), "with the same node: its owner is this session")
			assert.Empty(t, list[1].log.all())
		})
	})
	t.Run("the session has ended", func(t *testing.T) {
		everywhere(t, func(t *testing.T, b *bench) {
			list := b.candidates(2)
			require.NoError(t, list[0].Await(b.limited()))
			first, err := list[0].user.Participants(b.limited(), b.path+"/leader")
			require.NoError(t, err)
			node := strings.TrimPrefix(first[0].Path, b.path+"/leader/")
			mend := list[0].user.cut()
			require.NoError(t, list[1].Await(b.limited()))
			assert.False(t, list[0].HasLeadership(), "the old leader has stopped before the new one could begin")
			mend()
			b.until("it to stand behind", func() bool { return len(b.names(list[1].user, "/leader")) == 2 })
			assert.Equal(t, []string{"is leader", "not leader"}, list[0].log.all())
			assert.NotContains(t, b.names(list[1].user, "/leader"), node, "with a new node")
			participants, err := list[1].user.Participants(b.limited(), b.path+"/leader")
			require.NoError(t, err)
			assert.Equal(t, "c2", string(participants[0].Data))
		})
	})
}

// cut breaks the connection until mend is called.
func (u *user) cut() (mend func()) {
	u.cable.Cut()
	return u.cable.Mend
}

// A node of a session that has ended does not count, although it still exists and has
// the latch's id; and a leader whose node is deleted by hand stops leading.
//
// Article 004: a reset on reconnect, compared with the owner as its later versions
// do.
func TestArticleANodeOfAnOlderSessionDoesNotCount(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		// A latch that asks again and again must not stop the clock of the bubble, and with
		// it every time limit.
		b.network.Shape("nodes", "zk", simnet.Shape{Latency: time.Millisecond})
		u := b.user()
		c := candidate{Latch: u.Latch(b.path+"/leader", "c"), user: u, log: &log{}}
		c.Listen(zklatch.Listener{IsLeader: func() { c.log.say("is leader") }, NotLeader: func() { c.log.say("not leader") }})
		require.NoError(t, c.Start())
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		defer c.Close(ctx, zklatch.Silent)
		require.NoError(t, c.Await(ctx))
		other := b.user()
		node := b.path + "/leader/" + b.names(other, "/leader")[0]
		session, _ := c.user.Session()
		c.user.cable.Cut()
		b.server.Expire(session.ID)
		_, err := other.Create(b.limited(), node, []byte("c"), zk.FlagEphemeral) // the same name, but another session
		require.NoError(t, err)
		c.user.cable.Mend()
		synctest.Wait() // until now it may not have noticed, and still lead
		require.NoError(t, c.Await(ctx))
		b.until("the impostor to be gone", func() bool {
			names := b.names(other, "/leader")
			return len(names) == 1 && b.path+"/leader/"+names[0] != node
		})

		require.NoError(t, other.Delete(b.limited(), b.path+"/leader/"+b.names(other, "/leader")[0], zklatch.AnyVersion))
		b.until("a new node", func() bool { return len(c.log.all()) == 5 && c.HasLeadership() })
		assert.Equal(t, []string{"is leader", "not leader", "is leader", "not leader", "is leader"}, c.log.all())
	})
}

// The connection stays open but nothing is received, so that there is no event. The
// leader's own clock ends its leadership before the server's does.
//
// Article 004: others notice its loss and elect again, and the old leader stops
// before.
func TestArticleASilentServerEndsTheLeadershipByOurClock(t *testing.T) {
	play := func(t *testing.T, b *bench) {
		list := b.candidates(2)
		require.NoError(t, list[0].Await(b.limited()))
		release := list[0].user.cable.Stall()
		defer release()
		began := time.Now()
		b.until("the leader to stop", func() bool { return !list[0].HasLeadership() })
		stopped := time.Since(began)
		require.NoError(t, list[1].Await(b.limited()))
		assert.Less(t, stopped, time.Since(began))
		assert.LessOrEqual(t, stopped, timeout)
		t.Logf("stopped after %v, followed after %v", stopped, time.Since(began))
	}
	t.Run("wire", func(t *testing.T) { wire(t, play) })
	t.Run("zookeeper", func(t *testing.T) { play(t, onZooKeeper(t)) })
}

// turn is a selector whose leaderships the test ends.
type turn struct {
	*zklatch.Selector
	user   *user
	began  chan context.Context
	enough chan struct{}
}

func (b *bench) selector(id string, requeue bool) turn {
	s := turn{user: b.user(), began: make(chan context.Context, 10), enough: make(chan struct{})}
	s.Selector = s.user.Selector(b.path+"/selector", zklatch.SelectorConfig{ID: id, AutoRequeue: requeue,
		TakeLeadership: func(ctx context.Context) error {
			s.began <- ctx
			select {
			case <-s.enough:
			case <-ctx.Done():
			}
			return nil
		}})
	require.NoError(b.t, s.Start())
	b.t.Cleanup(s.Close)
	b.until("it to stand in the line", func() bool {
		list, err := s.user.Participants(b.limited(), b.path+"/selector")
		return err == nil && slices.ContainsFunc(list, func(p zklatch.Participant) bool { return string(p.Data) == id })
	})
	return s
}

// Article 004: takeLeadership runs while leading and gives up on return; autoRequeue
// stands again; it is built on the mutex.
func TestArticleASelectorLeadsByTurns(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		once, again := b.selector("once", false), b.selector("again", true)
		assert.ErrorIs(t, once.Start(), zklatch.ErrStarted)
		next(b, once.began)
		assert.True(t, once.HasLeadership())
		assert.False(t, again.HasLeadership())
		got, err := b.user().Mutex(b.path+"/selector", nil).TryAcquire(b.limited(), 100*time.Millisecond)
		require.NoError(t, err)
		assert.False(t, got, "a selector is built on the mutex at the same path")
		assert.False(t, once.Requeue(), "it is in the queue already")

		once.enough <- struct{}{} // returning gives up the leadership
		next(b, again.began)
		assert.False(t, once.HasLeadership())
		again.enough <- struct{}{}
		next(b, again.began) // AutoRequeue, without another candidate

		b.until("the first one's turn to be over", once.Requeue)
		b.until("it to wait", func() bool { list, _ := once.user.Participants(b.limited(), b.path+"/selector"); return len(list) == 2 })
		again.enough <- struct{}{}
		next(b, once.began)
		once.Close()
		next(b, again.began)
	})
}

// The context of a leader that is cut off ends at once, and it gives up the leadership
// although its session continues.
//
// Article 004: LeaderSelectorListenerAdapter throws CancelLeadershipException when the
// connection is suspended or lost, which interrupts takeLeadership.
func TestArticleASelectorThatIsCutOffIsInterrupted(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		s, other := b.selector("s", true), b.selector("other", false)
		ctx := next(b, s.began)
		session, _ := s.user.Session()
		s.user.cable.Cut()
		synctest.Wait()
		assert.ErrorIs(t, context.Cause(ctx), zklatch.ErrSuspended)
		assert.False(t, s.HasLeadership())
		s.user.cable.Mend()
		next(b, other.began)
		now, _ := s.user.Session()
		assert.Equal(t, session.ID, now.ID, "it has given up the leadership, not lost it")
		close(other.enough)

		next(b, s.began)
		s.user.cable.Cut()
		time.Sleep(2 * timeout) // the session ends
		s.user.cable.Mend()
		next(b, s.began)
		assert.True(t, s.HasLeadership())
	})
}
