package zklatch_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector/zklatch"
)

// fakeLock notes its calls, and returns the errors given.
type fakeLock struct {
	name             string
	calls            *log
	acquire, release error
}

func (f fakeLock) Acquire(context.Context) error {
	f.calls.say("acquire " + f.name)
	return f.acquire
}

func (f fakeLock) Release(ctx context.Context) error {
	f.calls.say("release " + f.name)
	return errors.Join(f.release, ctx.Err())
}

// Ours, after Curator: all locks are acquired in order and released in reverse order,
// all of them even if one fails; if one cannot be acquired, those before it are released.
func TestMultiLock_AllOrNone(t *testing.T) {
	full, stuck := errors.New("full"), errors.New("stuck")
	for name, c := range map[string]struct {
		b, c     fakeLock
		acquired error
		calls    []string // of Acquire
		released error
	}{
		"all":             {calls: []string{"acquire a", "acquire b", "acquire c"}},
		"one stays":       {b: fakeLock{release: stuck}, calls: []string{"acquire a", "acquire b", "acquire c"}, released: stuck},
		"the last fails":  {c: fakeLock{acquire: full}, acquired: full, calls: []string{"acquire a", "acquire b", "acquire c", "release b", "release a"}},
		"and one remains": {b: fakeLock{release: stuck}, c: fakeLock{acquire: full}, acquired: stuck, calls: []string{"acquire a", "acquire b", "acquire c", "release b", "release a"}},
	} {
		t.Run(name, func(t *testing.T) {
			var calls log
			c.b.name, c.c.name, c.b.calls, c.c.calls = "b", "c", &calls, &calls
			m := zklatch.NewMultiLock(fakeLock{name: "a", calls: &calls}, c.b, c.c)
			err := m.Acquire(t.Context())
			assert.Equal(t, c.calls, calls.all())
			if c.acquired != nil {
				assert.ErrorIs(t, err, c.acquired)
				assert.ErrorIs(t, err, full)
				return
			}
			require.NoError(t, err)
			assert.ErrorIs(t, m.Release(t.Context()), c.released)
			assert.Equal(t, []string{"release c", "release b", "release a"}, calls.all()[3:])
		})
	}
}

func TestMultiLock_TimeLimitReleasesAll(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		multi := func() *zklatch.MultiLock {
			u := b.user()
			return zklatch.NewMultiLock(u.Mutex(b.path+"/a", nil), u.SemaphoreMutex(b.path+"/b"))
		}
		u := b.user()
		second := u.SemaphoreMutex(b.path + "/b")
		require.NoError(t, second.Acquire(t.Context()))
		got, err := multi().TryAcquire(t.Context(), 300*time.Millisecond)
		require.NoError(t, err)
		assert.False(t, got)
		b.until("the first to be released", func() bool { return len(b.names(u, "/a")) == 0 })
		b.until("the place in the second to go", func() bool { return len(b.names(u, "/b")) == 1 })
		require.NoError(t, second.Release(t.Context()))

		m := multi()
		got, err = m.TryAcquire(t.Context(), 5*time.Second)
		require.NoError(t, err)
		require.True(t, got)
		assert.Len(t, b.names(u, "/a"), 1)
		assert.Len(t, b.names(u, "/b"), 1)
		require.NoError(t, m.Release(t.Context()))
		assert.Empty(t, b.names(u, "/a"))
		assert.Empty(t, b.names(u, "/b"))
		assert.ErrorIs(t, m.Release(t.Context()), zklatch.ErrNotHeld)
	})
}

// A lock that cannot be released after the time limit is reported: it may be held.
func TestMultiLock_FailedReleaseAtTheTimeLimit(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		holder := b.user().Mutex(b.path+"/b", nil)
		require.NoError(t, holder.Acquire(t.Context()))
		for _, failed := range []error{nil, errors.New("stuck"), context.DeadlineExceeded} {
			var calls log
			m := zklatch.NewMultiLock(fakeLock{name: "a", calls: &calls, release: failed}, b.user().Mutex(b.path+"/b", nil))
			got, err := zklatch.NewMultiLock(m).TryAcquire(t.Context(), time.Second)
			assert.False(t, got)
			assert.Equal(t, []string{"acquire a", "release a"}, calls.all())
			if failed == nil {
				assert.NoError(t, err)
				continue
			}
			assert.ErrorIs(t, err, failed)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}
	})
}
