package simulated_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/testbed/demo"
)

// The scenes for containers hold in a bubble too.
func TestDemo_HoldsInABubble(t *testing.T) {
	if raceDetector || *only != "" {
		t.Log("under the race detector, or with -scenario, it is left out")
		return
	}
	s, err := demo.Scenario(true)
	require.NoError(t, err)
	s.Cluster.Seed = max(1, *seed)
	playAndCheck(t, s)
}
