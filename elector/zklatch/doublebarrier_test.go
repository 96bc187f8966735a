package zklatch_test

import (
	"context"
	"errors"
	"fmt"
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
	go func() { entered <- d.Enter(b.limited()) }()
	b.until("it to wait", func() bool { return len(b.names(look, "/double")) == members })
	return entered
}

// Ours, after Curator: Enter waits for n members, Leave until all have left, in round
// after round.
func TestDoubleBarrier_RoundsBeginAndEndTogether(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		const members, rounds = 4, 5
		var begun, ended atomic.Int64
		var all []func(context.Context) error
		for range members {
			d, _ := b.member(members)
			all = append(all, func(ctx context.Context) error {
				for round := range rounds {
					begun.Add(1)
					if err := d.Enter(ctx); err != nil {
						return err
					}
					assert.GreaterOrEqual(t, begun.Load(), int64(members*(round+1)), "all have come before one has entered")
					assert.LessOrEqual(t, ended.Load(), int64(members*(round+1)))
					ended.Add(1)
					if err := d.Leave(ctx); err != nil {
						return err
					}
					assert.GreaterOrEqual(t, ended.Load(), int64(members*(round+1)), "all leave before one has left")
				}
				return nil
			})
		}
		b.together(all...)
		assert.Equal(t, int64(members*rounds), ended.Load())
		assert.Empty(t, b.names(b.user(), "/double"), "no member's node is left")
	})
}

func TestDoubleBarrier_TimeLimits(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		first, u := b.member(2)
		second, _ := b.member(2)
		for i, d := range []*zklatch.DoubleBarrier{first, second} {
			entered, err := d.TryEnter(b.limited(), 200*time.Millisecond)
			require.NoError(t, err)
			assert.False(t, entered, "member %d: one that has given up is not counted", i)
			b.until("its node to go", func() bool { return len(b.names(u, "/double")) == 0 })
			assert.ErrorIs(t, d.Leave(b.limited()), zklatch.ErrNotEntered)
		}
		entered := b.entering(first, u, 1)
		got, err := second.TryEnter(b.limited(), 5*time.Second)
		require.NoError(t, err)
		assert.True(t, got)
		require.NoError(t, next(b, entered))
		assert.ErrorIs(t, second.Enter(b.limited()), zklatch.ErrEntered)

		third, _ := b.member(2)
		got, err = third.TryEnter(b.limited(), 5*time.Second)
		require.NoError(t, err)
		assert.True(t, got, "the number is a threshold: it joins the open round")

		left, err := first.TryLeave(b.limited(), 200*time.Millisecond)
		require.NoError(t, err)
		assert.False(t, left, "two are inside")
		done := make(chan error, 1)
		go func() { done <- third.Leave(b.limited()) }()
		b.until("one to be inside", func() bool { return len(b.names(u, "/double")) == 1 })
		left, err = second.TryLeave(b.limited(), 5*time.Second)
		require.NoError(t, err)
		assert.True(t, left, "the others have left")
		require.NoError(t, next(b, done))
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
		require.Error(t, next(b, failed))
		b.until("its node to go", func() bool { return len(b.names(look, "/double")) == 0 })
		first, _ := b.member(2)
		entered, err := first.TryEnter(b.limited(), 200*time.Millisecond)
		require.NoError(t, err)
		assert.False(t, entered)

		second, u := b.member(2)
		waiting := b.entering(first, look, 1)
		require.NoError(t, second.Enter(b.limited()))
		require.NoError(t, next(b, waiting))
		left := make(chan error, 1)
		go func() { left <- first.Leave(b.limited()) }()
		b.until("it to leave", func() bool { return len(b.names(look, "/double")) == 1 })
		u.bye()
		require.NoError(t, next(b, left))
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
		require.NoError(t, second.Enter(b.limited()))
		require.NoError(t, next(b, waiting))
	})
}

// A member whose session ended inside has not left with the others.
func TestDoubleBarrier_LeaveAfterTheSessionHasEnded(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		look := b.user()
		first, u := b.member(2)
		waiting := b.entering(first, look, 1)
		second, _ := b.member(2)
		require.NoError(t, second.Enter(b.limited()))
		require.NoError(t, next(b, waiting))
		session, _ := u.Session()
		b.server.Expire(session.ID)
		require.NoError(t, second.Leave(b.limited()))
		require.ErrorIs(t, first.Leave(b.limited()), zklatch.ErrPlaceLost)
	})
}

// Lost answers neither add a member nor lose one.
func TestDoubleBarrier_LostAnswers(t *testing.T) {
	for _, op := range []memtree.Op{memtree.Create, memtree.Get, memtree.Set, memtree.Children, memtree.Delete} {
		t.Run(string(op), func(t *testing.T) {
			inMemory(t, func(t *testing.T, b *bench) {
				var members []func(context.Context) error
				for range 2 {
					d, _ := b.member(2)
					members = append(members, func(ctx context.Context) error {
						return errors.Join(d.Enter(ctx), d.Leave(ctx))
					})
				}
				for range 3 {
					b.server.LoseReply(op, "/double")
				}
				b.together(members...)
				b.until("the answers to be lost", func() bool { return b.server.Faults() == 0 })
				u := b.user()
				b.until("no node to be left", func() bool { return len(b.names(u, "/double")) == 0 })
			})
		})
	}
	inMemory(t, func(t *testing.T, b *bench) {
		d, u := b.member(1)
		_, err := u.Create(b.limited(), "/test", nil, zklatch.Persistent)
		require.NoError(t, err)
		_, err = u.Create(b.limited(), "/test/double", []byte("a"), zklatch.Persistent)
		require.NoError(t, err)
		assert.ErrorContains(t, d.Enter(b.limited()), fmt.Sprintf("%s is no barrier", "/test/double"))
	})
}

// A joining write that is executed after its member has given up does not count it.
func TestDoubleBarrier_LateJoinOfAMemberThatHasGivenUp(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		first, u := b.member(2)
		entered, err := first.TryEnter(b.limited(), time.Second)
		require.NoError(t, err)
		assert.False(t, entered)
		tree := &slow{Tree: u.Tree}
		entered, err = b.client(tree, nil).DoubleBarrier(b.path+"/double", 2).TryEnter(b.limited(), time.Second)
		require.NoError(t, err)
		assert.False(t, entered)
		assert.ErrorIs(t, tree.late(), zklatch.ErrBadVersion)
		second, _ := b.member(2)
		entered, err = second.TryEnter(b.limited(), time.Second)
		require.NoError(t, err)
		assert.False(t, entered)
	})
}

// A member that cannot give up, because the servers cannot be reached, is reported.
func TestDoubleBarrier_FailedGiveUpIsReported(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		d, u := b.member(2)
		time.AfterFunc(time.Second, u.memory.Disconnect)
		began := time.Now()
		entered, err := d.TryEnter(b.limited(), 2*time.Second)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "may still be counted")
		assert.False(t, entered)
		assert.Equal(t, 3*time.Second, time.Since(began), "the limit, and a second")
		u.memory.Reconnect()
		b.until("its node to go", func() bool { return len(b.names(b.user(), "/double")) == 0 })
	})
}
