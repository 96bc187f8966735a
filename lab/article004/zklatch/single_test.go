package zklatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/lab/article004/zklatch/memtree"
)

// The holder learns that the answer to its deletion was lost when another one holds the
// lock.
func TestSingleNode_ALateReleaseLeavesTheNextHolderAlone(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		a, w := b.user(), b.user()
		b.top(a)
		held := a.SingleNode(b.path + "/top/single")
		second := w.SingleNode(b.path + "/top/single")
		require.NoError(t, held.Acquire(b.limited()))
		got := make(chan error, 1)
		go func() { got <- second.Acquire(b.limited()) }()
		synctest.Wait()
		b.lose(memtree.NotAnswered, memtree.Delete, "/single")
		require.NoError(t, held.Release(b.limited()))
		require.NoError(t, next(b, got))
		time.Sleep(timeout / 2)
		assert.Equal(t, []string{"single"}, b.names(w, "/top"), "the next holder's node")
		require.NoError(t, second.Release(b.limited()))
		assert.Empty(t, b.names(w, "/top"))
	})
}

func TestSingleNode_AnAcquireThatFailsLeavesNoNode(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		u, look := b.user(), b.user()
		b.top(u)
		b.lose(memtree.NotAnswered, memtree.Create, "/single")
		ctx, cancel := context.WithCancel(t.Context())
		b.lose(memtree.NotExecuted, memtree.Get, "/single")
		b.beforeEach(func(op memtree.Op, _ string) {
			if op == memtree.Create && b.left() == 0 {
				cancel()
			}
		})
		require.ErrorIs(t, u.SingleNode(b.path+"/top/single").Acquire(ctx), context.Canceled)
		time.Sleep(timeout)
		assert.Empty(t, b.names(look, "/top"))
	})
}

func TestSingleNode_AHandleThatHasLostTheLockLeavesItAlone(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		a, w := b.user(), b.user()
		b.top(w)
		lost, held := a.SingleNode(b.path+"/top/single"), w.SingleNode(b.path+"/top/single")
		require.NoError(t, lost.Acquire(b.limited()))
		session, _ := a.Session()
		b.server.Expire(session.ID)
		require.NoError(t, held.Acquire(b.limited()))
		require.NoError(t, lost.Release(b.limited()))
		require.NoError(t, a.SingleNode(b.path+"/top/single").Release(b.limited()), "a handle that never held it")
		time.Sleep(timeout)
		assert.Equal(t, []string{"single"}, b.names(w, "/top"))
	})
}
