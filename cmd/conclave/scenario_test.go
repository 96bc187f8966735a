package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestScenario_CheckAndGrammar(t *testing.T) {
	good, bad := filepath.Join(t.TempDir(), "good.txt"), filepath.Join(t.TempDir(), "bad.txt")
	require.NoError(t, os.WriteFile(good, []byte("# A try.\nat 1s skew clock of meta-1 by 1h\nuntil 2s\nfigure leaderless\n"), 0o644))
	require.NoError(t, os.WriteFile(bad, []byte("# A try.\nat 1s kick leader\nuntil 2s\n"), 0o644))

	r := tool(t, "scenario", "check", good, "f01")
	assert.Equal(t, 0, r.code, r.stderr)
	assert.Contains(t, r.stdout, "can run on simulator\n", "a clock cannot be changed elsewhere")
	assert.Contains(t, r.stdout, "f01-kill-the-leader: can run on simulator, local, compose\n")
	r = tool(t, "scenario", "check", bad)
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.stderr, "bad.txt:2")

	r = tool(t, "scenario", "grammar")
	assert.Contains(t, r.stdout, "\nat 3s kill it for 5s\n")
	assert.NotContains(t, r.stdout, "//")
}
