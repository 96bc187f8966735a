package rowlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector/electortest"
	"conclave/elector/electortest/sqlworld"
	"conclave/internal/mysqltest"
	"conclave/lab/article001/rowlock"
	conclavesql "conclave/sql"
)

// One test per statement of article 001, which is retold in its comment; then one per
// fault. The repaired form's are in locks_test.go.

// process is a running registry.
type process struct {
	*rowlock.Registry
	db    *conclavesql.DB
	cable *electortest.Cable
	kill  func() // like kill -9: releases nothing
}

// process starts a registry. The options change its configuration.
func (w *world) process(t *testing.T, name string, options ...func(*rowlock.RegistryConfig)) *process {
	t.Helper()
	require.NoError(t, rowlock.MigrateArticle(t.Context(), w.DB))
	cable := electortest.NewCable(w.Dial)
	cfg := rowlock.RegistryConfig{DB: w.Open(t, cable.Dial, time.Second), Owner: name}
	for _, option := range options {
		option(&cfg)
	}
	r, err := rowlock.NewRegistry(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	p := &process{r, cfg.DB, cable, sync.OnceFunc(func() { cancel(); <-ended })}
	t.Cleanup(p.kill)
	return p
}

// clock makes a process's wall clock fast or slow.
func clock(by time.Duration) func(*rowlock.RegistryConfig) {
	return func(c *rowlock.RegistryConfig) { c.Now = func() time.Time { return time.Now().Add(by) } }
}

// timeout returns a context that ends after d.
func timeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// locked counts the rows of a key.
func (w *world) locked(t *testing.T, key string) (n int) {
	t.Helper()
	require.NoError(t, w.DB.QueryRow(t.Context(), "SELECT COUNT(*) FROM t_ds_jdbc_registry_lock WHERE lock_key = ?", []any{key}, &n))
	return n
}

// Article 001: the row has id, lock_key (unique), lock_owner, last_term,
// last_update_time and create_time.
func TestArticleTableHasItsColumnsAndItsKey(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.process(t, "10.0.0.1_7")
		require.NoError(t, p.Acquire(t.Context(), "k"))
		for _, column := range []string{"id", "lock_key", "lock_owner", "last_term", "last_update_time", "create_time"} {
			var n int
			require.NoError(t, w.DB.QueryRow(t.Context(), "SELECT COUNT("+column+") FROM t_ds_jdbc_registry_lock", nil, &n))
			assert.Equal(t, 1, n, column)
		}
		_, err := w.DB.Exec(t.Context(), articleAcquireSQL, "k", "other", 0)
		assert.Error(t, err, "the unique key refuses a second row")
	})
}

// Article 001: acquire: insert; a unique violation means held: sleep an interval and
// try again; release: delete the row, drop it from the map.
func TestArticleAcquireWaitsForTheRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.process(t, "a"), w.process(t, "b")
		require.NoError(t, a.Acquire(t.Context(), "k"))
		got := make(chan time.Time, 1)
		ctx := timeout(t, 5*time.Minute)
		go func() {
			defer close(got)
			if assert.NoError(t, b.Acquire(ctx, "k")) {
				got <- time.Now()
			}
		}()
		time.Sleep(time.Second)
		before := b.db.Statements()
		time.Sleep(time.Minute)
		require.Empty(t, got)
		assert.InDelta(t, 30, b.db.Statements()-before, 1, "in each interval a try")
		released := time.Now()
		require.NoError(t, a.Release(t.Context(), "k"))
		assert.False(t, a.Holds("k"))
		acquired := <-got
		assert.WithinRange(t, acquired, released, released.Add(2100*time.Millisecond), "at most an interval later")
		assert.True(t, b.Holds("k"))
		require.NoError(t, a.Release(t.Context(), "k"), "releasing a lock that is not held does nothing")
		assert.Equal(t, 1, w.locked(t, "k"))
	})
}

// Article 001: a task every 2 s writes the current time into last_term of all held
// rows, then deletes the rows whose term has expired.
func TestArticleRefreshesItsOwnAndCleansTheDead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		dead, alive := w.process(t, "dead"), w.process(t, "alive")
		require.NoError(t, dead.Acquire(t.Context(), "theirs"))
		require.NoError(t, alive.Acquire(t.Context(), "ours"))
		require.NoError(t, alive.Acquire(t.Context(), "ours too"))
		last := time.Now()
		dead.kill()
		time.Sleep(time.Second)
		for refresh := range 5 {
			var low, high int64
			require.NoError(t, w.DB.QueryRow(t.Context(), "SELECT MIN(last_term), MAX(last_term) FROM t_ds_jdbc_registry_lock WHERE lock_key LIKE 'ours%'", nil, &low, &high))
			assert.Equal(t, last.Add(time.Duration(refresh)*2*time.Second).UnixMilli(), low)
			assert.Equal(t, low, high, "both rows")
			assert.Equal(t, refresh < 4, w.locked(t, "theirs") == 1, "after %d refreshes; it expires after 6 s and is deleted by a process that holds another lock", refresh)
			time.Sleep(2 * time.Second)
		}
		assert.Equal(t, 1, w.locked(t, "ours"))
	})
}

// Article 001: the task is scheduled with a fixed delay, which counts from the end of a
// run: slow statements put the next run off.
func TestArticleRefreshIsScheduledWithFixedDelay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.process(t, "p")
		began := time.Now()
		require.NoError(t, p.Acquire(t.Context(), "k"))
		const slow = 700 * time.Millisecond
		runs := make(chan time.Duration, 3)
		var again func()
		again = func() {
			runs <- time.Since(began)
			time.Sleep(slow)
			if len(runs) < cap(runs) {
				p.cable.Before("UPDATE", again)
			}
		}
		p.cable.Before("UPDATE", again)
		time.Sleep(10 * time.Second)
		require.Len(t, runs, cap(runs))
		for run := range time.Duration(3) {
			assert.InDelta(t, (2*time.Second + run*(2*time.Second+slow)).Seconds(), (<-runs).Seconds(), 0.1, "run %d", run+1)
		}
	})
}

// Article 001: release deletes the row, and then removes the key from the map. If the
// row cannot be deleted the key stays: the process holds the lock and refreshes its
// row, and the release can be retried.
func TestArticleReleaseThatFailsCanBeRetried(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p, other := w.process(t, "p"), w.process(t, "other")
		require.NoError(t, p.Acquire(t.Context(), "k"))
		require.NoError(t, other.Acquire(t.Context(), "something else")) // so that it cleans
		p.cable.Cut()
		require.Error(t, p.Release(t.Context(), "k"))
		p.cable.Mend()
		assert.True(t, p.Holds("k"))
		require.ErrorIs(t, other.Acquire(timeout(t, time.Minute), "k"), context.DeadlineExceeded, "the row is refreshed")
		assert.True(t, p.Holds("k"))
		require.NoError(t, p.Release(t.Context(), "k"))
		assert.False(t, p.Holds("k"))
		assert.Zero(t, w.locked(t, "k"))
		require.NoError(t, other.Acquire(timeout(t, time.Second), "k"))
	})
}

// Article 001, what follows from that order: the row is gone and the key still in the
// map, while the answer to the delete is on its way or when it is lost. Another process
// acquires the lock, a second thread of this process is let in beside it, and the end
// of the release takes the lock from that thread.
func TestArticleFaultRowIsDeletedBeforeTheKeyLeavesTheMap(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p, other := w.process(t, "p"), w.process(t, "other")
		require.NoError(t, p.Acquire(t.Context(), "k"))
		deliver := p.cable.HoldReplies()
		defer deliver()
		released := make(chan error, 1)
		go func() { released <- p.Release(context.Background(), "k") }()
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, other.Acquire(timeout(t, time.Second), "k"))
		require.NoError(t, p.Acquire(timeout(t, time.Millisecond), "k"), "a second thread")
		assert.True(t, p.Holds("k"))
		assert.True(t, other.Holds("k"))
		deliver()
		require.NoError(t, <-released)
		assert.False(t, p.Holds("k"), "the second thread has lost what it never had")

		other.cable.LoseReply("DELETE")
		require.Error(t, other.Release(t.Context(), "k"))
		require.NoError(t, p.Acquire(timeout(t, time.Second), "k"))
		assert.True(t, other.Holds("k"), "until it retries")
		require.NoError(t, other.Release(t.Context(), "k"))
		assert.Equal(t, 1, w.locked(t, "k"), "the retry names the row that is gone")
		assert.True(t, p.Holds("k"))
	})
}

// Article 001, a known fault: a process that holds no lock does not clean up. The
// only holder dies, and all the others wait for ever.
func TestArticleFaultDeadHoldersRowIsNotCleaned(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		holder, waiter := w.process(t, "holder"), w.process(t, "waiter")
		require.NoError(t, holder.Acquire(t.Context(), "k"))
		holder.kill()
		err := waiter.Acquire(timeout(t, 10*time.Minute), "k")
		assert.ErrorIs(t, err, context.DeadlineExceeded, "the row is never deleted")
		assert.Equal(t, 1, w.locked(t, "k"))
	})
}

// Article 001, a known fault: the times are the processes' clocks. One that is ten
// seconds fast deletes the locks of the living; and a holder never looks at its row
// again, so that two hold one lock.
func TestArticleFaultAFastClockDeletesLivingLocks(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		holder, fast := w.process(t, "holder"), w.process(t, "fast", clock(10*time.Second))
		require.NoError(t, holder.Acquire(t.Context(), "k"))
		require.NoError(t, fast.Acquire(t.Context(), "something else"))
		require.NoError(t, fast.Acquire(timeout(t, time.Minute), "k"), "the fast process has deleted a row that was refreshed a second ago")
		time.Sleep(time.Minute)
		assert.True(t, holder.Holds("k"))
		assert.True(t, fast.Holds("k"))
		assert.Equal(t, 1, w.locked(t, "k"))
	})
}

// Article 001, a known fault: the map is filled once per key. A second thread of the
// process is let in beside the first, and the first one's release takes the lock from
// both.
func TestArticleFaultTwoThreadsOfAProcessHoldOneLock(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p, other := w.process(t, "p"), w.process(t, "other")
		require.NoError(t, p.Acquire(t.Context(), "k"))
		require.NoError(t, p.Acquire(timeout(t, time.Second), "k"), "a second thread")
		require.NoError(t, p.Release(t.Context(), "k"), "by the first thread")
		require.NoError(t, other.Acquire(timeout(t, 5*time.Second), "k"), "while the second thread still works")
	})
}

// Article 001, what follows from both: of two threads that release at once, the second
// takes from the map what a third has just acquired. Nobody deletes that row: a process
// that holds nothing does not clean up.
func TestArticleFaultTwoReleasesAtOnceLeaveARow(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p, other := w.process(t, "p"), w.process(t, "other")
		require.NoError(t, p.Acquire(t.Context(), "k"))
		require.NoError(t, p.Acquire(t.Context(), "k"), "a second thread")
		first, released := make(chan struct{}), make(chan error, 1)
		p.cable.Before("DELETE", func() { <-first })
		go func() { released <- p.Release(context.Background(), "k") }() // by the second thread
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, p.Release(t.Context(), "k"), "by the first thread")
		require.NoError(t, p.Acquire(timeout(t, time.Second), "k"), "a third thread")
		close(first)
		require.NoError(t, <-released)
		assert.False(t, p.Holds("k"), "the third thread has lost it")
		require.NoError(t, p.Release(t.Context(), "k"), "by the third thread, which does nothing")
		assert.ErrorIs(t, other.Acquire(timeout(t, 10*time.Minute), "k"), context.DeadlineExceeded)
		assert.Equal(t, 1, w.locked(t, "k"))
	})
}

// Article 001: a thread that comes while another one tries waits for it, and does not
// fail with it: computeIfAbsent stores nothing after an exception, and the next thread
// tries itself.
func TestArticleEachThreadTriesItself(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.process(t, "p")
		second := make(chan error, 1)
		p.cable.Before("INSERT", func() {
			go func() { second <- p.Acquire(timeout(t, time.Minute), "k") }()
			time.Sleep(100 * time.Millisecond)
			p.cable.LoseReply("INSERT")
		})
		require.Error(t, p.Acquire(t.Context(), "k"), "the first thread's")
		_, err := w.DB.Exec(t.Context(), "DELETE FROM t_ds_jdbc_registry_lock") // its row expires
		require.NoError(t, err)
		require.NoError(t, <-second)
		assert.True(t, p.Holds("k"))
		assert.Equal(t, 1, w.locked(t, "k"))
	})
}

// Article 001, a known fault: waiters may spin, and each try uses an id up. (In real
// time: a bubble's clock does not move while a goroutine spins.)
func TestArticleFaultWaitersSpin(t *testing.T) {
	w := &world{sqlworld.New(t, mysqltest.NewEmbedded(t))}
	holder := w.process(t, "holder", func(c *rowlock.RegistryConfig) { c.DB = w.Open(t, w.Dial, 10*time.Second) })
	require.NoError(t, holder.Acquire(t.Context(), "k"))
	db := w.Open(t, w.Dial, 10*time.Second)
	waiter := w.process(t, "waiter", func(c *rowlock.RegistryConfig) { c.DB, c.Interval = db, -1 })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	began, ended := time.Now(), make(chan error, 1)
	go func() { ended <- waiter.Acquire(ctx, "k") }()
	require.Eventually(t, func() bool { return db.Statements() > 30 }, 15*time.Second, time.Millisecond, "with the interval there would be fifteen")
	t.Logf("a waiter in %v: %d statements", time.Since(began), db.Statements())
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// Article 001, the same: each refused try uses up an id, so that a minute of
// waiting at a try each two seconds is 30 of them. (The embedded server gives them
// back.)
func TestArticleFaultRefusedTryUsesUpAnID(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		w := &world{sqlworld.New(t, s)}
		require.NoError(t, rowlock.MigrateArticle(t.Context(), w.DB))
		id := func(key string) (id int) {
			_, err := w.DB.Exec(t.Context(), articleAcquireSQL, key, "a", 0)
			require.NoError(t, err)
			require.NoError(t, w.DB.QueryRow(t.Context(), articleFindSQL, []any{key, "a"}, &id))
			return id
		}
		first := id("k")
		for range 10 {
			_, err := w.DB.Exec(t.Context(), articleAcquireSQL, "k", "b", 0)
			require.Error(t, err)
		}
		assert.Equal(t, first+11, id("another"))
	})
}
