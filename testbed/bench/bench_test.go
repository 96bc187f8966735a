package bench_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/bench"
)

func TestKnown_NamesTheUnknownMeasurement(t *testing.T) {
	require.NoError(t, bench.Known(nil))
	require.NoError(t, bench.Known(bench.Names()))
	err := bench.Known([]string{"calm", "weather"})
	assert.ErrorContains(t, err, `"weather"`)
	assert.ErrorContains(t, err, "leader-killed, leader-stopped", "the known measurements are listed")
	_, err = bench.Run(t.Context(), bench.Config{Only: []string{"weather"}})
	assert.ErrorContains(t, err, `"weather"`)
}
