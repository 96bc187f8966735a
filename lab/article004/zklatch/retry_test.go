package zklatch_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/lab/article004/zklatch"
	"conclave/lab/article004/zklatch/memtree"
)

// client returns another Client on a user's session.
func (b *bench) client(tree zklatch.Tree, policy zklatch.RetryPolicy) *zklatch.Client {
	c := zklatch.NewClient(tree, zklatch.ClientConfig{Rand: random(99), Retry: policy, Logger: b.logger("client")})
	b.t.Cleanup(c.Close)
	return c
}

// asked is a RetryPolicy that records what it is asked, and refuses from a count on.
type asked struct {
	refuse  int
	counts  []int
	elapsed []time.Duration
}

func (p *asked) AllowRetry(retryCount int, elapsed time.Duration) (time.Duration, bool) {
	p.counts, p.elapsed = append(p.counts, retryCount), append(p.elapsed, elapsed)
	return time.Second, retryCount < p.refuse
}

// Article 004: retryPolicy, allowRetry(retryCount, elapsed): what each policy
// allows.
func TestArticleRetryPoliciesAllowWhatCuratorsDo(t *testing.T) {
	allowed := func(p zklatch.RetryPolicy, retryCount int, elapsed time.Duration) string {
		pause, ok := p.AllowRetry(retryCount, elapsed)
		return fmt.Sprint(ok, pause)
	}
	forever := zklatch.RetryForever{Interval: time.Second}
	assert.Equal(t, "true 1s", allowed(forever, 1_000_000, 1000*time.Hour))
	assert.Equal(t, "true 0s", allowed(zklatch.RetryForever{}, 0, 0))

	three := zklatch.RetryNTimes{N: 3, Pause: time.Second}
	assert.Equal(t, "true 1s", allowed(three, 2, time.Hour))
	assert.Equal(t, "false 0s", allowed(three, 3, 0))

	// base * max(1, random(1 << (n+1))), for the highest and the lowest random number
	var limit int64
	highest := func(n int64) int64 { limit = n; return n - 1 }
	for retryCount, want := range []time.Duration{1, 3, 7, 15, 31, 63, 127, 255, 511, 1023} {
		p := zklatch.ExponentialBackoffRetry{BaseSleep: time.Second, MaxRetries: 10, Random: highest}
		assert.Equal(t, fmt.Sprint(true, want*time.Second), allowed(p, retryCount, 0))
		assert.Equal(t, int64(2)<<retryCount, limit, "random numbers are below 1 << (%d+1)", retryCount)
		p.Random = func(int64) int64 { return 0 }
		assert.Equal(t, "true 1s", allowed(p, retryCount, 0), "at least the base")
		for range 100 { // by chance
			p.Random = nil
			pause, ok := p.AllowRetry(retryCount, 0)
			assert.True(t, ok && time.Second <= pause && pause <= want*time.Second && pause%time.Second == 0, "%v", pause)
		}
	}
	article := zklatch.ExponentialBackoffRetry{BaseSleep: time.Second, MaxRetries: 10}
	assert.Equal(t, "false 0s", allowed(article, 10, 0))
	many := zklatch.ExponentialBackoffRetry{BaseSleep: time.Millisecond, MaxRetries: 1000, Random: highest}
	assert.Equal(t, fmt.Sprint(true, (1<<29-1)*time.Millisecond), allowed(many, 28, 0))
	assert.Equal(t, "false 0s", allowed(many, 29, 0), "29 retries at most")
	many.BaseSleep = 1000 * time.Hour
	assert.Equal(t, fmt.Sprint(true, time.Duration(math.MaxInt64)), allowed(many, 28, 0), "no overflow")
	many.MaxSleep = time.Minute
	assert.Equal(t, "true 1m0s", allowed(many, 28, 0))
}

// Article 004: in attemptLock a lost place asks allowRetry(retryCount++, time since the
// start): again from the start, or the error.
func TestArticleALostPlaceAsksTheRetryPolicy(t *testing.T) {
	for name, world := range map[string]func(*testing.T, func(*testing.T, *bench)){"memory": inMemory, "wire": wire} {
		t.Run(name, func(t *testing.T) {
			world(t, func(t *testing.T, b *bench) {
				holder, u := b.user(), b.user()
				held := holder.Mutex(b.path+"/lock", nil)
				require.NoError(t, held.Acquire(t.Context()))
				policy := &asked{refuse: 2}
				m := b.client(u.Tree, policy).Mutex(b.path+"/lock", nil)
				began := time.Now()
				var lost []time.Duration
				acquired := make(chan error, 1)
				go func() { acquired <- m.Acquire(t.Context()) }()
				for range 3 {
					b.until("it to wait", func() bool { return b.watching() == 1 })
					time.Sleep(10 * time.Second)
					s, _ := u.Session()
					lost = append(lost, time.Since(began))
					b.server.Expire(s.ID)
					b.until("the watch to end", func() bool { return b.watching() == 0 })
				}
				err := <-acquired
				assert.ErrorIs(t, err, zklatch.ErrRetryRefused)
				assert.ErrorIs(t, err, zklatch.ErrNoNode, "what was refused a retry")
				assert.Equal(t, []int{0, 1, 2}, policy.counts)
				for i, elapsed := range policy.elapsed {
					assert.InDelta(t, lost[i].Seconds(), elapsed.Seconds(), 1, "since the acquisition began")
				}
				b.until("nothing to be left of it", func() bool { return len(b.names(holder, "/lock")) == 1 })

				require.NoError(t, held.Release(t.Context()))
				require.NoError(t, m.Acquire(t.Context()), "the next acquisition counts from 0")
			})
		})
	}
}

// Article 004: a client's requests are repeated as its retryPolicy allows.
func TestArticleRequestsAreRepeatedAsThePolicyAllows(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		u := b.user()
		held := u.Mutex(b.path+"/lock", nil)
		require.NoError(t, held.Acquire(t.Context()))
		drop := func(n int, op memtree.Op) {
			for range n {
				b.server.DropRequest(op, "/lock")
			}
		}
		list := func(c *zklatch.Client) error {
			_, err := c.Mutex(b.path+"/lock", nil).Participants(t.Context())
			return err
		}
		revoke := func(c *zklatch.Client) error {
			return c.AttemptRevoke(t.Context(), b.path+"/lock/"+b.names(b.user(), "/lock")[0])
		}
		enter := func(c *zklatch.Client) error { // last: it deletes in the background
			s := c.Semaphore(b.path+"/lock", 9)
			if err := s.Acquire(t.Context()); err != nil {
				return err
			}
			return s.Release(t.Context())
		}
		for _, r := range []struct {
			op      memtree.Op
			request func(c *zklatch.Client) error
		}{{memtree.Children, list}, {memtree.Get, list}, {memtree.Set, revoke}, {memtree.Create, enter}} {
			op, request := r.op, r.request
			policy := zklatch.RetryNTimes{N: 2, Pause: time.Second}
			drop(2, op)
			began := time.Now()
			require.NoError(t, request(b.client(u.Tree, policy)), op)
			assert.Equal(t, 2*time.Second, time.Since(began), op)
			assert.Zero(t, b.server.Faults())

			drop(3, op)
			err := request(b.client(u.Tree, policy))
			assert.ErrorIs(t, err, zklatch.ErrRetryRefused, op)
			assert.ErrorIs(t, err, zklatch.ErrConnectionLost, op)
			assert.Zero(t, b.server.Faults())

			drop(50, op) // the default
			began = time.Now()
			require.NoError(t, request(u.Client), op)
			assert.Zero(t, time.Since(began), "without a policy there is no limit and no pause: %s", op)
			assert.Zero(t, b.server.Faults())
		}
		b.until("only the holder's node to be left", func() bool { return len(b.names(u, "/lock")) == 1 })
		assert.True(t, held.Held())
	})
}

// A pause of the policy ends with the caller's context.
func TestRetry_PauseEndsWithContext(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		u := b.user()
		b.top(u)
		b.server.DropRequest("create", "/top")
		got, err := b.client(u.Tree, zklatch.RetryForever{Interval: time.Hour}).Mutex(b.path+"/top", nil).TryAcquire(t.Context(), time.Second)
		require.NoError(t, err)
		assert.False(t, got)
	})
}

// Whatever the policy, a conditional write whose answer was lost is not repeated by it.
func TestRetry_UnknownOutcomeOfAConditionalWriteAsksNoPolicy(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		u := b.user()
		top, owner := b.top(u), conclave.NodeID{}
		_, err := u.Create(t.Context(), top+"/term", fmt.Appendf(nil, `{"term":1,"leader":%q,"node":%q}`, owner, top), zklatch.Persistent)
		require.NoError(t, err)
		policy := &asked{refuse: 10}
		c := b.client(u.Tree, policy)
		b.server.LoseReply("multi", "/state")
		_, err = c.Fenced(t.Context(), top, owner, 1, top+"/state", []byte("1"))
		assert.ErrorIs(t, err, zklatch.ErrConnectionLost)
		_, stat, err := u.Get(t.Context(), top+"/state")
		require.NoError(t, err)
		assert.Equal(t, int32(1), stat.Version, "it was written once")
		assert.Empty(t, policy.counts)
	})
}

// A latch tries until it is closed, whatever the policy: a strategy must not lose its
// candidate to it.
func TestLatch_TriesWhateverThePolicy(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		u := b.user()
		for range 10 {
			b.server.DropRequest("create", "/leader")
		}
		l := b.client(u.Tree, zklatch.RetryNTimes{}).Latch(b.path+"/leader", "l")
		require.NoError(t, l.Start())
		require.NoError(t, l.Await(t.Context()))
		assert.Zero(t, b.server.Faults())
		require.NoError(t, l.Close(context.Background(), zklatch.Silent))
	})
}

// A selector whose acquisition is refused a retry leaves the queue, as after a
// leadership: it stands again by AutoRequeue, or when it is asked to.
func TestSelector_RefusedRetryEndsItsTurn(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		u := b.user()
		b.top(u)
		for _, again := range []bool{false, true} {
			b.server.DropRequest("create", "/top")
			led := make(chan bool, 100)
			s := b.client(u.Tree, zklatch.RetryNTimes{}).Selector(b.path+"/top", zklatch.SelectorConfig{
				AutoRequeue:    again,
				TakeLeadership: func(ctx context.Context) error { led <- true; <-ctx.Done(); return nil },
			})
			require.NoError(t, s.Start())
			if !again {
				b.until("its turn to end", s.Requeue)
			}
			<-led
			s.Close()
		}
	})
}
