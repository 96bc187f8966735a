package versioncas_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector/electortest"
	"conclave/lab/article003/versioncas"
)

// The repaired form swaps from the version that it has judged: a candidate that is
// late matches nothing, whether another has won or the leader has renewed since. If the
// database's clock was set back, the version alone decides.
func TestArticleRepairedLateCandidateMatchesNothing(t *testing.T) {
	const lease = 3 * time.Second
	for _, test := range []struct {
		name           string
		renews, behind bool
	}{
		{"two followers", false, false}, {"a living leader", true, false},
		{"two followers, the clock set back", false, true}, {"a living leader, the clock set back", true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				require.NoError(t, versioncas.Migrate(t.Context(), w.DB, key))
				leader, first, late := w.candidate(t, "leader", lease), w.candidate(t, "first", lease), w.candidate(t, "late", lease)
				require.True(t, leader.round(t))
				first.round(t)
				late.round(t)
				if test.behind {
					_, err := w.DB.Exec(t.Context(), "UPDATE leader_version SET tick_time = DATE_ADD(tick_time, INTERVAL 1 HOUR)")
					require.NoError(t, err)
				}
				time.Sleep(3*lease + time.Second)
				next := first
				if test.renews {
					next = leader
				}
				late.cable.Before("leader_version", func() { // it reads the row, and judges the term expired
					late.cable.Before("leader_version", func() { // whatever it sends next is late
						assert.True(t, next.round(t))
						next = nil
					})
				})
				assert.False(t, late.round(t))
				require.Nil(t, next, "it has tried")
				if test.renews {
					assert.True(t, leader.round(t), "it leads on")
				} else {
					assert.True(t, first.round(t), "the winner leads on")
				}
			})
		})
	}
}

// After a re-election the winner of the repaired form knows the version that it wrote.
func TestArticleRepairedWinnerKnowsItsVersion(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := electortest.NewCluster(t, suite.World(t, w.World, 3*time.Second, time.Second/2), 2)
		defer c.Stop()
		first, term := c.Leader()
		c.Until("some ticks", func() bool { return first.Current().Beat >= 4 })
		first.Kill()
		second, next := c.LeaderAfter(term.Number)
		assert.GreaterOrEqual(t, next.Number, uint64(6), "a term is the version with which it began")
		time.Sleep(time.Minute)
		now, leading := second.Leading()
		assert.True(t, leading)
		assert.Equal(t, next.Number, now.Number, "a minute later, the same term")
		assert.Zero(t, second.Stats().Ended)
		var version uint64
		require.NoError(t, w.DB.QueryRow(t.Context(), "SELECT version FROM leader_version", nil, &version))
		assert.InDelta(t, now.Number+now.Beat, version, 1)
	})
	inBubble(t, func(t *testing.T, w *world) { // each renewal is one statement, also the first after a win
		require.NoError(t, versioncas.Migrate(t.Context(), w.DB, key))
		first, second := w.candidate(t, "first", time.Second), w.candidate(t, "second", time.Second)
		require.True(t, first.round(t))
		require.True(t, first.round(t))
		require.False(t, second.round(t))
		time.Sleep(time.Second)
		require.True(t, second.round(t))
		for range 3 {
			before := second.db.Statements()
			require.True(t, second.round(t))
			assert.Equal(t, before+1, second.db.Statements(), "from the version that it knows")
		}
	})
}

// The repaired form compares no clocks of two machines.
func TestArticleRepairedComparesNoClocks(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := electortest.NewCluster(t, suite.World(t, w.World, 3*time.Second, time.Second/2), 3)
		defer c.Stop()
		leader, term := c.Leader()
		for range 1000 { // the database's clock is an hour ahead of each tick
			_, err := w.DB.Exec(t.Context(), "UPDATE leader_version SET tick_time = DATE_SUB(NOW(3), INTERVAL 1 HOUR)")
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
		}
		now, leading := leader.Leading()
		assert.True(t, leading)
		assert.Equal(t, term.Number, now.Number)

		// A clock that is set back does not keep a dead leader's term alive: three
		// leases of observation are enough.
		leader.Kill()
		_, err := w.DB.Exec(t.Context(), "UPDATE leader_version SET tick_time = DATE_ADD(NOW(3), INTERVAL 1 HOUR)")
		require.NoError(t, err)
		began := time.Now()
		c.LeaderAfter(term.Number)
		assert.Less(t, time.Since(began), 10*time.Second)
	})
}

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
