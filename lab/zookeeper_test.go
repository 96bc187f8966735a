package lab

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/lab/article004/zklatch"
	"conclave/lab/article004/zklatch/memtree"
)

// A stale write that took effect is found by the newer leader's next write, and
// counted once.
func TestWriteToTree_CountsStaleWriteOnce(t *testing.T) {
	_, address, stop, err := memtree.Start()
	require.NoError(t, err)
	defer stop()
	env := &environment{Spec: Spec{Name: "n1", Incarnation: "1", Lab: "line", Tree: address, ThroughTree: address, Times: Times{Lease: 3 * time.Second}}}
	env.dial = (&net.Dialer{}).DialContext
	conn, err := env.tree()
	require.NoError(t, err)
	defer conn.Close()
	client := zklatch.NewClient(conn, zklatch.ClientConfig{})
	defer client.Close()
	record, err := json.Marshal(map[string]any{"term": 5, "leader": env.ID().String(), "node": "/line/place"})
	require.NoError(t, err)
	for _, n := range []struct {
		path string
		data []byte
	}{{"/line", nil}, {"/line/term", record}, {"/line/place", nil}} {
		_, err := conn.Create(t.Context(), n.path, n.data, zklatch.Persistent)
		require.NoError(t, err)
	}
	write := func(landed, stale uint64) {
		t.Helper()
		done, err := env.writeToTree(t.Context(), conn, client, 5)
		for errors.Is(err, context.DeadlineExceeded) { // its time-out is short for a busy machine
			done, err = env.writeToTree(t.Context(), conn, client, 5)
		}
		require.NoError(t, err)
		assert.True(t, done)
		assert.Equal(t, landed, env.landed.Load())
		assert.Equal(t, stale, env.stale.Load())
	}
	write(1, 0)
	write(2, 0)
	_, err = conn.Set(t.Context(), "/line/effect", []byte("4"), zklatch.AnyVersion)
	require.NoError(t, err)
	write(3, 1)
	write(4, 1)
	done, err := env.writeToTree(t.Context(), conn, client, 4)
	require.NoError(t, err)
	assert.False(t, done, "the record names another term")
	assert.Equal(t, uint64(4), env.landed.Load())
}
