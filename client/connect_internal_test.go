package client

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client that is asked to move tries the named session first.
func TestMove_TriesTheNamedSessionFirst(t *testing.T) {
	c, err := New(Config{Sessions: []string{"a:1"}})
	require.NoError(t, err)
	c.advertised = []string{"a:1", "b:1", "c:1", "d:1"}
	for range 20 {
		assert.Equal(t, "c:1", c.candidates(t.Context(), "a:1", "c:1")[0])
		assert.NotContains(t, c.candidates(t.Context(), "a:1", "x:1"), "x:1", "only sessions that it was sent")
	}
}
