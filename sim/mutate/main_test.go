package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"conclave/chaos"
)

// A guard that is not found any more would be taken out nowhere, and a play that
// is not there would catch nothing.
func TestEveryGuardIsThere(t *testing.T) {
	t.Chdir("../..")
	names := map[string]bool{}
	for _, g := range guards {
		texts := map[string]string{}
		for _, p := range append([]patch{g.patch}, g.more...) {
			assert.NoError(t, p.apply(texts), g.name)
		}
		assert.False(t, names[g.name], "%s is there twice", g.name)
		names[g.name] = true
		for _, other := range g.covered {
			_, err := find(other)
			assert.NoError(t, err, g.name)
		}
		for _, p := range g.by {
			if p.story != "" {
				_, err := chaos.Builtin(p.story)
				assert.NoError(t, err, g.name)
			}
		}
	}
	assert.GreaterOrEqual(t, len(guards), 20)
}
