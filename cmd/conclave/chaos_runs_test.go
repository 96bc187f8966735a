package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Several scenarios take turns, side by side, and a table counts the runs and what
// did not hold.
func TestChaosRun_SeveralSideBySide(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	t.Setenv("TMPDIR", t.TempDir())
	const size = "cluster 1 meta 1 session 1 data 4 slots 1 replicas\nclients 2 names 2\nat 100ms forbid data-1 and be refused\nfigure push\n"
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name+".txt")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	good, bad := file("good", size+"until 300ms\n"), file("bad", size+"at 200ms expect no leader within 100ms\nuntil 400ms\n")
	r := tool(t, "chaos", "run", good, bad, "--times", "2", "--parallel", "3")
	assert.Equal(t, exitFailed, r.code, r.stderr)
	assert.Equal(t, 2, strings.Count(r.stdout, "all invariants held."), r.stdout)
	assert.Equal(t, 2, strings.Count(r.stdout, "all invariants held, but 1 expectation was not met in time."), r.stdout)
	assert.Contains(t, r.stdout, "bad, seed 2: TOO SLOW: line 5: expect no leader within 100ms")
	for _, row := range [][]string{{"SCENARIO", "RUNS", "FAILED", "VIOLATIONS", "TOO", "SLOW", "NO", "RESULT"}, {good, "2", "0", "0", "0", "0"}, {bad, "2", "2", "0", "2", "0"}} {
		found := false
		for line := range strings.Lines(r.stdout) {
			found = found || strings.Join(strings.Fields(line), " ") == strings.Join(row, " ")
		}
		assert.True(t, found, "%v in\n%s", row, r.stdout)
	}
	assert.Contains(t, r.stderr, "2 of 4 runs failed")
	assert.Contains(t, r.stderr, "logs, trace and history are in")
}

// A series goes on after a run without a result, if the scenario has had one.
func TestChaosRuns_GoOnAfterARunWithoutResult(t *testing.T) {
	broke := &playError{errors.New("the cluster does not come to rest")}
	row := &runsRow{name: "x"}
	s := &chaosRuns{}
	assert.False(t, s.notPlayed(t.Context(), row, chaosOptions{}, broke), "the first run")
	row.runs = 1
	s = &chaosRuns{}
	assert.True(t, s.notPlayed(t.Context(), row, chaosOptions{seed: 7}, broke))
	assert.Equal(t, 1, row.broken)
	require.Len(t, s.broken, 1)
	assert.ErrorContains(t, s.broken[0], "x, seed 7: the cluster does not come to rest")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.False(t, s.notPlayed(ended, row, chaosOptions{}, broke), "it was interrupted")
	assert.False(t, (&chaosRuns{}).notPlayed(t.Context(), row, chaosOptions{}, usageError{errors.New("no such file")}))
}
