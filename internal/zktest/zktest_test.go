package zktest_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// Tests share the server but not the path.
func TestNew_PathsDiffer(t *testing.T) {
	a, b := zktest.New(t), zktest.New(t)
	assert.Equal(t, a.Addr, b.Addr)
	assert.NotEqual(t, a.Path, b.Path)
	conn, err := net.DialTimeout("tcp", a.Addr, time.Second)
	require.NoError(t, err, "it answers")
	conn.Close()
	assert.Zero(t, a.Watches(t), "no watches")
}
