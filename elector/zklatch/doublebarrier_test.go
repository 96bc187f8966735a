package zklatch_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector/zklatch"
	"conclave/elector/zklatch/memtree"
)

// member returns a member of a double barrier, with its client.
func (b *bench) member(n int) (*zklatch.DoubleBarrier, *user) {
	b.t.Helper()
	u := b.user()
	return u.DoubleBarrier(b.path+"/double", n), u
}

// entering lets a member enter in the background, and waits until it is a member.
func (b *bench) entering(d *zklatch.DoubleBarrier, look *user, members int) <-chan error {
	b.t.Helper()
	entered := make(chan error, 1)
	go func() { entered <- d.Enter(b.t.Context()) }()
	b.until("it to wait", func() bool { return len(b.names(look, "/double")) == members })
	return entered
}

// Ours, after Curator: Enter waits for n members, Leave until all have left, in round
// after round.
func TestDoubleBarrier_RoundsBeginAndEndTogether(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		const members, rounds = 4, 5
		var begun, ended atomic.Int64
		var group sync.WaitGroup
		for range members {
			d, _ := b.member(members)
			group.Go(func() {
				for round := range rounds {
					begun.Add(1)
					if !assert.NoError(t, d.Enter(t.Context())) {
						return
					}
					assert.GreaterOrEqual(t, begun.Load(), int64(members*(round+1)), "all have come before one has entered")
					assert.LessOrEqual(t, ended.Load(), int64(members*(round+1)))
					ended.Add(1)
					if !assert.NoError(t, d.Leave(t.Context())) {
						return
					}
					assert.GreaterOrEqual(t, ended.Load(), int64(members*(round+1)), "all leave before one has left")
				}
			})
		}
		group.Wait()
		assert.Equal(t, int64(members*rounds), ended.Load())
		assert.Empty(t, b.names(b.user(), "/double"), "no member's node is left")
	})
}

func TestDoubleBarrier_TimeLimits(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		first, u := b.member(2)
		second, _ := b.member(2)
		for i, d := range []*zklatch.DoubleBarrier{first, second} {
			entered, err := d.TryEnter(t.Context(), 200*time.Millisecond)
			require.NoError(t, err)
			assert.False(t, entered, "member %d: one that has given up is not counted", i)
			b.until("its node to go", func() bool { return len(b.names(u, "/double")) == 0 })
			assert.ErrorIs(t, d.Leave(t.Context()), zklatch.ErrNotEntered)
		}
		entered := b.entering(first, u, 1)
		got, err := second.TryEnter(t.Context(), 5*time.Second)
		require.NoError(t, err)
		assert.True(t, got)
		require.NoError(t, <-entered)
		assert.ErrorIs(t, second.Enter(t.Context()), zklatch.ErrEntered)

		third, _ := b.member(2)
		got, err = third.TryEnter(t.Context(), 5*time.Second)
		require.NoError(t, err)
		assert.True(t, got, "the number is a threshold: it joins the open round")

		left, err := first.TryLeave(t.Context(), 200*time.Millisecond)
		require.NoError(t, err)
		assert.False(t, left, "two are inside")
		done := make(chan error, 1)
		go func() { done <- third.Leave(t.Context()) }()
		b.until("one to be inside", func() bool { return len(b.names(u, "/double")) == 1 })
		left, err = second.TryLeave(t.Context(), 5*time.Second)
		require.NoError(t, err)
		assert.True(t, left, "the others have left")
		require.NoError(t, <-done)
	})
}

// A member whose session ends is counted neither among those that come nor among those
// that are inside.
func TestDoubleBarrier_SessionsThatEnd(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		look := b.user()
		lost, u := b.member(2)
		failed := b.entering(lost, look, 1)
		u.bye()
		require.Error(t, <-failed)
		b.until("its node to go", func() bool { return len(b.names(look, "/double")) == 0 })
		first, _ := b.member(2)
		entered, err := first.TryEnter(t.Context(), 200*time.Millisecond)
		require.NoError(t, err)
		assert.False(t, entered)

		second, u := b.member(2)
		waiting := b.entering(first, look, 1)
		require.NoError(t, second.Enter(t.Context()))
		require.NoError(t, <-waiting)
		left := make(chan error, 1)
		go func() { left <- first.Leave(t.Context()) }()
		b.until("it to leave", func() bool { return len(b.names(look, "/double")) == 1 })
		u.bye()
		require.NoError(t, <-left)
	})
	inMemory(t, func(t *testing.T, b *bench) { // a waiting member comes again with its next session
		first, u := b.member(2)
		waiting := b.entering(first, u, 1)
		before := b.names(u, "/double")
		session, _ := u.Session()
		b.server.Expire(session.ID)
		b.until("a new node", func() bool {
			now := b.names(u, "/double")
			return len(now) == 1 && now[0] != before[0]
		})
		second, _ := b.member(2)
		require.NoError(t, second.Enter(t.Context()))
		require.NoError(t, <-waiting)
	})
}

// A member whose session ended inside has not left with the others.
func TestDoubleBarrier_LeaveAfterTheSessionHasEnded(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		look := b.user()
		first, u := b.member(2)
		waiting := b.entering(first, look, 1)
		second, _ := b.member(2)
		require.NoError(t, second.Enter(t.Context()))
		require.NoError(t, <-waiting)
		session, _ := u.Session()
		b.server.Expire(session.ID)
		require.NoError(t, second.Leave(t.Context()))
		require.ErrorIs(t, first.Leave(t.Context()), zklatch.ErrNoNode)
	})
}

// Lost answers neither add a member nor lose one.
func TestDoubleBarrier_LostAnswers(t *testing.T) {
	for _, op := range []memtree.Op{memtree.Create, memtree.Get, memtree.Set, memtree.Children, memtree.Delete} {
		t.Run(string(op), func(t *testing.T) {
			inMemory(t, func(t *testing.T, b *bench) {
				members := make([]*zklatch.DoubleBarrier, 2)
				for i := range members {
					members[i], _ = b.member(2)
				}
				for range 3 {
					b.server.LoseReply(op, "/double")
				}
				var group sync.WaitGroup
				for _, d := range members {
					group.Go(func() {
						assert.NoError(t, d.Enter(t.Context()))
						assert.NoError(t, d.Leave(t.Context()))
					})
				}
				group.Wait()
				b.until("the answers to be lost", func() bool { return b.server.Faults() == 0 })
				u := b.user()
				b.until("no node to be left", func() bool { return len(b.names(u, "/double")) == 0 })
			})
		})
	}
	inMemory(t, func(t *testing.T, b *bench) {
		d, u := b.member(1)
		_, err := u.Create(t.Context(), "/test", nil, zklatch.Persistent)
		require.NoError(t, err)
		_, err = u.Create(t.Context(), "/test/double", []byte("a"), zklatch.Persistent)
		require.NoError(t, err)
		assert.ErrorContains(t, d.Enter(t.Context()), fmt.Sprintf("%s is no barrier", "/test/double"))
	})
}
