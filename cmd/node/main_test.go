package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A link to node is the program of its name; under any other name it says what it wants.
func TestNode_IsTheProgramOfItsName(t *testing.T) {
	dir := t.TempDir()
	node := filepath.Join(dir, "node")
	out, err := exec.Command("go", "build", "-o", node, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, role := range []string{"meta", "data", "session"} {
		require.NoError(t, os.Link(node, filepath.Join(dir, role)))
		out, err := exec.Command(filepath.Join(dir, role), "--help").CombinedOutput()
		require.NoError(t, err, string(out))
		assert.Contains(t, string(out), "\n  "+role+" [flags]", role)
	}
	out, err = exec.Command(node, "--help").CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(out), "meta, data or session")
}
