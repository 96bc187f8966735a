package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"conclave/internal/node"
)

// Connections of clients leave files for those to other nodes, and one address
// leaves places for others.
func TestLimitConnections_FitsOpenFiles(t *testing.T) {
	for files, want := range map[int][2]int{
		0:         {100_000, 20_000},
		1_000_000: {100_000, 20_000},
		20_000:    {16_000, 12_000},
		1024:      {819, 614},
	} {
		c := node.Config{}.WithDefaults()
		limitConnections(&c, files)
		assert.Equal(t, want, [2]int{c.MaxConnections, c.MaxAddressConnections}, "%d files", files)
	}
}
