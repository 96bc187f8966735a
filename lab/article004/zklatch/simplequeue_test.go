package zklatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/lab/article004/zklatch"
	"conclave/lab/article004/zklatch/memtree"
)

// Article 004 names a distributed queue. Its contract is that of Curator's
// SimpleDistributedQueue: offer at the end, take in order; the items are
// persistent, numbered nodes.
func TestArticleAQueueIsTakenInOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		producer, u := b.user(), b.user()
		offer := producer.SimpleDistributedQueue(b.path + "/queue")
		q := u.SimpleDistributedQueue(b.path + "/queue")
		var names []string
		for i := range 12 {
			require.NoError(t, offer.Offer(b.limited(), fmt.Append(nil, i)))
			names = append(names, fmt.Sprintf("qn-%010d", i))
		}
		assert.Equal(t, names, sorted(b.names(u, "/queue")))
		_, stat, err := u.Get(b.limited(), b.path+"/queue/"+names[0])
		require.NoError(t, err)
		assert.Zero(t, stat.EphemeralOwner, "an item outlives the session that has offered it")
		_, err = u.Create(b.limited(), b.path+"/queue/a-foreign-node", nil, zk.FlagPersistent)
		require.NoError(t, err)

		for i := range 12 {
			item, err := q.Take(b.limited())
			require.NoError(t, err)
			assert.Equal(t, fmt.Sprint(i), string(item))
		}

		// An item that is offered meanwhile ends the wait.
		taken := make(chan string, 1)
		go func() {
			item, err := q.Take(b.limited())
			assert.NoError(t, err)
			taken <- string(item)
		}()
		if b.server != nil { // a real one does not count watches on children
			b.until("it to wait", func() bool { return b.watching() == 1 })
		}
		require.NoError(t, offer.Offer(b.limited(), []byte("late")))
		assert.Equal(t, "late", next(b, taken))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = q.Take(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// Each item is taken once, whatever the number of consumers.
func TestSimpleDistributedQueue_ManyConsumers(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		const consumers, each = 4, 10
		var taken log
		var members []func(context.Context) error
		for range consumers {
			q := b.user().SimpleDistributedQueue(b.path + "/queue")
			members = append(members, func(ctx context.Context) error {
				for range each {
					item, err := q.Take(ctx)
					if err != nil {
						return err
					}
					taken.say(string(item))
				}
				return nil
			})
		}
		q, u := b.user().SimpleDistributedQueue(b.path+"/queue"), b.user()
		var all []string
		for i := range consumers * each {
			all = append(all, fmt.Sprintf("%02d", i))
		}
		b.together(append(members, func(ctx context.Context) error {
			for _, item := range all {
				if err := q.Offer(ctx, []byte(item)); err != nil {
					return err
				}
			}
			return nil
		})...)
		assert.Equal(t, all, sorted(taken.all()))
		assert.Empty(t, b.names(u, "/queue"))
	})
}

// If answers or requests are lost, no item is taken twice, and none is offered twice.
// An item may be lost then, which is reported.
func TestSimpleDistributedQueue_LostAnswers(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		u := b.user()
		q := u.SimpleDistributedQueue(b.path + "/queue")
		offer := func(item string) { require.NoError(t, q.Offer(b.limited(), []byte(item))) }
		offer("1")
		b.lose(memtree.NotAnswered, memtree.Create, "/queue/qn-")
		assert.ErrorIs(t, q.Offer(b.limited(), []byte("2")), zklatch.ErrConnectionLost)
		assert.Len(t, b.names(u, "/queue"), 2, "it was offered once")
		b.lose(memtree.NotExecuted, memtree.Create, "/queue/qn-")
		assert.ErrorIs(t, q.Offer(b.limited(), []byte("lost")), zklatch.ErrConnectionLost)
		offer("3")
		offer("4")

		b.lose(memtree.NotAnswered, memtree.Delete, "/queue/qn-")
		_, err := q.Take(b.limited())
		assert.ErrorIs(t, err, zklatch.ErrConnectionLost, "it may have been taken")
		b.lose(memtree.NotExecuted, memtree.Delete, "/queue/qn-")
		_, err = q.Take(b.limited())
		assert.ErrorIs(t, err, zklatch.ErrConnectionLost, "and this one was not")
		b.lose(memtree.NotExecuted, memtree.Children, "/queue")
		b.lose(memtree.NotExecuted, memtree.Get, "/queue/qn-")
		for _, want := range []string{"2", "3", "4"} {
			item, err := q.Take(b.limited())
			require.NoError(t, err)
			assert.Equal(t, want, string(item))
		}
		assert.Zero(t, b.left())
		assert.Empty(t, b.names(u, "/queue"))
	})
}

// A wait survives the connection and the session, and the numbers of a queue never begin
// again.
func TestSimpleDistributedQueue_Waits(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		u := b.user()
		q := u.SimpleDistributedQueue(b.path + "/below/queue")
		for i, disturb := range []func(){
			func() { u.cable.Cut() },
			func() { s, _ := u.Session(); b.server.Expire(s.ID) },
			func() {
				require.NoError(t, u.Delete(b.limited(), b.path+"/below/queue", zklatch.AnyVersion))
			},
		} {
			taken := make(chan string, 1)
			go func() {
				item, err := q.Take(b.limited())
				assert.NoError(t, err)
				taken <- string(item)
			}()
			synctest.Wait()
			disturb()
			synctest.Wait()
			require.NoError(t, b.user().SimpleDistributedQueue(b.path+"/below/queue").Offer(b.limited(), fmt.Append(nil, i)))
			u.cable.Mend()
			assert.Equal(t, fmt.Sprint(i), next(b, taken))
		}
		require.NoError(t, q.Offer(b.limited(), nil))
		_, err := q.Take(b.limited())
		require.NoError(t, err)
		assert.Empty(t, b.server.Sweep(), "an item that was taken late must not be another of the same name")
		require.NoError(t, u.Delete(b.limited(), b.path+"/below/queue", zklatch.AnyVersion))
		assert.Equal(t, []string{b.path + "/below"}, b.server.Sweep(), "its parent is a container")
	})
}
