package zklatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector/zklatch"
	"conclave/elector/zklatch/memtree"
)

// work is an item that a consumer handles; the test answers it.
type work struct {
	ctx  context.Context
	item string
	done chan error
}

// consumer returns a queue whose items are handled by the test.
func (b *bench) consumer(u *user, cfg zklatch.DistributedQueueConfig) (*zklatch.DistributedQueue, chan work) {
	b.t.Helper()
	works := make(chan work)
	cfg.Consume = func(ctx context.Context, item []byte) error {
		w := work{ctx: ctx, item: string(item), done: make(chan error, 1)}
		select {
		case works <- w:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case err := <-w.done:
			return err
		case <-ctx.Done(): // as it should
			return ctx.Err()
		}
	}
	q := u.DistributedQueue(b.path+"/queue", cfg)
	require.NoError(b.t, q.Start())
	b.t.Cleanup(q.Close)
	return q, works
}

// put adds items through a client that consumes none.
func (b *bench) put(items ...string) {
	b.t.Helper()
	q := b.user().DistributedQueue(b.path+"/queue", zklatch.DistributedQueueConfig{})
	for _, item := range items {
		require.NoError(b.t, q.Put(b.t.Context(), []byte(item)))
	}
}

func (b *bench) locked() zklatch.DistributedQueueConfig {
	return zklatch.DistributedQueueConfig{LockPath: b.path + "/locks"}
}

// Article 004 names a distributed queue. Its contract is that of Curator's
// DistributedQueue: one consumer handles the items in order; with a lock path an item
// is deleted after it was handled, without one before.
func TestArticleAConsumerHandlesInOrder(t *testing.T) {
	for _, locks := range []bool{true, false} {
		t.Run(fmt.Sprint("locks=", locks), func(t *testing.T) {
			everywhere(t, func(t *testing.T, b *bench) {
				u, cfg := b.user(), zklatch.DistributedQueueConfig{}
				if locks {
					cfg = b.locked()
				}
				q, works := b.consumer(u, cfg)
				assert.ErrorIs(t, q.Start(), zklatch.ErrStarted)
				for i := range 12 {
					b.put(fmt.Sprint(i))
				}
				for i := range 12 {
					w := next(b, works)
					assert.Equal(t, fmt.Sprint(i), w.item)
					name := fmt.Sprintf("queue-%010d", i)
					if locks {
						assert.Contains(t, b.names(u, "/queue"), name, "it is deleted after it was handled")
						assert.Equal(t, []string{name}, b.names(u, "/locks"))
					} else {
						assert.NotContains(t, b.names(u, "/queue"), name, "it is deleted before it is handled")
					}
					w.done <- nil
				}
				b.until("the queue to be empty", func() bool { return len(b.names(u, "/queue"))+len(b.names(u, "/locks")) == 0 })
				b.put("late") // while it waits
				w := next(b, works)
				assert.Equal(t, "late", w.item)
				w.done <- nil
			})
		})
	}
}

// Article 004's queue: a consumer that dies while it handles an item. With a lock path
// another one handles it, at least once; without one it is lost, at most once.
func TestArticleAnItemOfADeadConsumer(t *testing.T) {
	t.Run("with locks", func(t *testing.T) {
		everywhere(t, func(t *testing.T, b *bench) {
			u := b.user()
			_, works := b.consumer(u, b.locked())
			b.put("a", "b")
			first := next(b, works)
			_, others := b.consumer(b.user(), b.locked())
			w := next(b, others)
			assert.Equal(t, "b", w.item, "the first one is locked")
			w.done <- nil
			mend := u.cut()
			w = next(b, others)
			assert.Equal(t, "a", w.item)
			next(b, first.ctx.Done())
			assert.ErrorIs(t, context.Cause(first.ctx), zklatch.ErrSuspended, "the consumer that is cut off was interrupted before")
			w.done <- nil
			mend()
			reader := b.user()
			b.until("nothing to be left", func() bool { return len(b.names(reader, "/queue"))+len(b.names(reader, "/locks")) == 0 })
		})
	})
	t.Run("without", func(t *testing.T) {
		inMemory(t, func(t *testing.T, b *bench) {
			u := b.user()
			q, works := b.consumer(u, zklatch.DistributedQueueConfig{})
			b.put("a", "b")
			assert.Equal(t, "a", next(b, works).item)
			_, others := b.consumer(b.user(), zklatch.DistributedQueueConfig{})
			w := next(b, others)
			assert.Equal(t, "b", w.item)
			w.done <- nil
			u.memory.Disconnect()
			q.Close()
			synctest.Wait()
			time.Sleep(10 * timeout)
			select {
			case w := <-others:
				assert.Fail(t, "handled twice", w.item)
			default:
			}
		})
	})
}

// An item whose consumer fails: with a lock path it is put at the end, or dropped;
// without one it is lost.
func TestDistributedQueue_ErrorMode(t *testing.T) {
	failed := errors.New("failed")
	for name, test := range map[string]struct {
		mode  zklatch.ErrorMode
		locks bool
		want  []string
	}{
		"requeue": {zklatch.Requeue, true, []string{"a", "b", "a"}},
		"drop":    {zklatch.Drop, true, []string{"a", "b"}},
		"none":    {zklatch.Requeue, false, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, b *bench) {
				b.put("a", "b")
				cfg := zklatch.DistributedQueueConfig{OnError: test.mode}
				if test.locks {
					cfg.LockPath = b.path + "/locks"
				}
				_, works := b.consumer(b.user(), cfg)
				for i, want := range test.want {
					w := next(b, works)
					assert.Equal(t, want, w.item)
					if i == 0 {
						w.done <- failed
					} else {
						w.done <- nil
					}
				}
				u := b.user()
				b.until("the queue to be empty", func() bool { return len(b.names(u, "/queue"))+len(b.names(u, "/locks")) == 0 })
			})
		})
	}
}

// If any answer or request is lost, an item with a lock is handled: once, if the policy
// allows another try.
func TestDistributedQueue_LostAnswers(t *testing.T) {
	for _, path := range []string{"/queue", "/locks"} {
		for _, op := range []string{"create", "get", "children", "delete"} {
			for _, fault := range []string{"reply", "request"} {
				for _, policy := range []zklatch.RetryPolicy{nil, zklatch.RetryNTimes{}} {
					inMemory(t, func(t *testing.T, b *bench) { b.playLostAnswer(path, memtree.Op(op), fault, policy) })
				}
			}
		}
	}
}

func (b *bench) playLostAnswer(path string, op memtree.Op, fault string, policy zklatch.RetryPolicy) {
	t := b.t
	u := b.user()
	b.put("a", "b", "c")
	handled := make(chan string, 10)
	lose := b.server.DropRequest
	if fault == "reply" {
		lose = b.server.LoseReply
	}
	lose(op, path)
	q := b.client(u.Tree, policy).DistributedQueue(b.path+"/queue", zklatch.DistributedQueueConfig{LockPath: b.path + "/locks",
		Consume: func(_ context.Context, item []byte) error { handled <- string(item); return nil }})
	if op == "create" && path == "/queue" { // before a consumer creates the lock of an item, /locks/queue-...
		err := b.user().DistributedQueue(b.path+"/queue", zklatch.DistributedQueueConfig{}).Put(t.Context(), []byte("d"))
		assert.ErrorIs(t, err, zklatch.ErrConnectionLost)
	}
	require.NoError(t, q.Start())
	want := []string{"a", "b", "c"}
	if op == "create" && path == "/queue" && fault == "reply" {
		want = append(want, "d")
	}
	b.until("the fault", func() bool { return b.server.Faults() == 0 })
	b.until("all to be handled", func() bool { return len(b.names(u, "/queue"))+len(b.names(u, "/locks")) == 0 })
	q.Close()
	close(handled)
	var got []string
	for item := range handled {
		got = append(got, item)
	}
	if policy != nil { // whose deletion was refused a retry
		got = slices.Compact(got)
	}
	assert.Equal(t, want, got, "%s of %s %s, policy %v", fault, op, path, policy)
	assert.Zero(t, b.server.Faults(), "%s of %s %s", fault, op, path)
}

// A consumer that is closed while it handles an item leaves it to another.
func TestDistributedQueue_CloseLeavesTheItem(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		u := b.user()
		q, works := b.consumer(u, b.locked())
		b.put("a")
		next(b, works)
		q.Close()
		b.until("the lock to be released", func() bool { return len(b.names(u, "/locks")) == 0 })
		_, others := b.consumer(b.user(), b.locked())
		w := next(b, others)
		assert.Equal(t, "a", w.item)
		w.done <- nil
		assert.ErrorIs(t, q.Start(), zklatch.ErrStarted)
	})
}

// A late deletion of a lock does not delete the lock that another consumer has taken
// after the session has ended.
func TestDistributedQueue_LateReleaseSparesAnothersLock(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		u := b.user()
		_, works := b.consumer(u, b.locked())
		b.put("a")
		first := next(b, works)
		u.memory.Disconnect()
		next(b, first.ctx.Done())
		_, others := b.consumer(b.user(), b.locked())
		w := next(b, others) // after the session has ended
		u.memory.Reconnect()
		synctest.Wait()
		time.Sleep(timeout)
		assert.Len(t, b.names(u, "/locks"), 1, "the other works on it")
		select {
		case <-works:
			assert.Fail(t, "two consumers handle one item")
		default:
		}
		w.done <- nil
		b.until("the queue to be empty", func() bool { return len(b.names(u, "/queue")) == 0 })
	})
}
