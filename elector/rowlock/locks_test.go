package rowlock_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector/electortest"
	"conclave/elector/rowlock"
	conclavesql "conclave/sql"
)

// locksProcess is a process with the repaired locks.
type locksProcess struct {
	*rowlock.Locks
	db    *conclavesql.DB
	cable *electortest.Cable
	kill  func()
}

func (w *world) locks(t *testing.T, name string) *locksProcess {
	t.Helper()
	require.NoError(t, rowlock.Migrate(t.Context(), w.DB))
	cable := electortest.NewCable(w.Dial)
	db := w.Open(t, cable.Dial, time.Second)
	l, err := rowlock.NewLocks(rowlock.LocksConfig{
		DB: db, Owner: conclave.NodeID{Name: name, Incarnation: "1"}, Rand: rand.New(rand.NewPCG(1, uint64(len(name)))),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	k := &locksProcess{l, db, cable, sync.OnceFunc(func() { cancel(); <-ended })}
	t.Cleanup(k.kill)
	return k
}

func TestLock_HolderStopsBeforeTheNextBegins(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		holder, waiter := w.locks(t, "holder"), w.locks(t, "waiter")
		old, err := holder.Acquire(t.Context(), "k")
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		release := holder.cable.Stall() // the holder is cut off; its row remains
		k, err := waiter.Acquire(t.Context(), "k")
		require.NoError(t, err)
		assert.False(t, old.Held())
		<-old.Lost()
		assert.Greater(t, k.Token(), old.Token())
		release()
		assert.ErrorIs(t, old.Release(t.Context()), rowlock.ErrNotHeld)
		time.Sleep(time.Minute)
		assert.True(t, k.Held())
	})
}

func TestLock_LostAnswerToRefreshKeepsLock(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		holder := w.locks(t, "holder")
		k, err := holder.Acquire(t.Context(), "k")
		require.NoError(t, err)
		for range 5 {
			holder.cable.LoseReply("beat + 1")
			time.Sleep(7 * time.Second)
			assert.True(t, k.Held())
		}
		assert.Equal(t, 5, holder.cable.Lost())
	})
}

func TestAcquire_LostAnswerIsNotHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.locks(t, "p")
		l.cable.LoseReply("INSERT")
		_, err := l.Acquire(t.Context(), "k")
		require.ErrorIs(t, err, conclavesql.ErrUnavailable)
		k, err := l.Acquire(t.Context(), "k")
		require.NoError(t, err, "the process removes its own row")
		assert.True(t, k.Held())
		assert.Equal(t, uint64(2), k.Token(), "the first acquisition is not held")
	})
}

func TestLocks_KeysDoNotWaitForEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.locks(t, "p")
		began := time.Now()
		for _, key := range []string{"a", "b", "c"} {
			k, err := l.TryAcquire(t.Context(), key)
			require.NoError(t, err)
			assert.Equal(t, key, k.Key())
			defer k.Release(context.Background())
		}
		assert.Less(t, time.Since(began), time.Second)
		_, err := l.Acquire(t.Context(), "")
		assert.Error(t, err)
		_, err = l.TryAcquire(t.Context(), "")
		assert.Error(t, err)
	})
}

// If a row is deleted by hand, its holder notices at the next refresh.
func TestLock_LostWhenRowIsDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		k, err := w.locks(t, "holder").Acquire(t.Context(), "k")
		require.NoError(t, err)
		_, err = w.DB.Exec(t.Context(), "DELETE FROM row_lock")
		require.NoError(t, err)
		began := time.Now()
		<-k.Lost()
		assert.LessOrEqual(t, time.Since(began), 2100*time.Millisecond)
	})
}
