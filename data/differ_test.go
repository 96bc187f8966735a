package data_test

import (
	"fmt"
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

// A node that is granted many slots at once compares those that are the same at a session
// by one request, and each of the others by its own. A session of 0.1.0 is asked for each.
func TestDiffer_ComparesManySlotsByOneRequest(t *testing.T) {
	for name, tt := range map[string]struct {
		old    bool
		differ int // slots in which the session has what the node has not
		least  int // requests
		most   int // as many workers ask at once, and each that differs is asked for alone
	}{
		"the same":         {least: 1, most: 16},
		"some differ":      {differ: 5, least: 1 + 5, most: 16 + 5*2},
		"an older session": {old: true, least: 64, most: 64},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				const slots = 64
				c.auto = true
				s := c.session("session-1", true)
				s.old = tt.old
				for id := range tt.differ {
					s.put(pub(dataIDIn(id, slots), fmt.Sprint("p", id), 1, "v"))
				}
				c.data("data-1")
				c.make(slots)
				eventually(t, time.Second, "all are served", func() bool { return c.table().StableAll() })
				assert.LessOrEqual(t, s.asked(), tt.most)
				assert.GreaterOrEqual(t, s.asked(), tt.least)
			})
		})
	}
}
