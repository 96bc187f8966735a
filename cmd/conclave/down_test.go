package main

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/local/supervisor"
)

// A supervisor that hangs is killed, and only then what it has left.
func TestDown_NowEndsAClusterWhoseSupervisorHangs(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	dir := filepath.Join(t.TempDir(), "c")
	defer tool(t, "--dir", dir, "down", "--now")
	require.Zero(t, tool(t, "--dir", dir, "up", "--detach", "--meta-nodes", "1", "--data-nodes", "1", "--session-nodes", "1").code)
	h, err := supervisor.Open(dir)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(h.Supervisor(), syscall.SIGSTOP))
	r := tool(t, "--dir", dir, "down", "--now")
	assert.Zero(t, r.code, r.stderr)
	assert.False(t, h.Running())
}
