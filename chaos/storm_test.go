package chaos_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/chaos"
)

// One seed is one storm; it can be written down and read again; and all that
// lasts ends within the safety phase.
func TestStormsOfASeed(t *testing.T) {
	seen := map[chaos.Verb]bool{}
	for seed := range uint64(300) {
		s := chaos.Storm(seed, nil)
		assert.Equal(t, s, chaos.Storm(seed, nil))
		again, err := chaos.Parse("storm.txt", s.String())
		require.NoError(t, err, s.String())
		assert.Equal(t, s.String(), again.String())
		for _, step := range s.Steps {
			seen[step.Deed.Verb] = true
			assert.LessOrEqual(t, step.At+step.Deed.For, s.Until, step.String())
		}
	}
	for _, v := range []chaos.Verb{
		chaos.Kill, chaos.Stop, chaos.Pause, chaos.Cut, chaos.CutOne, chaos.Slow, chaos.Reset, chaos.HalfOpen,
		chaos.LoseNext, chaos.Skew, chaos.Hold, chaos.Resign,
	} {
		assert.True(t, seen[v], "no storm has ever %s", v)
	}
}

// A driver that cannot do something is never asked to; and two sessions are
// never in trouble within one grace.
func TestStormsKeepToTheirBudget(t *testing.T) {
	for seed := range uint64(300) {
		s := chaos.Storm(seed, func(v chaos.Verb) bool { return v != chaos.Hold && v != chaos.Skew })
		var ends time.Duration
		for _, step := range s.Steps {
			d := step.Deed
			assert.NotContains(t, []chaos.Verb{chaos.Hold, chaos.Skew}, d.Verb)
			if !strings.HasPrefix(string(d.Who), "session-") && !strings.HasPrefix(string(d.Whom), "session-") {
				continue
			}
			assert.GreaterOrEqual(t, step.At, ends, "seed %d: %s", seed, s)
			ends = step.At + d.For + 10*time.Second
		}
	}
}

// The shrinker keeps what the failure needs and nothing else, and makes it short.
func TestShrink(t *testing.T) {
	var s chaos.Scenario
	for i := range 40 {
		s.Steps = append(s.Steps, chaos.Step{At: time.Duration(i) * time.Second, Deed: &chaos.Deed{Verb: chaos.Pause, Who: "meta-1", For: 8 * time.Second}})
	}
	s.Steps[11].Deed = &chaos.Deed{Verb: chaos.Kill, Who: "data-1", For: 8 * time.Second}
	s.Steps[29].Deed = &chaos.Deed{Verb: chaos.Kill, Who: "data-2", For: 8 * time.Second}
	plays := 0
	short := chaos.Shrink(s, func(s chaos.Scenario) bool {
		plays++
		has := func(who chaos.Selector) bool {
			return slices.ContainsFunc(s.Steps, func(x chaos.Step) bool { return x.Deed.Who == who && x.Deed.For >= 2*time.Second })
		}
		return has("data-1") && has("data-2")
	})
	require.Len(t, short.Steps, 2)
	assert.Equal(t, "at 11s kill data-1 for 2s", short.Steps[0].String())
	assert.Equal(t, "at 29s kill data-2 for 2s", short.Steps[1].String())
	assert.Less(t, plays, 80)
	assert.Equal(t, 8*time.Second, s.Steps[11].Deed.For, "what was given is not changed")
}
