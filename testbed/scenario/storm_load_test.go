package scenario_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/scenario"
)

// About every eighth storm gives its nodes budgets and ends with a burst, before
// which nothing else has failed for long enough that L23 and L24 check it. The
// others have neither, and no storm has any where nodes cannot have budgets.
func TestStorm_EveryEighthHasLoad(t *testing.T) {
	loaded, queued, among := 0, 0, 0
	for seed := range uint64(300) {
		assert.Equal(t, testbed.Budgets{}, scenario.Storm(seed, without(testbed.Hold)).Cluster.Budgets)
		s := scenario.Storm(seed, nil)
		last := s.Lines[len(s.Lines)-1]
		if s.Cluster.Budgets == (testbed.Budgets{}) {
			assert.NotEqual(t, testbed.Burst, last.Step.Verb)
			continue
		}
		loaded++
		if s.Cluster.Budgets.Session.Queue > 0 {
			queued++
		}
		assert.Equal(t, testbed.Burst, last.Step.Verb)
		assert.GreaterOrEqual(t, s.Until, last.At+last.Step.For+15*time.Second)
		for _, line := range s.Lines[:len(s.Lines)-1] {
			assert.Less(t, line.At+line.Step.For, last.At-check.SessionGrace-5*time.Second)
			if line.Step.Verb == testbed.Burst {
				among++
			}
		}
	}
	assert.InDelta(t, 300/8, loaded, 15)
	assert.Positive(t, queued)
	assert.Positive(t, among)
}
