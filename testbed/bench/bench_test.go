package bench_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/bench"
)

func TestConfig_ValidateNamesTheInvalidField(t *testing.T) {
	for _, c := range []bench.Config{{}, {Full: true}, {Beside: []bench.Registry{{Name: "etcd"}}, KillPeers: true}} {
		c.Only = c.Names()
		require.NotEmpty(t, c.Only)
		require.NoError(t, c.Validate())
	}
	_, err := bench.Run(t.Context(), bench.Config{Only: []string{"calm", "weather"}})
	assert.ErrorContains(t, err, `"weather"`)
	assert.ErrorContains(t, err, "leader-killed, leader-stopped", "the known measurements are listed")
	assert.ErrorContains(t, bench.Config{Full: true, Only: []string{"calm"}}.Validate(), `"calm" (want one of registrations, connections, losses, overload)`)
	assert.ErrorContains(t, bench.Config{Full: true, MaxRegistrations: 3}.Validate(), "at most 3 registrations: want at least 1000")
}
