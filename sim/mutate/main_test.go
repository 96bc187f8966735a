package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A guard that is not found any more would be taken out nowhere.
func TestEveryGuardIsThere(t *testing.T) {
	t.Chdir("../..")
	names := map[string]bool{}
	for _, g := range guards {
		_, err := g.without()
		assert.NoError(t, err, g.name)
		assert.False(t, names[g.name], "%s is there twice", g.name)
		names[g.name] = true
	}
	assert.GreaterOrEqual(t, len(guards), 20)
}
