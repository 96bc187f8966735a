package zklatch_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/lab/article004/zklatch"
	"conclave/lab/article004/zklatch/memtree"
)

// asked is a RetryPolicy that records what it is asked, and refuses from a count on.
type asked struct {
	refuse  int
	counts  []int
	elapsed []time.Duration
}

func (p *asked) allow(retryCount int, elapsed time.Duration) (time.Duration, bool) {
	p.counts, p.elapsed = append(p.counts, retryCount), append(p.elapsed, elapsed)
	return time.Second, retryCount < p.refuse
}

// Article 004: ExponentialBackoffRetry, allowRetry(retryCount, elapsed).
func TestArticleRetryPoliciesAllowWhatCuratorsDo(t *testing.T) {
	allowed := func(p zklatch.ExponentialBackoffRetry, retryCount int) string {
		pause, ok := p.AllowRetry(retryCount, 0)
		return fmt.Sprint(ok, pause)
	}
	// base * max(1, random(1 << (n+1))), for the highest and the lowest random number
	var limit int64
	highest := func(n int64) int64 { limit = n; return n - 1 }
	for retryCount, want := range []time.Duration{1, 3, 7, 15, 31, 63, 127, 255, 511, 1023} {
		p := zklatch.ExponentialBackoffRetry{BaseSleep: time.Second, MaxRetries: 10, Random: highest}
		assert.Equal(t, fmt.Sprint(true, want*time.Second), allowed(p, retryCount))
		assert.Equal(t, int64(2)<<retryCount, limit, "random numbers are below 1 << (%d+1)", retryCount)
		p.Random = func(int64) int64 { return 0 }
		assert.Equal(t, "true 1s", allowed(p, retryCount), "at least the base")
		for range 100 { // by chance
			p.Random = nil
			pause, ok := p.AllowRetry(retryCount, 0)
			assert.True(t, ok && time.Second <= pause && pause <= want*time.Second && pause%time.Second == 0, "%v", pause)
		}
	}
	article := zklatch.ExponentialBackoffRetry{BaseSleep: time.Second, MaxRetries: 10}
	assert.Equal(t, "false 0s", allowed(article, 10))
	many := zklatch.ExponentialBackoffRetry{BaseSleep: time.Millisecond, MaxRetries: 1000, Random: highest}
	assert.Equal(t, fmt.Sprint(true, (1<<29-1)*time.Millisecond), allowed(many, 28))
	assert.Equal(t, "false 0s", allowed(many, 29), "29 retries at most")
}

// Article 004: in attemptLock a lost place asks allowRetry(retryCount++, time since the
// start): again from the start, or the error.
func TestArticleALostPlaceAsksTheRetryPolicy(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		policy := &asked{refuse: 2}
		holder, u := b.user(), b.retrying(policy.allow)
		held := holder.Mutex(b.path+"/lock", nil)
		require.NoError(t, held.Acquire(b.limited()))
		m := u.Mutex(b.path+"/lock", nil)
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
		err := next(b, acquired)
		assert.ErrorIs(t, err, zklatch.ErrRetryRefused)
		assert.ErrorIs(t, err, zklatch.ErrNoNode, "what was refused a retry")
		assert.Equal(t, []int{0, 1, 2}, policy.counts)
		for i, elapsed := range policy.elapsed {
			assert.InDelta(t, lost[i].Seconds(), elapsed.Seconds(), 1, "since the acquisition began")
		}
		b.until("nothing to be left of it", func() bool { return len(b.names(holder, "/lock")) == 1 })

		require.NoError(t, held.Release(b.limited()))
		require.NoError(t, m.Acquire(b.limited()), "the next acquisition counts from 0")
	})
}

// Article 004: allowRetry decides about a lost place only. A latch tries until it is
// closed, and a request that is not answered is repeated, whatever the policy.
func TestArticleALatchAndARequestTryWhateverThePolicy(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		u := b.retrying((&asked{}).allow)
		b.lose(memtree.NotAnswered, memtree.Create, "/lock/")
		m := u.Mutex(b.path+"/lock", nil)
		require.NoError(t, m.Acquire(b.limited()))
		assert.Zero(t, b.left())

		l := u.Latch(b.path+"/leader", "l")
		require.NoError(t, l.Start())
		require.NoError(t, l.Await(b.limited()))
		s, _ := u.Session()
		b.server.Expire(s.ID)
		b.until("the latch to notice", func() bool { return !l.HasLeadership() })
		require.NoError(t, l.Await(b.limited()))
		l.Close(context.Background(), zklatch.Silent)
	})
}
