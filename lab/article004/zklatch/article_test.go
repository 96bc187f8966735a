package zklatch_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/lab/article004/zklatch"
	"conclave/lab/article004/zklatch/memtree"
)

// One test per statement of article 004 about locks, which is retold in its comment.
// Those about leaders are in leader_test.go.

// shop is the article's table goods_stock: one item with a stock.
type shop struct {
	mu    sync.Mutex
	stock int
}

func (s *shop) read() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stock
}

func (s *shop) write(stock int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stock = stock
}

// buy is an unprotected purchase: read, pause for up to a second, write back.
func (s *shop) buy(dawdle time.Duration) bool {
	stock := s.read()
	time.Sleep(dawdle)
	if stock <= 0 {
		return false
	}
	s.write(stock - 1)
	return true
}

// rush lets buyers buy 100 items, all at once.
func rush(buyers int, buy func(buyer int, dawdle time.Duration) bool) (sold int) {
	random := rand.New(rand.NewPCG(4, 4))
	var group sync.WaitGroup
	var count atomic.Int64
	for buyer := range buyers {
		dawdle := time.Duration(random.Int64N(int64(time.Second)))
		group.Go(func() {
			if buy(buyer, dawdle) {
				count.Add(1)
			}
		})
	}
	group.Wait()
	return int(count.Load())
}

// Article 004: without a lock every buyer succeeds and the stock hardly moves; with
// one nothing is oversold.
func TestArticleTheShop(t *testing.T) {
	t.Run("without a lock", func(t *testing.T) {
		wire(t, func(t *testing.T, b *bench) {
			goods := &shop{stock: 100}
			sold := rush(1500, func(_ int, dawdle time.Duration) bool { return goods.buy(dawdle) })
			assert.Equal(t, 1500, sold, "every buyer succeeds")
			assert.GreaterOrEqual(t, goods.read(), 90, "and the stock hardly moves: each of 1,500 sales writes what it has read less one")
			t.Logf("sold %d of 100, %d left", sold, goods.read())
		})
	})
	t.Run("with a lock", func(t *testing.T) {
		wire(t, func(t *testing.T, b *bench) {
			goods := &shop{stock: 100}
			// A third of the article's buyers, because each of them reads the list of
			// all waiters, twice.
			users := make([]*user, 25) // processes, with 20 buyers each
			for i := range users {
				users[i] = b.user()
			}
			sold := rush(500, func(buyer int, dawdle time.Duration) bool {
				m := users[buyer%len(users)].Mutex(b.path+"/goods", nil)
				if err := m.Acquire(t.Context()); err != nil {
					t.Errorf("buyer %d: %v", buyer, err)
					return false
				}
				defer m.Release(t.Context())
				return goods.buy(dawdle)
			})
			assert.Equal(t, 100, sold)
			assert.Zero(t, goods.read())
		})
	})
}

// locker is implemented by both locks.
type locker interface {
	Acquire(context.Context) error
	Release(context.Context) error
}

// wakeUps lets n waiters acquire a lock one after the other, and returns how many
// wake-ups there were.
func wakeUps(t *testing.T, b *bench, n int, lock func(u *user) locker) (woken uint64) {
	u := b.user()
	first := lock(u)
	require.NoError(t, first.Acquire(b.limited()))
	users := make([]*user, 0, n)
	passed := make(chan locker)
	var group sync.WaitGroup
	for range n {
		w := b.user()
		users = append(users, w)
		b.until("a connection", func() bool { s, _ := w.Session(); return s.Connected() }) // whose event would wake it too
		group.Go(func() {
			l := lock(w)
			if err := l.Acquire(b.limited()); err != nil {
				t.Error(err)
			}
			passed <- l
		})
	}
	// All must wait before the first release.
	b.until("all to wait", func() bool { return b.watching() == n })
	held := first
	for i := range n {
		require.NoError(t, held.Release(b.limited()))
		held = next(b, passed)
		// The others that were woken wait again.
		b.until("the others to wait again", func() bool { return b.watching() == n-1-i })
	}
	require.NoError(t, held.Release(b.limited()))
	group.Wait()
	for _, w := range users {
		woken += w.Woken()
	}
	return woken
}

// Article 004: one unique node wakes all waiters at each release; of sequential
// nodes each waiter watches only the one before it.
func TestArticleOneWaiterIsWokenAndNotTheHerd(t *testing.T) {
	for _, n := range []int{10, 50} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			everywhere(t, func(t *testing.T, b *bench) {
				b.top(b.user()) // creates the path
				herd := wakeUps(t, b, n, func(u *user) locker { return u.SingleNode(b.path + "/single") })
				line := wakeUps(t, b, n, func(u *user) locker { return u.Mutex(b.path+"/line", nil) })
				assert.Equal(t, uint64(n*(n+1)/2), herd, "each release wakes all waiters")
				assert.Equal(t, uint64(n), line, "each release wakes one waiter")
				t.Logf("%d waiters: one node %d wake-ups, a line %d", n, herd, line)
			})
		})
	}
}

// Article 004: fair.
func TestArticleFair(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		m := b.user().Mutex(b.path+"/lock", nil)
		require.NoError(t, m.Acquire(b.limited()))
		var order log
		var group sync.WaitGroup
		for i := range 5 {
			u := b.user()
			group.Go(func() {
				m := u.Mutex(b.path+"/lock", nil)
				assert.NoError(t, m.Acquire(b.limited()))
				order.say(fmt.Sprint(i))
				assert.NoError(t, m.Release(b.limited()))
			})
			b.until("it to stand in the line", func() bool { return len(b.names(u, "/lock")) == i+2 })
		}
		require.NoError(t, m.Release(b.limited()))
		group.Wait()
		assert.Equal(t, []string{"0", "1", "2", "3", "4"}, order.all())
	})
}

// Article 004: reentrant per owner with a count, release counts down, then deletes,
// releasing what one does not hold is an error.
func TestArticleReentrantWithACount(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		u := b.user()
		m := u.Mutex(b.path+"/lock", nil)
		assert.ErrorIs(t, m.Release(b.limited()), zklatch.ErrNotHeld)
		require.NoError(t, m.Acquire(b.limited()))
		require.NoError(t, m.Acquire(b.limited()))
		assert.Len(t, b.names(u, "/lock"), 1, "one node: the count is in the handle")
		other := u.Mutex(b.path+"/lock", nil)
		got, err := other.TryAcquire(b.limited(), 50*time.Millisecond)
		require.NoError(t, err)
		assert.False(t, got, "another handle of the same client is another owner")
		require.NoError(t, m.Release(b.limited()))
		assert.True(t, m.Held())
		got, err = other.TryAcquire(b.limited(), 50*time.Millisecond)
		require.NoError(t, err)
		assert.False(t, got, "the first of two releases only counts down")
		require.NoError(t, m.Release(b.limited()))
		assert.False(t, m.Held())
		b.until("the node to go", func() bool { return len(b.names(u, "/lock")) == 0 })
		assert.ErrorIs(t, m.Release(b.limited()), zklatch.ErrNotHeld)
	})
}

// Article 004: the name is protected by an id, so that a lost reply is recognised.
func TestArticleALostReplyOfACreateIsRecognised(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		u := b.user()
		require.NoError(t, u.Mutex(b.path+"/lock", nil).Acquire(b.limited())) // creates the path
		u = b.user()
		if b.server != nil {
			b.lose(memtree.NotAnswered, memtree.Create, "/lock/_c_")
		} else {
			b.until("a session", func() bool { s, _ := u.Session(); return s.Connected() })
			u.cable.LoseReply("/lock/_c_")
		}
		m := u.Mutex(b.path+"/lock", nil)
		got, err := m.TryAcquire(b.limited(), 2*time.Second)
		require.NoError(t, err)
		assert.False(t, got, "another handle holds it")
		b.until("no node to be left of it", func() bool { return len(b.names(b.user(), "/lock")) == 1 })
		if b.server != nil {
			assert.Zero(t, b.left(), "the answer was lost")
		} else {
			assert.Equal(t, 1, u.cable.Lost(), "the answer was lost")
		}
	})
	wire(t, func(t *testing.T, b *bench) { // without another holder
		u := b.user()
		b.lose(memtree.NotAnswered, memtree.Create, "/lock/_c_")
		m := u.Mutex(b.path+"/lock", nil)
		require.NoError(t, m.Acquire(b.limited()))
		assert.Len(t, b.names(u, "/lock"), 1, "one node was created and found again")
		assert.Zero(t, b.left())
	})
}

// Article 004: a time limit deletes the node.
func TestArticleATimeLimitDeletesTheNode(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		u := b.user()
		m := u.Mutex(b.path+"/lock", nil)
		require.NoError(t, m.Acquire(b.limited()))
		began := time.Now()
		got, err := b.user().Mutex(b.path+"/lock", nil).TryAcquire(b.limited(), 300*time.Millisecond)
		require.NoError(t, err)
		assert.False(t, got)
		assert.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
		b.until("its node to go", func() bool { return len(b.names(u, "/lock")) == 1 })
		assert.True(t, m.Held())
	})
}

// Article 004: session loss retries from the start.
func TestArticleSessionLossRetriesFromTheStart(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		holder := b.user()
		held := holder.Mutex(b.path+"/lock", nil)
		require.NoError(t, held.Acquire(b.limited()))
		u := b.user()
		acquired := make(chan error, 1)
		m := u.Mutex(b.path+"/lock", nil)
		go func() { acquired <- m.Acquire(b.limited()) }()
		b.until("it to wait", func() bool { return b.watching() == 1 })
		before := b.names(holder, "/lock")
		session, _ := u.Session()
		b.server.Expire(session.ID)
		b.until("a new place in the queue", func() bool {
			now := b.names(holder, "/lock")
			return len(now) == 2 && !assert.ObjectsAreEqual(sorted(before), sorted(now))
		})
		require.NoError(t, held.Release(b.limited()))
		require.NoError(t, next(b, acquired))
		assert.True(t, m.Held())

		// The holder is notified when its session ends, and cannot continue.
		ctx, cancel := m.Holding(t.Context())
		defer cancel()
		session, _ = u.Session()
		b.server.Expire(session.ID)
		next(b, ctx.Done())
		assert.ErrorIs(t, context.Cause(ctx), zklatch.ErrSuspended)
		b.until("a new session", func() bool { s, _ := u.Session(); return s.ID != session.ID && s.Connected() })
		assert.False(t, m.Held())
		assert.ErrorIs(t, m.Acquire(b.limited()), zklatch.ErrHoldLost)
		require.NoError(t, m.Release(b.limited()))
		require.NoError(t, m.Acquire(b.limited()))
	})
}

// Article 004: release deletes, retried in the background until done.
func TestArticleAReleaseIsRetriedUntilDone(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		u, other := b.user(), b.user()
		for _, fault := range []string{"the request is lost, three times", "the answer is lost", "no connection for a second"} {
			m := u.Mutex(b.path+"/lock", nil)
			require.NoError(t, m.Acquire(b.limited()))
			waiting := make(chan error, 1)
			follower := other.Mutex(b.path+"/lock", nil)
			go func() { waiting <- follower.Acquire(b.limited()) }()
			b.until("another to wait", func() bool { return b.watching() == 1 })
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			switch fault {
			case "the answer is lost":
				b.lose(memtree.NotAnswered, memtree.Delete, "/lock/")
			case "no connection for a second":
				u.cable.Cut()
				time.AfterFunc(time.Second, u.cable.Mend)
			default:
				for range 3 {
					b.lose(memtree.NotExecuted, memtree.Delete, "/lock/")
				}
			}
			require.NoError(t, m.Release(ctx), fault)
			cancel()
			require.NoError(t, next(b, waiting), fault)
			assert.Zero(t, b.left(), fault)
			require.NoError(t, follower.Release(b.limited()))
			assert.Empty(t, b.names(u, "/lock"), fault)
		}
	})
}

// Article 004: the holder may register a listener (makeRevocable), anyone may ask
// (attemptRevoke) on the node's path, found among the participants; nothing is
// forced.
func TestArticleRevocationIsByAgreement(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		holder, asker := b.user(), b.user()
		for _, agrees := range []bool{true, false} {
			asked := make(chan struct{})
			m := holder.Mutex(b.path+"/lock", []byte("holder"))
			m.MakeRevocable(func(m *zklatch.Mutex) {
				if agrees {
					assert.NoError(t, m.Release(context.Background()))
				}
				close(asked)
			})
			require.NoError(t, m.Acquire(b.limited()))
			participants, err := asker.Participants(b.limited(), b.path+"/lock")
			require.NoError(t, err)
			require.Len(t, participants, 1)
			assert.Equal(t, "holder", string(participants[0].Data))
			require.NoError(t, asker.AttemptRevoke(b.limited(), participants[0].Path))
			next(b, asked)
			mine := asker.Mutex(b.path+"/lock", nil)
			got, err := mine.TryAcquire(b.limited(), 500*time.Millisecond)
			require.NoError(t, err)
			assert.Equal(t, agrees, got, "nothing is forced")
			if agrees {
				require.NoError(t, mine.Release(b.limited()))
				assert.ErrorIs(t, asker.AttemptRevoke(b.limited(), participants[0].Path), zklatch.ErrNoNode)
			} else {
				assert.True(t, m.Held())
			}
		}
	})
}

// Article 004: a non-reentrant semaphore mutex.
func TestArticleTheSemaphoreMutexIsNotReentrant(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		u := b.user()
		s := u.SemaphoreMutex(b.path + "/semaphore")
		assert.ErrorIs(t, s.Release(b.limited()), zklatch.ErrNotHeld)
		require.NoError(t, s.Acquire(b.limited()))
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, s.Acquire(ctx), context.DeadlineExceeded, "the second call waits for the first hold")
		released := make(chan error, 1)
		go func() { released <- s.Release(b.limited()) }() // it has no owner
		require.NoError(t, next(b, released))
		require.NoError(t, s.Acquire(b.limited()))
	})
}

// Article 004: a read-write lock.
func TestArticleManyReadOrOneWrites(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		lock := func() *zklatch.ReadWrite { return b.user().ReadWrite(b.path+"/rw", nil) }
		a, second, writer, late := lock(), lock(), lock(), lock()
		require.NoError(t, a.AcquireRead(b.limited()))
		require.NoError(t, second.AcquireRead(b.limited()), "two may read")
		assert.ErrorIs(t, a.AcquireWrite(b.limited()), zklatch.ErrUpgrade)

		var order log
		var group sync.WaitGroup
		group.Go(func() {
			assert.NoError(t, writer.AcquireWrite(b.limited()))
			order.say("write")
			assert.NoError(t, writer.AcquireRead(b.limited()), "a writer may read")
			assert.NoError(t, writer.ReleaseWrite(b.limited()), "and keep reading")
		})
		u := b.user()
		b.until("the writer to wait", func() bool { return len(b.names(u, "/rw")) == 3 })
		group.Go(func() {
			assert.NoError(t, late.AcquireRead(b.limited()))
			order.say("read")
			assert.NoError(t, late.ReleaseRead(b.limited()))
		})
		b.until("the late reader to wait behind the writer", func() bool { return len(b.names(u, "/rw")) == 4 })
		time.Sleep(100 * time.Millisecond)
		assert.Empty(t, order.all(), "the writer waits for the readers, and the late reader for the writer")
		require.NoError(t, a.ReleaseRead(b.limited()))
		require.NoError(t, second.ReleaseRead(b.limited()))
		group.Wait()
		assert.Equal(t, []string{"write", "read"}, order.all())
		require.NoError(t, writer.ReleaseRead(b.limited()))
	})
}
