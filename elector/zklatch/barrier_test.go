package zklatch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Ours, after Curator: clients wait until the barrier is removed, or for a time.
func TestBarrier_WaitsUntilItIsRemoved(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		setter := b.user()
		barrier := setter.Barrier(b.path + "/deep/barrier")
		require.NoError(t, barrier.Wait(b.limited()), "there is none")
		require.NoError(t, barrier.Remove(b.limited()))
		require.NoError(t, barrier.Set(b.limited()))
		require.NoError(t, barrier.Set(b.limited()), "it is set already")
		passed, err := b.user().Barrier(b.path+"/deep/barrier").TryWait(b.limited(), 200*time.Millisecond)
		require.NoError(t, err)
		assert.False(t, passed)

		setter.bye()
		waited := make(chan error, 3)
		for range 3 {
			u := b.user()
			b.until("a connection", func() bool { s, _ := u.Session(); return s.Connected() })
			go func() { waited <- u.Barrier(b.path + "/deep/barrier").Wait(b.limited()) }()
		}
		b.until("all to wait", func() bool { return b.watching() >= 3 })
		assert.Empty(t, waited, "the barrier does not end with the session of its setter")
		require.NoError(t, b.user().Barrier(b.path+"/deep/barrier").Remove(b.limited()))
		for range 3 {
			require.NoError(t, next(b, waited))
		}
	})
}

func TestBarrier_SetAgain(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		u := b.user()
		barrier := u.Barrier(b.path + "/barrier")
		require.NoError(t, barrier.Set(b.limited()))
		waited := make(chan error, 1)
		waiter := b.user()
		go func() { waited <- waiter.Barrier(b.path + "/barrier").Wait(b.limited()) }()
		b.until("it to wait", func() bool { return b.watching() == 1 })
		waiter.memory.Disconnect() // it learns of nothing until the barrier is set again
		require.NoError(t, barrier.Remove(b.limited()))
		require.NoError(t, barrier.Set(b.limited()))
		waiter.memory.Reconnect()
		require.NoError(t, next(b, waited), "the barrier that it waited for was removed")
	})
}

func TestBarrier_LostAnswers(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		barrier := b.user().Barrier(b.path + "/barrier")
		b.server.LoseReply("create", "/barrier")
		require.NoError(t, barrier.Set(b.limited()))
		b.server.LoseReply("delete", "/barrier")
		require.NoError(t, barrier.Remove(b.limited()))
		assert.Zero(t, b.server.Faults())
	})
}
