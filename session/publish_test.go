package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What one client publishes is pushed to a client of another session, with each
// change, and the withdrawal at once.
func TestPublishSeenElsewhere(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("the first push is empty", sub.shows())
		pub := c.published(c.client("writer", "session-1"), "svc", "a")
		c.eventually("the value is seen", sub.shows("a"))
		require.NoError(t, pub.Update([]string{"b", "c"}))
		c.eventually("the update is seen", sub.shows("b", "c"))
		require.NoError(t, pub.Withdraw())
		ctx, cancel := context.WithTimeout(c.ctx, time.Second)
		defer cancel()
		require.NoError(t, pub.Stored(ctx))
		c.eventually("the withdrawal is seen", sub.shows())
		last := int64(0)
		for _, d := range sub.all() {
			assert.Greater(t, d.Version, last, "versions rise per subscriber")
			last = d.Version
		}
		assert.Len(t, sub.all(), 4)
	})
}
