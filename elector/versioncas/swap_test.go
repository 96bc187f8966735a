package versioncas_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector/electortest"
)

// A renewal whose answer is lost has raised the version; the next one continues from
// it.
func TestRenew_LostAnswerDeposesNoLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := electortest.NewCluster(t, suite.World(t, w.World, 3*time.Second, time.Second/2), 2)
		defer c.Stop()
		leader, term := c.Leader()
		for i := range 5 {
			before := leader.Current().Beat
			leader.Cable.LoseReply("version + 1")
			c.Until("a tick after the one that was lost", func() bool { return leader.Current().Beat >= before+3 })
			assert.Equal(t, i+1, leader.Cable.Lost())
		}
		now, leading := leader.Leading()
		assert.True(t, leading)
		assert.Equal(t, term.Number, now.Number)
	})
}

// A renewal that is executed long after its sender has given up matches nothing.
func TestRenew_LateStatementMatchesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := electortest.NewCluster(t, suite.World(t, w.World, 3*time.Second, time.Second/2), 2)
		defer c.Stop()
		old, term := c.Leader()
		deliver := old.Cable.Delay("version + 1")
		time.Sleep(2 * time.Second)
		require.NoError(t, old.Resign(t.Context()))
		next, nextTerm := c.LeaderAfter(term.Number)
		before := next.Current()
		deliver()
		old.Cable.Delivered()
		time.Sleep(10 * time.Second)
		now, leading := next.Leading()
		assert.True(t, leading)
		assert.Equal(t, nextTerm.Number, now.Number)
		assert.Greater(t, now.Beat, before.Beat)
	})
}
