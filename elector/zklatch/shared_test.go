package zklatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector/zklatch"
)

// assertValue checks the newest value that a handle knows, without its transaction.
func assertValue[T any](t *testing.T, value T, version int32, got zklatch.Versioned[T], why ...any) {
	t.Helper()
	assert.Equal(t, value, got.Value, why...)
	assert.Equal(t, version, got.Version, why...)
}

// Ours, after Curator: a set with an old version changes nothing and learns the newest.
func TestSharedCount_TrySetNamesTheVersion(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		open := func(seed int32) *zklatch.Shared[int32] {
			s := b.user().SharedCount(b.path+"/deep/count", seed)
			require.NoError(t, s.Start(t.Context()))
			t.Cleanup(s.Close)
			return s
		}
		first, second := open(7), open(99)
		assertValue(t, 7, 0, first.Value())
		assert.Equal(t, first.Value(), second.Value(), "the seed of the first")
		assert.ErrorIs(t, first.Start(t.Context()), zklatch.ErrStarted)

		old := second.Value()
		set, err := first.TrySet(t.Context(), first.Value(), -8)
		require.NoError(t, err)
		assert.True(t, set)
		assertValue(t, -8, 1, first.Value(), "at once")
		set, err = second.TrySet(t.Context(), old, 9)
		require.NoError(t, err)
		assert.False(t, set, "it has changed meanwhile")
		assertValue(t, -8, 1, second.Value(), "the newest was read")
		set, err = second.TrySet(t.Context(), second.Value(), 9)
		require.NoError(t, err)
		assert.True(t, set)
		require.NoError(t, first.Set(t.Context(), 10), "whatever it is")
		b.until("the other to know", func() bool { return second.Value().Version == 3 })
		assertValue(t, 10, 3, second.Value())

		u := b.user()
		data, _, err := u.Get(t.Context(), b.path+"/deep/count")
		require.NoError(t, err)
		assert.Equal(t, []byte{0, 0, 0, 10}, data, "as Curator stores it")
		_, err = u.Set(t.Context(), b.path+"/deep/count", []byte("ten"), zklatch.AnyVersion)
		require.NoError(t, err)
		assert.ErrorContains(t, u.SharedCount(b.path+"/deep/count", 0).Start(t.Context()), "3 bytes are no count")
		assert.Equal(t, int32(10), second.Value().Value, "what cannot be read is ignored")
		_, err = second.TrySet(t.Context(), zklatch.Versioned[int32]{Version: zklatch.AnyVersion}, 11)
		assert.ErrorContains(t, err, "version -1 is no node's")
	})
}

// Listeners get each newer value that was found, in order, and at last the newest.
func TestSharedValue_NotifiesListeners(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		var seen log
		s := b.user().SharedValue(b.path+"/value", []byte("seed"))
		s.Listen(func(v zklatch.Versioned[[]byte]) { seen.say(fmt.Sprintf("%s %d", v.Value, v.Version)) })
		require.NoError(t, s.Start(t.Context()))
		defer s.Close()
		other := b.user().SharedValue(b.path+"/value", nil)
		require.NoError(t, other.Start(t.Context()))
		defer other.Close()
		for i, set := range []*zklatch.Shared[[]byte]{other, s, other} {
			require.NoError(t, set.Set(t.Context(), fmt.Append(nil, "v", i)))
			b.until("the listener to be called", func() bool { return len(seen.all()) == i+1 })
		}
		assert.Equal(t, []string{"v0 1", "v1 2", "v2 3"}, seen.all(), "its own values too, but not the seed")
		assertValue(t, []byte("v2"), 3, s.Value())
		s.Close()
		require.NoError(t, other.Set(t.Context(), []byte("late")))
		assert.Len(t, seen.all(), 3, "not after Close")
	})
}

// What changes while there is no connection is found afterwards; a deleted node begins
// again with the seed.
func TestSharedValue_Faults(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		u, other := b.user(), b.user()
		s := u.SharedCount(b.path+"/count", 1)
		require.NoError(t, s.Start(t.Context()))
		defer s.Close()
		var seen log
		s.Listen(func(v zklatch.Versioned[int32]) { seen.say(fmt.Sprint(v.Value)) })
		b.until("it to watch", func() bool { return b.watching() == 1 })
		u.memory.Disconnect()
		second := other.SharedCount(b.path+"/count", 1)
		require.NoError(t, second.Start(t.Context()))
		require.NoError(t, second.Set(t.Context(), 2))
		require.NoError(t, second.Set(t.Context(), 3))
		second.Close()
		time.AfterFunc(2*timeout, u.memory.Reconnect) // with a new session
		b.until("the newest", func() bool { return s.Value().Value == 3 })
		require.NoError(t, other.Delete(t.Context(), b.path+"/count", zklatch.AnyVersion))
		b.until("the seed", func() bool { return len(seen.all()) == 2 })
		assert.Equal(t, []string{"3", "1"}, seen.all())
		assertValue(t, 1, 0, s.Value())

		b.server.LoseReply("set", "/count")
		assert.ErrorIs(t, s.Set(t.Context(), 5), zklatch.ErrConnectionLost, "the outcome is unknown")
		b.until("it to be found", func() bool { return s.Value().Value == 5 })
	})
}

// A set changes nothing if the node was written after TrySet has read it, or deleted and
// created again, so that it has the same version.
func TestSharedCount_TrySetIsConditional(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		u := b.user()
		tree := &rival{Tree: u.Tree, data: []byte{0, 0, 0, 50}, onWrite: func() {}}
		s := b.client(tree, nil).SharedCount(b.path+"/count", 7)
		require.NoError(t, s.Start(t.Context()))
		defer s.Close()
		tree.left = 1
		set, err := s.TrySet(t.Context(), s.Value(), 8)
		require.NoError(t, err)
		assert.False(t, set, "it was written before")
		assertValue(t, 50, 1, s.Value())

		previous := s.Value()
		require.NoError(t, u.Delete(t.Context(), b.path+"/count", zklatch.AnyVersion))
		other := b.user().SharedCount(b.path+"/count", 60)
		require.NoError(t, other.Start(t.Context()))
		defer other.Close()
		require.NoError(t, other.Set(t.Context(), 61))
		assert.Equal(t, previous.Version, other.Value().Version)
		set, err = s.TrySet(t.Context(), previous, 62)
		require.NoError(t, err)
		assert.False(t, set, "it is another node")
		assertValue(t, 61, 1, s.Value(), "the newest was read")
		set, err = s.TrySet(t.Context(), s.Value(), 62)
		require.NoError(t, err)
		assert.True(t, set)
	})
}

// What a caller does with the bytes of a value does not change what the handle knows, or
// what other listeners get.
func TestSharedValue_ReturnsCopies(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		s := b.user().SharedValue(b.path+"/value", nil)
		var seen log
		for range 2 {
			s.Listen(func(v zklatch.Versioned[[]byte]) {
				seen.say(string(v.Value))
				v.Value[0] = '?'
			})
		}
		assert.Nil(t, s.Value().Value, "before Start")
		require.NoError(t, s.Start(t.Context()))
		defer s.Close()
		written := []byte("a")
		require.NoError(t, s.Set(t.Context(), written))
		written[0] = '?'
		s.Value().Value[0] = '?'
		b.until("the listeners to be called", func() bool { return len(seen.all()) == 2 })
		assert.Equal(t, []string{"a", "a"}, seen.all())
		assertValue(t, []byte("a"), 1, s.Value())
	})
}

// Close ends a Start that waits for a connection.
func TestShared_CloseEndsStart(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		u := b.user()
		u.memory.Disconnect()
		s := u.SharedCount(b.path+"/count", 1)
		started := make(chan error, 1)
		go func() { started <- s.Start(context.Background()) }()
		synctest.Wait()
		s.Close()
		assert.ErrorIs(t, next(b, started), zklatch.ErrClosed)
		assert.ErrorIs(t, s.Start(t.Context()), zklatch.ErrStarted)
	})
}

// The watch of a value goes on until Close, whatever the policy.
func TestShared_WatchesWhateverThePolicy(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		s := b.client(b.user().Tree, zklatch.RetryNTimes{}).SharedCount(b.path+"/count", 1)
		require.NoError(t, s.Start(t.Context()))
		defer s.Close()
		b.until("it to watch", func() bool { return b.watching() == 1 })
		other := b.user()
		for range 3 {
			b.server.DropRequest("get", "/count")
		}
		_, err := other.Set(t.Context(), b.path+"/count", []byte{0, 0, 0, 2}, zklatch.AnyVersion)
		require.NoError(t, err)
		b.until("the newest", func() bool { return s.Value().Value == 2 })
		assert.Zero(t, b.server.Faults())
	})
}
