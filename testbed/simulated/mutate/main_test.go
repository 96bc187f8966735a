package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"conclave/testbed/scenario"
)

// Every patch must fit its file, and every guard and scenario that a guard
// names must exist.
func TestGuards_FitTheCode(t *testing.T) {
	t.Chdir("../../..")
	names := map[string]bool{}
	for _, g := range guards {
		texts := map[string]string{}
		for _, p := range append([]patch{g.patch}, g.more...) {
			assert.NoError(t, p.apply(texts), g.name)
		}
		assert.False(t, names[g.name], "two guards are named %s", g.name)
		names[g.name] = true
		for _, other := range g.covered {
			_, err := find(other)
			assert.NoError(t, err, g.name)
		}
		for _, p := range g.by {
			if p.scenario != "" {
				_, err := scenario.Builtin(p.scenario)
				assert.NoError(t, err, g.name)
			}
		}
	}
	assert.GreaterOrEqual(t, len(guards), 20)
}
