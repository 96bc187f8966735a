package devdb_test

import (
	"bytes"
	"net"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"
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

// The engine logs with the program's own logger, which it must neither fill nor silence.
func TestServer_LeavesTheProgramsLogToIt(t *testing.T) {
	var out bytes.Buffer
	before := logrus.StandardLogger().Out
	logrus.SetOutput(&out)
	defer logrus.SetOutput(before)

	s, crash := serve(t, devdb.Config{})
	db := open(t, s)
	_, err := db.Exec("NONSENSE")
	require.Error(t, err)
	require.NoError(t, db.Close())
	crash()
	assert.Empty(t, out.String())
	assert.Equal(t, logrus.InfoLevel, logrus.GetLevel())
	logrus.WithField("key", "value").Info("a line of the program")
	assert.Contains(t, out.String(), "a line of the program")
}
