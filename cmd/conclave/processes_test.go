package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"conclave/testbed/local/supervisor"
)

// `start data-1` before any meta node runs does not wait for what cannot be.
func TestStart_WaitsOnlyIfAMetaNodeRuns(t *testing.T) {
	with := func(meta string) []supervisor.Process {
		return []supervisor.Process{{Name: "db", Role: "db", State: "ready"}, {Name: "meta-1", Role: "meta", State: meta}, {Name: "meta-2", Role: "meta", State: "killed"}, {Name: "data-1", Role: "data", State: "starting"}, {Name: "session-1", Role: "session", State: "exited"}}
	}
	for _, name := range []string{"data-1", "session-1"} {
		assert.True(t, joinsLater(with("exited"), name), name)
		assert.False(t, joinsLater(with("starting"), name), name)
	}
	assert.False(t, joinsLater(with("exited"), "meta-1"))
	assert.False(t, joinsLater(with("exited"), "db"))
}
