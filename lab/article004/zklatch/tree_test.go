package zklatch_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/lab/article004/zklatch"
)

// What the recipes rely on, tested on a server in memory and on a real ZooKeeper.

func TestTree_Nodes(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		u := b.user()
		ctx, top := t.Context(), b.top(u)

		path, err := u.Create(ctx, top+"/a", []byte("one"), zk.FlagPersistent)
		require.NoError(t, err)
		assert.Equal(t, top+"/a", path)
		_, err = u.Create(ctx, top+"/a", nil, zk.FlagPersistent)
		assert.ErrorIs(t, err, zklatch.ErrNodeExists)
		_, err = u.Create(ctx, top+"/none/a", nil, zk.FlagPersistent)
		assert.ErrorIs(t, err, zklatch.ErrNoNode, "parents are not created")

		data, first, err := u.Get(ctx, top+"/a")
		require.NoError(t, err)
		assert.Equal(t, "one", string(data))
		assert.Zero(t, first.Version)
		assert.Zero(t, first.EphemeralOwner)

		second, err := u.Set(ctx, top+"/a", []byte("two"), 0)
		require.NoError(t, err)
		assert.Equal(t, int32(1), second.Version)
		_, err = u.Set(ctx, top+"/a", nil, 0)
		assert.ErrorIs(t, err, zk.ErrBadVersion)
		_, err = u.Set(ctx, top+"/a", []byte("three"), zklatch.AnyVersion)
		require.NoError(t, err)
		_, err = u.Set(ctx, top+"/none", nil, zklatch.AnyVersion)
		assert.ErrorIs(t, err, zklatch.ErrNoNode)

		assert.ErrorIs(t, u.Delete(ctx, top+"/a", 0), zk.ErrBadVersion)
		assert.ErrorContains(t, u.Delete(ctx, top, zklatch.AnyVersion), "children")
		require.NoError(t, u.Delete(ctx, top+"/a", 2))
		assert.ErrorIs(t, u.Delete(ctx, top+"/a", zklatch.AnyVersion), zklatch.ErrNoNode)
		_, _, err = u.Get(ctx, top+"/a")
		assert.ErrorIs(t, err, zklatch.ErrNoNode)
		_, err = u.Children(ctx, top+"/a")
		assert.ErrorIs(t, err, zklatch.ErrNoNode)
	})
}

// top creates the bench's path.
func (b *bench) top(u *user) string {
	b.t.Helper()
	m := u.Mutex(b.path+"/top", nil) // a recipe creates the parents of its path
	require.NoError(b.t, m.Acquire(b.t.Context()))
	require.NoError(b.t, m.Release(b.t.Context()))
	b.until("the lock to be gone", func() bool { return len(b.names(u, "/top")) == 0 })
	return b.path + "/top"
}

// The numbers only rise, whatever is deleted, and whatever the names before them are.
func TestTree_NumbersRise(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		u := b.user()
		top := b.top(u) + "/numbers"
		_, err := u.Create(t.Context(), top, nil, zk.FlagPersistent)
		require.NoError(t, err)
		for i, name := range []string{"z-", "a-", "m-", "a-"} {
			kind := []int32{zk.FlagEphemeralSequential, zk.FlagSequence}[i%2]
			path, err := u.Create(t.Context(), top+"/"+name, nil, kind)
			require.NoError(t, err)
			assert.Equal(t, fmt.Sprintf("%s/%s%010d", top, name, i), path)
			if i == 1 {
				require.NoError(t, u.Delete(t.Context(), path, zklatch.AnyVersion))
			}
		}
	})
}

// A watch reports the next change, once. On a missing node no watch is set.
func TestTree_WatchesFireOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		u, other := b.user(), b.user()
		path := b.top(u) + "/a"
		_, _, _, err := u.GetW(t.Context(), path)
		assert.ErrorIs(t, err, zklatch.ErrNoNode)
		_, err = other.Create(t.Context(), path, nil, zk.FlagPersistent)
		require.NoError(t, err)
		_, _, changes, err := u.GetW(t.Context(), path)
		require.NoError(t, err)
		_, err = other.Set(t.Context(), path, []byte("1"), 0)
		require.NoError(t, err)
		_, err = other.Set(t.Context(), path, []byte("2"), 1)
		require.NoError(t, err)
		assert.Equal(t, zk.EventNodeDataChanged, (<-changes).Type)
		_, more := <-changes
		assert.False(t, more, "no second event")

		data, _, gone, err := u.GetW(t.Context(), path)
		require.NoError(t, err)
		assert.Equal(t, "2", string(data))
		require.NoError(t, other.Delete(t.Context(), path, zklatch.AnyVersion))
		assert.Equal(t, zk.EventNodeDeleted, (<-gone).Type)
	})
}

// A watch on children reports the next name that is added or removed, once, also if it
// was missed without a connection, and the deletion of the node; not that a child was
// written.
func TestTree_WatchesOnChildren(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		u, other := b.user(), b.user()
		path := b.top(u) + "/parent"
		_, _, err := u.ChildrenW(t.Context(), path)
		assert.ErrorIs(t, err, zklatch.ErrNoNode)
		_, err = other.Create(t.Context(), path, nil, zk.FlagPersistent)
		require.NoError(t, err)
		watch := func(want ...string) <-chan zk.Event {
			names, events, err := u.ChildrenW(t.Context(), path)
			require.NoError(t, err)
			assert.ElementsMatch(t, want, names)
			return events
		}
		const changed = zk.EventNodeChildrenChanged

		events := watch()
		_, err = other.Create(t.Context(), path+"/a", nil, zk.FlagEphemeral)
		require.NoError(t, err)
		_, err = other.Create(t.Context(), path+"/b", nil, zk.FlagPersistent)
		require.NoError(t, err)
		assert.Equal(t, changed, (<-events).Type)
		_, more := <-events
		assert.False(t, more, "no second event")

		events = watch("a", "b")
		_, err = other.Set(t.Context(), path+"/b", []byte("1"), zklatch.AnyVersion)
		require.NoError(t, err)
		_, err = other.Set(t.Context(), path, []byte("1"), zklatch.AnyVersion)
		require.NoError(t, err)
		_, _, err = u.Get(t.Context(), path) // an event would have come before this answer
		require.NoError(t, err)
		assert.Empty(t, events)
		mend := u.cut()
		b.until("it to notice", func() bool { s, _ := u.Session(); return !s.Connected() })
		require.NoError(t, other.Delete(t.Context(), path+"/a", zklatch.AnyVersion))
		mend()
		assert.Equal(t, changed, (<-events).Type, "the missed event is reported")

		require.NoError(t, other.Delete(t.Context(), path+"/b", zklatch.AnyVersion))
		events = watch()
		mend = u.cut()
		b.until("it to notice", func() bool { s, _ := u.Session(); return !s.Connected() })
		mend()
		b.until("it to be connected", func() bool { s, _ := u.Session(); return s.Connected() })
		assert.Empty(t, events, "nothing was missed")
		require.NoError(t, other.Delete(t.Context(), path, zklatch.AnyVersion))
		assert.Equal(t, zk.EventNodeDeleted, (<-events).Type)
	})
}

// A container is created like a persistent node, and has any kind of children.
func TestTree_Containers(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		u := b.user()
		path := b.top(u) + "/container"
		made, err := u.Create(t.Context(), path, []byte("data"), zk.FlagContainer)
		require.NoError(t, err)
		assert.Equal(t, path, made)
		_, err = u.Create(t.Context(), path, nil, zk.FlagContainer)
		assert.ErrorIs(t, err, zklatch.ErrNodeExists)
		_, err = u.Create(t.Context(), path+"/none/a", nil, zk.FlagContainer)
		assert.ErrorIs(t, err, zklatch.ErrNoNode, "parents are not created")
		data, stat, err := u.Get(t.Context(), path)
		require.NoError(t, err)
		assert.Equal(t, "data", string(data))
		assert.Zero(t, stat.EphemeralOwner, "it does not end with a session")
		for _, kind := range []int32{zk.FlagPersistent, zk.FlagEphemeralSequential, zk.FlagSequence, zk.FlagContainer} {
			child, err := u.Create(t.Context(), path+"/child", nil, kind)
			require.NoError(t, err)
			require.NoError(t, u.Delete(t.Context(), child, zklatch.AnyVersion))
		}
	})
}

// A session outlives its connection by its timeout. Within it the nodes stay, and
// watches report what was missed; after it the nodes are deleted and the watches end.
func TestTree_Sessions(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		u, other := b.user(), b.user()
		top := b.top(other)
		mine, err := u.Create(t.Context(), top+"/mine", nil, zk.FlagEphemeral)
		require.NoError(t, err)
		watched, err := other.Create(t.Context(), top+"/watched", nil, zk.FlagPersistent)
		require.NoError(t, err)
		_, stat, err := other.Get(t.Context(), mine)
		require.NoError(t, err)
		before, _ := u.Session()
		assert.Equal(t, before.ID, stat.EphemeralOwner)
		assert.Positive(t, before.Timeout)
		assert.False(t, before.ConfirmedAt.After(time.Now()))

		_, _, missed, err := u.GetW(t.Context(), watched)
		require.NoError(t, err)
		mend := u.cut()
		b.until("it to notice", func() bool { s, _ := u.Session(); return !s.Connected() })
		_, err = other.Set(t.Context(), watched, []byte("changed"), zklatch.AnyVersion)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, _, err = u.Get(ctx, watched)
		cancel()
		assert.ErrorIs(t, err, context.DeadlineExceeded, "a request waits for a connection")
		mend()
		assert.Equal(t, zk.EventNodeDataChanged, (<-missed).Type, "the missed event is reported")
		after, _ := u.Session()
		assert.Equal(t, before.ID, after.ID)
		assert.Greater(t, after.Link, before.Link)
		_, _, err = u.Get(t.Context(), mine)
		require.NoError(t, err, "the node has stayed")

		_, _, over, err := u.GetW(t.Context(), watched)
		require.NoError(t, err)
		_, _, gone, err := other.GetW(t.Context(), mine)
		require.NoError(t, err)
		mend = u.cut()
		cut := time.Now()
		assert.Equal(t, zk.EventNodeDeleted, (<-gone).Type, "the node is deleted with its session")
		last, _ := u.Session()
		assert.False(t, time.Now().Before(last.Until()), "not before the client's own deadline, %v after the cut", time.Since(cut))
		mend()
		assert.Equal(t, zk.EventNotWatching, (<-over).Type)
		b.until("a new session", func() bool { s, _ := u.Session(); return s.Connected() && s.ID != before.ID })
		require.NoError(t, other.Delete(t.Context(), watched, zklatch.AnyVersion))
	})
}

// A client that closes its session deletes its nodes at once.
func TestTree_CloseDeletesNodes(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		u, other := b.user(), b.user()
		mine, err := u.Create(t.Context(), b.top(other)+"/mine", nil, zk.FlagEphemeral)
		require.NoError(t, err)
		_, _, gone, err := other.GetW(t.Context(), mine)
		require.NoError(t, err)
		began := time.Now()
		u.Close()
		<-gone
		assert.Less(t, time.Since(began), time.Second)
		_, err = u.Children(t.Context(), b.path)
		assert.ErrorIs(t, err, zklatch.ErrClosed)
	})
}
