package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/scenario"
)

func TestScenarioCheck_NamesWhereItRunsOrTheLineOfTheError(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	good := file("good.txt", "# It is good.\nat 1s skew clock of meta-1 by 1h\nat 2s expect leader within 1s\nuntil 3s\n")
	r := tool(t, "scenario", "check", good, "f01")
	assert.Equal(t, exitDone, r.code, r.stderr)
	assert.Contains(t, r.stdout, "good is valid: 1 action and 1 expectation in 3.0 s; it runs on simulator\n  not on compose, for it needs: skew\n  not on local, for it needs: skew\n")
	assert.Contains(t, r.stdout, "f01-kill-the-leader is valid: ")
	got := decode[[]scenarioInfo](t, tool(t, "--json", "scenario", "check", good))
	assert.Equal(t, []scenarioInfo{{Name: "good", About: "It is good.", Actions: 1, Expectations: 1, TakesMs: 3000, On: []string{"simulator"}, Needs: map[string][]string{"compose": {"skew"}, "local": {"skew"}}}}, got)

	r = tool(t, "scenario", "check", file("bad.txt", "at 1s kill leader\nat 2s kill leder\n"))
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.stderr, `bad.txt:2: unknown selector "leder"`)
	assert.Equal(t, exitUsage, tool(t, "scenario", "check").code)
}

func TestScenarioGrammar(t *testing.T) {
	assert.Equal(t, scenario.Grammar(), tool(t, "scenario", "grammar").stdout)
}
