package zklatch_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector/zklatch"
)

// Ours, after Curator: a result reports whether the operation has succeeded, and the
// numbers before and after it.
func TestAtomicLong_Results(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		n := b.user().AtomicLong(b.path+"/deep/n", zklatch.AtomicLongConfig{})
		is := func(want zklatch.AtomicValue) func(zklatch.AtomicValue, error) {
			return func(got zklatch.AtomicValue, err error) {
				t.Helper()
				require.NoError(t, err)
				assert.Equal(t, want, got)
			}
		}
		ctx := t.Context()
		is(zklatch.AtomicValue{Succeeded: true})(n.Get(ctx))
		is(zklatch.AtomicValue{Pre: 0})(n.CompareAndSet(ctx, 0, 2)) // it was never set
		first, err := n.Initialize(ctx, 5)
		require.NoError(t, err)
		assert.True(t, first)
		first, err = n.Initialize(ctx, 6)
		require.NoError(t, err)
		assert.False(t, first, "it was set before")
		is(zklatch.AtomicValue{Succeeded: true, Pre: 5, Post: 2})(n.Add(ctx, -3))
		is(zklatch.AtomicValue{Succeeded: true, Pre: 2, Post: math.MaxInt64})(n.TrySet(ctx, math.MaxInt64))
		is(zklatch.AtomicValue{Succeeded: true, Pre: math.MaxInt64, Post: -1})(n.CompareAndSet(ctx, math.MaxInt64, -1))
		is(zklatch.AtomicValue{Pre: -1})(n.CompareAndSet(ctx, 0, 7))
		require.NoError(t, n.Set(ctx, 258))
		is(zklatch.AtomicValue{Succeeded: true, Pre: 258, Post: 258})(n.Get(ctx))
		u := b.user()
		data, _, err := u.Tree.Get(ctx, b.path+"/deep/n")
		require.NoError(t, err)
		assert.Equal(t, []byte{0, 0, 0, 0, 0, 0, 1, 2}, data, "as Curator stores it")
		require.NoError(t, u.AtomicLong(b.path+"/other", zklatch.AtomicLongConfig{}).Set(ctx, 1), "it creates the node")
		_, err = u.Tree.Set(ctx, b.path+"/deep/n", []byte("258"), zklatch.AnyVersion)
		require.NoError(t, err)
		_, err = n.Add(ctx, 1)
		assert.ErrorContains(t, err, "3 bytes are no number")
		require.NoError(t, n.Set(ctx, 3), "whatever is there")
		is(zklatch.AtomicValue{Succeeded: true, Pre: 3, Post: 3})(n.Get(ctx))
	})
}

// The number is the sum of what has succeeded, and each success begins with the number
// with which another one has ended: they are one chain.
func TestAtomicLong_ConcurrentAdds(t *testing.T) {
	for name, lock := range map[string]string{"without a mutex": "", "with one": "/lock"} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, b *bench) {
				cfg := zklatch.AtomicLongConfig{Tries: 2}
				if lock != "" {
					cfg.Lock = b.path + lock
				}
				const adders, each = 4, 10
				results := make(chan zklatch.AtomicValue, adders*each)
				var all []func(context.Context) error
				for i := range adders {
					n, delta := b.user().AtomicLong(b.path+"/n", cfg), int64(i+1)
					all = append(all, func(ctx context.Context) error {
						for range each {
							r, err := n.Add(ctx, delta)
							if err != nil {
								return err
							}
							if r.Succeeded {
								assert.Equal(t, r.Pre+delta, r.Post)
								results <- r
							}
						}
						return nil
					})
				}
				b.together(all...)
				close(results)
				sum, from, to := int64(0), []int64{}, []int64{0}
				for r := range results {
					sum, from, to = sum+r.Post-r.Pre, append(from, r.Pre), append(to, r.Post)
				}
				slices.Sort(from)
				slices.Sort(to)
				assert.NotEmpty(t, from, "some have succeeded")
				r, err := b.user().AtomicLong(b.path+"/n", cfg).Get(t.Context())
				require.NoError(t, err)
				assert.Equal(t, sum, r.Post)
				assert.Equal(t, append(from, sum), to, "each number is the result of one, and the start of one more")
			})
		})
	}
}

// rival writes data before each write of the client, as long as rounds are left.
type rival struct {
	zklatch.Tree
	data    []byte
	left    int
	onWrite func() // called by each write
}

func (r *rival) Set(ctx context.Context, path string, data []byte, version int32) (zklatch.Stat, error) {
	r.onWrite()
	if r.left > 0 {
		r.left--
		if _, err := r.Tree.Set(ctx, path, r.data, zklatch.AnyVersion); err != nil {
			return zklatch.Stat{}, err
		}
	}
	return r.Tree.Set(ctx, path, data, version)
}

// After the optimistic tries a change is tried under the mutex, if there is one.
func TestAtomicLong_TriesThenLocks(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		look := b.user()
		require.NoError(t, look.AtomicLong(b.path+"/n", zklatch.AtomicLongConfig{}).Set(t.Context(), 1))
		// add adds 1 against a rival that writes 50 before the first writes, and
		// returns how many holders the mutex had at each write.
		add := func(rounds int, cfg zklatch.AtomicLongConfig) (zklatch.AtomicValue, []int) {
			var holders []int
			tree := &rival{Tree: b.user().Tree, data: []byte{0, 0, 0, 0, 0, 0, 0, 50}, left: rounds, onWrite: func() { holders = append(holders, len(b.names(look, "/lock"))) }}
			c := zklatch.NewClient(tree, zklatch.ClientConfig{})
			defer c.Close()
			r, err := c.AtomicLong(b.path+"/n", cfg).Add(t.Context(), 1)
			require.NoError(t, err)
			return r, holders
		}
		with := zklatch.AtomicLongConfig{Tries: 2, Lock: b.path + "/lock"}
		r, holders := add(1, with)
		assert.Equal(t, zklatch.AtomicValue{Succeeded: true, Pre: 50, Post: 51}, r)
		assert.Equal(t, []int{0, 0}, holders, "the second try is optimistic")
		r, holders = add(3, with)
		assert.Equal(t, zklatch.AtomicValue{Succeeded: true, Pre: 50, Post: 51}, r)
		assert.Equal(t, []int{0, 0, 1, 1}, holders, "two tries without the mutex, two with it")
		assert.Empty(t, b.names(look, "/lock"), "it was released")
		r, holders = add(9, with)
		assert.Equal(t, zklatch.AtomicValue{Pre: 50}, r, "the rival does not use the mutex")
		assert.Equal(t, []int{0, 0, 1, 1}, holders)
		r, holders = add(2, zklatch.AtomicLongConfig{Tries: 2})
		assert.Equal(t, zklatch.AtomicValue{Pre: 50}, r)
		assert.Equal(t, []int{0, 0}, holders, "there is no mutex")

		held := look.Mutex(b.path+"/lock", nil)
		require.NoError(t, held.Acquire(t.Context()))
		with.LockLimit = time.Second
		began := time.Now()
		r, _ = add(2, with)
		assert.Equal(t, zklatch.AtomicValue{Pre: 50}, r)
		assert.Equal(t, time.Second, time.Since(began), "it does not wait longer for the mutex")
	})
}

func TestAtomicLong_LostAnswer(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		n := b.user().AtomicLong(b.path+"/n", zklatch.AtomicLongConfig{})
		require.NoError(t, n.Set(t.Context(), 1))
		b.server.LoseReply("get", "/n")
		r, err := n.Add(t.Context(), 1)
		require.NoError(t, err)
		assert.True(t, r.Succeeded, "a read is repeated")
		b.server.LoseReply("set", "/n")
		_, err = n.Add(t.Context(), 1)
		assert.ErrorIs(t, err, zklatch.ErrConnectionLost, "the outcome is unknown")
		r, err = n.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, int64(3), r.Post, "it was written, once")

		fresh := b.user().AtomicLong(b.path+"/fresh", zklatch.AtomicLongConfig{})
		b.server.LoseReply("create", "/fresh")
		_, err = fresh.Add(t.Context(), 1)
		assert.ErrorIs(t, err, zklatch.ErrConnectionLost)
		r, err = fresh.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, int64(1), r.Post, "it was created, once")
	})
}

// A write that was not executed, because the session had ended, is repeated as the
// policy allows: it is counted once.
func TestAtomicLong_SessionThatEnds(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		for _, exists := range []bool{false, true} {
			u := b.user()
			path := fmt.Sprint(b.path, "/n-", exists)
			if exists {
				require.NoError(t, u.AtomicLong(path, zklatch.AtomicLongConfig{}).Set(t.Context(), 0))
			}
			tree := &expiring{Tree: u.Tree, path: path, left: 2}
			r, err := b.client(tree, zklatch.RetryNTimes{N: 2}).AtomicLong(path, zklatch.AtomicLongConfig{}).Add(t.Context(), 1)
			require.NoError(t, err)
			assert.Equal(t, zklatch.AtomicValue{Succeeded: true, Post: 1}, r)
			tree.left = 2
			_, err = b.client(tree, zklatch.RetryOneTime{}).AtomicLong(path, zklatch.AtomicLongConfig{}).Add(t.Context(), 1)
			assert.ErrorIs(t, err, zklatch.ErrRetryRefused)
			assert.ErrorIs(t, err, zklatch.ErrSessionExpired)
			r, err = u.AtomicLong(path, zklatch.AtomicLongConfig{}).Get(t.Context())
			require.NoError(t, err)
			assert.Equal(t, int64(1), r.Post)
		}
	})
}

// expiring is a Tree whose session ends before writes of a node, as often as is left.
type expiring struct {
	zklatch.Tree
	path string
	left int
}

func (e *expiring) expires(path string) bool {
	if path != e.path || e.left == 0 {
		return false
	}
	e.left--
	return true
}

func (e *expiring) Create(ctx context.Context, path string, data []byte, kind zklatch.Kind) (string, error) {
	if e.expires(path) {
		return "", zklatch.ErrSessionExpired
	}
	return e.Tree.Create(ctx, path, data, kind)
}

func (e *expiring) Set(ctx context.Context, path string, data []byte, version int32) (zklatch.Stat, error) {
	if e.expires(path) {
		return zklatch.Stat{}, zklatch.ErrSessionExpired
	}
	return e.Tree.Set(ctx, path, data, version)
}
