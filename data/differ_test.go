package data_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/slot"
)

// The session refuses the diffs of more slots than there are workers for it.
// The other slots do not wait behind them, and the refused ones are served as
// soon as it answers.
func TestDiffer_RefusedFencesDelayNoOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		const slots, held = 64, 40
		c.auto = true
		s := c.session("session-1", true)
		s.holds = func(id int) bool { return id < held }
		n := c.data("data-1")
		c.make(slots)
		served := func(from, to int) (count int) {
			for _, row := range c.table().Slots[from:to] {
				if row.Phase == slot.Stable {
					count++
				}
			}
			return count
		}
		eventually(t, 2*time.Second, "the others are served", func() bool { return served(held, slots) == slots-held })
		assert.Zero(t, served(0, held), "refused")
		time.Sleep(5 * time.Second)
		assert.Zero(t, served(0, held), "still refused")
		s.mu.Lock()
		s.holds = nil
		s.mu.Unlock()
		eventually(t, time.Second, "all are served", func() bool { return c.table().StableAll() })
		require.Empty(t, n.err)
	})
}
