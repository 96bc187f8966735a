package devdb_test

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
)

// For the race detector: tests of one program create their servers
// concurrently.
func TestNew_Concurrently(t *testing.T) {
	var group sync.WaitGroup
	for range 4 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		group.Go(func() {
			s, err := devdb.New(devdb.Config{Listener: l})
			if assert.NoError(t, err) {
				assert.NoError(t, s.Shutdown(t.Context()))
			}
		})
	}
	group.Wait()
}
