package load_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/load"
)

// twoPublishers returns a ledger with two publishers of one dataId and one
// subscriber that has received the first value of both.
func twoPublishers() *load.Ledger {
	l := load.NewLedger()
	l.Publishing("a", "d")
	l.Publishing("b", "d")
	l.Subscribing("s", "d")
	l.Pushed("s", "d", 1, []string{"a#1", "b#1"})
	return l
}

func TestLedger_FindsNoViolationInACorrectHistory(t *testing.T) {
	l := load.NewLedger()
	l.Subscribing("s", "d")
	l.Pushed("s", "d", 1, nil) // correct: nothing was published
	l.Publishing("a", "d")
	l.Pushed("s", "d", 2, []string{"a#1"})
	l.Publishing("b", "d")
	l.Publishing("a", "d")
	l.Publishing("a", "d")
	l.Pushed("s", "d", 7, []string{"b#1", "a#3"})
	assert.Empty(t, l.Broken())
	assert.Zero(t, l.Behind())
	assert.Equal(t, 3, l.Pushes())
}

func TestLedger_FindsEachViolation(t *testing.T) {
	for what, c := range map[string]struct {
		version int64
		values  []string
		want    string
	}{
		"an empty push":          {2, nil, "I7: s is pushed d at version 2 without a"},
		"a missing publisher":    {2, []string{"a#1"}, "I7: s is pushed d at version 2 without b"},
		"the same version again": {1, []string{"a#1", "b#1"}, "I11: s is pushed d at version 1 after 1"},
		"a lower version":        {0, []string{"a#1", "b#1"}, "I11: s is pushed d at version 0 after 1"},
		"an unpublished value":   {2, []string{"a#1", "b#2"}, `"b#2" of d, which was not published`},
		"no value at all":        {2, []string{"a#1", "b#1", "x"}, `"x" of d, which was not published`},
	} {
		l := twoPublishers()
		assert.Empty(t, l.Broken(), what)
		l.Pushed("s", "d", c.version, c.values)
		require.NotEmpty(t, l.Broken(), what)
		assert.Contains(t, l.Broken()[0], c.want, what)
	}
	l := twoPublishers()
	l.Publishing("a", "d")
	l.Pushed("s", "d", 2, []string{"a#2", "b#1"})
	assert.Empty(t, l.Broken())
	l.Pushed("s", "d", 3, []string{"a#1", "b#1"})
	require.Len(t, l.Broken(), 1, "a fell back")
	assert.Contains(t, l.Broken()[0], "P2: ")
}

func TestLedger_MeasuresEachUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := load.NewLedger()
		l.Subscribing("s", "d")
		l.Publishing("a", "d")
		time.Sleep(10 * time.Millisecond)
		l.Publishing("a", "d") // merged with the first: both are seen 30 ms later
		time.Sleep(30 * time.Millisecond)
		assert.Equal(t, 1, l.Behind())
		l.Pushed("s", "d", 1, []string{"a#2"})
		require.NoError(t, l.AwaitSeen(context.Background()))
		v := l.Phase().Values()
		assert.Equal(t, 2, v.N)
		assert.InDelta(t, 30, v.Min, 0.1)
		assert.InDelta(t, 40, v.Max, 0.1)
		assert.Zero(t, l.Phase().Values().N, "a new phase is empty")
	})
}
