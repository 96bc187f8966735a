package rowlock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector/electortest"
	"conclave/lab/article001/rowlock"
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
		DB: db, Owner: conclave.NodeID{Name: name, Incarnation: "1"},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	k := &locksProcess{l, db, cable, sync.OnceFunc(func() { cancel(); <-ended })}
	t.Cleanup(k.kill)
	return k
}

// Repaired, the other order: the holder gives the lock up before its row is deleted. No
// second holder begins beside it; if the row cannot be deleted, the other processes wait
// for the lease, and this one removes its row when it acquires again.
func TestArticleRepairedReleaseGivesUpBeforeTheRowIsDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		holder, waiter := w.locks(t, "holder"), w.locks(t, "waiter")
		k, err := holder.Acquire(t.Context(), "k")
		require.NoError(t, err)
		var heldBefore bool
		holder.cable.Before("DELETE", func() { heldBefore = k.Held() })
		holder.cable.LoseReply("DELETE") // the row is gone, and the holder does not know
		require.Error(t, k.Release(t.Context()))
		assert.False(t, heldBefore)
		assert.ErrorIs(t, k.Release(t.Context()), rowlock.ErrNotHeld, "there is nothing to retry")

		k, err = holder.Acquire(t.Context(), "k")
		require.NoError(t, err)
		holder.cable.Cut()
		require.Error(t, k.Release(t.Context()))
		holder.cable.Mend()
		began := time.Now()
		k, err = waiter.Acquire(t.Context(), "k")
		require.NoError(t, err)
		assert.InDelta(t, 6, time.Since(began).Seconds(), 1, "the lease: the row is not refreshed")

		waiter.cable.Cut()
		require.Error(t, k.Release(t.Context()))
		waiter.cable.Mend()
		_, err = waiter.Acquire(timeout(t, time.Second), "k")
		assert.NoError(t, err, "its own row need not expire")
	})
}

// Repaired: a waiter deletes the expired row.
func TestArticleRepairedAWaiterCleansForADeadHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		holder, waiter := w.locks(t, "holder"), w.locks(t, "waiter")
		dead, err := holder.Acquire(t.Context(), "k")
		require.NoError(t, err)
		time.Sleep(time.Minute)
		holder.kill()
		began := time.Now()
		k, err := waiter.Acquire(t.Context(), "k")
		require.NoError(t, err)
		assert.InDelta(t, 5, time.Since(began).Seconds(), 1.6, "the rest of a lease of 6 s")
		assert.Greater(t, k.Token(), dead.Token())
		assert.False(t, dead.Held(), "the dead holder's trust has ended too")
	})
}

// Repaired: only the database's clock is compared.
func TestArticleRepairedJumpOfTheDatabasesClock(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		holder, waiter := w.locks(t, "holder"), w.locks(t, "waiter")
		old, err := holder.Acquire(t.Context(), "k")
		require.NoError(t, err)
		_, err = w.DB.Exec(t.Context(), "UPDATE row_lock SET refreshed = DATE_SUB(NOW(3), INTERVAL 1 HOUR)") // its clock jumps by an hour
		require.NoError(t, err)
		k, err := waiter.Acquire(t.Context(), "k")
		require.NoError(t, err)
		assert.Greater(t, k.Token(), old.Token(), "the jump ends a lock, and its token is outdated")
		<-old.Lost()
		assert.False(t, old.Held(), "the old holder notices at its next refresh")

		waiter.kill()                                                                                        // before, because its last refresh may be at this instant
		_, err = w.DB.Exec(t.Context(), "UPDATE row_lock SET refreshed = DATE_ADD(NOW(3), INTERVAL 1 HOUR)") // set back: ages are negative
		require.NoError(t, err)
		began := time.Now()
		_, err = holder.Acquire(t.Context(), "k")
		require.NoError(t, err)
		assert.Less(t, time.Since(began), 30*time.Second, "at most three leases of observation")
	})
}

// Repaired: within a process, too, one goroutine holds a lock at a time.
func TestArticleRepairedThreadsOfAProcessTakeTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.locks(t, "p")
		first, err := l.Acquire(t.Context(), "k")
		require.NoError(t, err)
		_, err = l.Acquire(timeout(t, time.Minute), "k")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.True(t, first.Held(), "the first lock is still held")
		require.NoError(t, first.Release(t.Context()))
		second, err := l.Acquire(t.Context(), "k")
		require.NoError(t, err)
		assert.Greater(t, second.Token(), first.Token())
		assert.ErrorIs(t, first.Release(t.Context()), rowlock.ErrNotHeld)
		assert.True(t, second.Held(), "a second release of the first lock has no effect")
	})
}

// Repaired: a waiter reads four times per refresh, and inserts only if there is no row.
func TestArticleRepairedWaitersSleep(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		holder, waiter := w.locks(t, "holder"), w.locks(t, "waiter")
		_, err := holder.Acquire(t.Context(), "k")
		require.NoError(t, err)
		_, err = waiter.Acquire(timeout(t, time.Minute), "k")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.InDelta(t, 30*4, waiter.db.Statements(), 15, "four times in each refresh of 2 s")
		_, err = waiter.Acquire(t.Context(), "another")
		require.NoError(t, err)
		var id int
		require.NoError(t, w.DB.QueryRow(t.Context(), "SELECT id FROM row_lock WHERE lock_key = 'another'", nil, &id))
		assert.Equal(t, 2, id, "a minute of waiting has used up no id")
	})
}

// Five processes and a counter that only the lock guards.
func TestLocks_ManyProcessesTakeTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var inside, turns atomic.Int64
		var last atomic.Uint64
		var group sync.WaitGroup
		for i := range 5 {
			l := w.locks(t, fmt.Sprintf("p%d", i))
			group.Go(func() {
				for range 6 {
					k, err := l.Acquire(context.Background(), "k")
					if !assert.NoError(t, err) {
						return
					}
					assert.Equal(t, int64(1), inside.Add(1), "one at a time")
					assert.Less(t, last.Swap(k.Token()), k.Token(), "tokens rise")
					time.Sleep(300 * time.Millisecond)
					assert.True(t, k.Held())
					inside.Add(-1)
					turns.Add(1)
					assert.NoError(t, k.Release(context.Background()))
				}
			})
		}
		group.Wait()
		assert.Equal(t, int64(30), turns.Load())
	})
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
			k, err := l.Acquire(t.Context(), key)
			require.NoError(t, err)
			defer k.Release(context.Background())
		}
		assert.Less(t, time.Since(began), time.Second)
		_, err := l.Acquire(t.Context(), "")
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
