package zklatch_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/lab/article004/zklatch"
	"conclave/lab/article004/zklatch/memtree"
)

// Article 004: creatingParentContainersIfNeeded makes the missing parents containers,
// which the servers delete when they are empty.
func TestArticleMissingParentsAreContainers(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		u := b.user()
		m := u.Mutex(b.path+"/parents/of/lock", nil)
		require.NoError(t, m.Acquire(b.limited()))
		if b.server == nil {
			return // a real one does not tell containers, and deletes empty ones each minute
		}
		assert.Empty(t, b.server.Sweep(), "in use")
		require.NoError(t, m.Release(b.limited()))
		for _, path := range []string{"/parents/of/lock", "/parents/of", "/parents"} {
			assert.Equal(t, []string{b.path + path}, b.server.Sweep())
		}
		require.NoError(t, m.Acquire(b.limited()), "the parents are created again")
		require.NoError(t, m.Release(b.limited()))
		assert.Equal(t, []string{b.path + "/parents/of/lock"}, b.server.Sweep())
	})
}

// A container is deleted after it was created and before the node is created in it:
// Create returns ErrNoNode, which starts again as often as the policy allows.
//
// Article 004: a NoNodeException of createsTheLock asks allowRetry.
func TestArticleAQueueThatIsDeletedDuringTheCreateStartsAgain(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		other := b.user()
		sweeps, sweeping := 0, false
		b.beforeEach(func(op memtree.Op, path string) {
			if op != memtree.Create || !strings.Contains(path, "/lock/_c_") || sweeps == 0 || sweeping {
				return
			}
			sweeps--
			sweeping = true // the other client's request is not disturbed
			defer func() { sweeping = false }()
			m := other.Mutex(b.path+"/lock", nil)
			require.NoError(t, m.Acquire(b.limited()))
			require.NoError(t, m.Release(b.limited()))
			assert.Equal(t, []string{b.path + "/lock"}, b.server.Sweep())
		})
		sweeps = 5 // two for each try, of which the first makes the parents needed
		policy := &asked{refuse: 4}
		m := b.retrying(policy.allow).Mutex(b.path+"/lock", nil)
		require.NoError(t, m.Acquire(b.limited()))
		assert.True(t, m.Held())
		assert.Equal(t, []int{0, 1}, policy.counts)
		require.NoError(t, m.Release(b.limited()))

		sweeps = 2
		err := b.retrying((&asked{}).allow).Mutex(b.path+"/lock", nil).Acquire(b.limited())
		assert.ErrorIs(t, err, zklatch.ErrRetryRefused)
		assert.ErrorIs(t, err, zklatch.ErrNoNode)

		sweeps = 20 // the default
		require.NoError(t, b.user().Mutex(b.path+"/lock", nil).Acquire(b.limited()))
		assert.Zero(t, sweeps)
	})
}
