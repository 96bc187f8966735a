package zklatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector/zklatch"
)

// A watch is used until it has fired: neither waits that have ended nor connections that
// were broken leave watches behind.
func TestWatch_IsUsedUntilItHasFired(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		u := b.user()
		barrier := u.Barrier(b.path + "/barrier")
		require.NoError(t, barrier.Set(t.Context()))
		for range 10 {
			passed, err := barrier.TryWait(t.Context(), time.Second)
			require.NoError(t, err)
			assert.False(t, passed)
		}
		assert.Equal(t, 1, b.watching(), "ten waits")

		double := u.DoubleBarrier(b.path+"/double", 2)
		for range 10 {
			entered, err := double.TryEnter(t.Context(), time.Second)
			require.NoError(t, err)
			assert.False(t, entered)
		}
		assert.Equal(t, 1, b.watching(), "each give-up is a change, which fires the watch")

		value := u.SharedCount(b.path+"/count", 1)
		require.NoError(t, value.Start(t.Context()))
		defer value.Close()
		for range 10 {
			synctest.Wait()
			u.memory.Disconnect()
			synctest.Wait()
			u.memory.Reconnect()
		}
		synctest.Wait()
		assert.Equal(t, 2, b.watching(), "ten connections")

		require.NoError(t, barrier.Remove(t.Context()))
		require.NoError(t, barrier.Wait(t.Context()))
		require.NoError(t, barrier.Set(t.Context()))
		waited := make(chan error, 2)
		for range 2 { // by one handle
			go func() { waited <- barrier.Wait(b.limited()) }()
		}
		synctest.Wait()
		require.NoError(t, u.Barrier(b.path+"/barrier").Remove(t.Context()))
		require.NoError(t, next(b, waited))
		require.NoError(t, next(b, waited))
		assert.Equal(t, 1, b.watching())
	})
}

// A wait in a queue, for a single node, and a holder that can be asked set one watch,
// however often the connection breaks.
func TestWatch_OfAWaitOutlastsConnections(t *testing.T) {
	for name, wait := range map[string]func(b *bench, holder, waiter *user) (done chan error, release func()){
		"mutex": func(b *bench, holder, waiter *user) (chan error, func()) {
			held, done := holder.Mutex(b.path+"/mutex", nil), make(chan error, 1)
			require.NoError(b.t, held.Acquire(b.limited()))
			go func() { done <- waiter.Mutex(b.path+"/mutex", nil).Acquire(b.limited()) }()
			return done, func() { require.NoError(b.t, held.Release(b.limited())) }
		},
		"single node": func(b *bench, holder, waiter *user) (chan error, func()) {
			_, err := holder.Create(b.limited(), b.path, nil, zklatch.Persistent)
			require.NoError(b.t, err)
			held, done := holder.SingleNode(b.path+"/single"), make(chan error, 1)
			require.NoError(b.t, held.Acquire(b.limited()))
			go func() { done <- waiter.SingleNode(b.path + "/single").Acquire(b.limited()) }()
			return done, func() { require.NoError(b.t, held.Release(b.limited())) }
		},
		"revocation": func(b *bench, holder, waiter *user) (chan error, func()) {
			held, done := waiter.Mutex(b.path+"/asked", nil), make(chan error, 1)
			held.MakeRevocable(func(*zklatch.Mutex) { done <- nil })
			require.NoError(b.t, held.Acquire(b.limited()))
			return done, func() {
				paths, err := held.Participants(b.limited())
				require.NoError(b.t, err)
				require.NoError(b.t, holder.AttemptRevoke(b.limited(), paths[0].Path))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, b *bench) {
				holder, waiter := b.user(), b.user()
				done, release := wait(b, holder, waiter)
				for range 10 {
					synctest.Wait()
					waiter.memory.Disconnect()
					synctest.Wait()
					waiter.memory.Reconnect()
				}
				synctest.Wait()
				assert.Equal(t, 1, b.watching())
				release()
				require.NoError(t, next(b, done))
			})
		})
	}
}

// slow is a Tree whose next Set is executed by late, after its caller has given up.
type slow struct {
	zklatch.Tree
	late func() error
}

func (s *slow) Set(ctx context.Context, path string, data []byte, version int32) (zklatch.Stat, error) {
	if s.late != nil {
		return s.Tree.Set(ctx, path, data, version)
	}
	s.late = func() error {
		_, err := s.Tree.Set(context.WithoutCancel(ctx), path, data, version)
		return err
	}
	<-ctx.Done()
	return zklatch.Stat{}, ctx.Err()
}
