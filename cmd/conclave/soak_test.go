package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/scenario"
	"conclave/testbed/soak"
)

func TestSoak_RefusesInvalidFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no time":            {[]string{"--for", "0s"}, "--for"},
		"nowhere":            {[]string{"--on", "moon"}, "moon"},
		"another takeover":   {[]string{"--takeover", "force"}, "force"},
		"no programs":        {[]string{"--bin", t.TempDir()}, "--bin"},
		"containers and bin": {[]string{"--on", "compose", "--bin", "."}, "--bin"},
		"an unknown kind":    {[]string{"--only", "earthquakes"}, "earthquakes"},
		"impossible there":   {[]string{"--on", "compose", "--only", "links are cut during a drain"}, "--on compose"},
		"impossible to plan": {[]string{"--on", "compose", "--only", "links are cut during a drain", "--plan", "1"}, "--on compose"},
		"an argument":        {[]string{"f01"}, "no argument"},
		"a seed in words":    {[]string{"--seed", "seven"}, "seven"},
	} {
		t.Run(name, func(t *testing.T) {
			r := tool(t, append([]string{"soak"}, c.args...)...)
			assert.Equal(t, exitUsage, r.code, r.stderr)
			assert.Contains(t, r.stderr, c.want)
		})
	}
}

func TestSoak_PrintsThePlanOfASeed(t *testing.T) {
	one, again := tool(t, "soak", "--seed", "7", "--plan", "3"), tool(t, "soak", "--seed", "7", "--plan", "3")
	assert.Equal(t, exitDone, one.code, one.stderr)
	assert.Equal(t, one.stdout, again.stdout)
	assert.Equal(t, 3, strings.Count(one.stdout, "episode "))
	assert.NotEqual(t, one.stdout, tool(t, "soak", "--seed", "8", "--plan", "3").stdout)
	assert.Contains(t, tool(t, "--json", "soak", "--plan", "1").stdout, `"scenario":`)
}

func TestSoak_OnlyLinksAreMissingInContainers(t *testing.T) {
	for _, kind := range scenario.LosslessThemes() {
		on, possible := &soakOptions{clusterOptions: clusterOptions{on: "compose"}, seed: 1, only: kind}, false
		for range on.episodes() {
			possible = true
			break
		}
		links := kind == "links are cut during a drain" || kind == "links are cut and slow" || strings.HasPrefix(kind, "the last complete copy")
		assert.True(t, possible || links, kind)
	}
}

// seedOf returns a seed whose first episode is the named one.
func seedOf(t *testing.T, name string) string {
	for seed := range uint64(10000) {
		for s := range scenario.Storms(seed, soakSize, capabilities("local"), "") {
			if s.Scenes[0].Title == name {
				return strconv.FormatUint(seed, 10)
			}
			break
		}
	}
	require.FailNow(t, "no seed begins with "+name)
	return ""
}

// One episode on real processes, in which the leader and a session are killed.
func TestSoak_OnRealProcesses(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	file := filepath.Join(temp, "report.json")
	r := tool(t, "--json", "soak", "--for", "1ms", "--seed", seedOf(t, "the leader and a session die"), "--report", file)
	assert.Equal(t, exitDone, r.code, r.stderr)
	report := decode[soak.Report](t, r)
	assert.True(t, report.Ok, r.stdout)
	assert.Empty(t, report.Violations)
	if assert.Len(t, report.Episodes, 1) {
		for _, s := range report.Episodes[0].Steps {
			assert.Contains(t, s, ": done")
		}
	}
	idle := 0
	for _, c := range report.Checks {
		assert.Zero(t, c.Broken, c.Name)
		if c.Checks == 0 {
			idle++
		}
	}
	assert.LessOrEqual(t, idle, 3, "checkers without a check: %s", r.stdout) // this episode has no operator act, and may have no withdrawal
	assert.Len(t, report.Memory, 9)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var copied soak.Report
	require.NoError(t, json.Unmarshal(text, &copied))
	assert.Equal(t, report, copied)
	left, err := filepath.Glob(filepath.Join(temp, "conclave-soak-*"))
	require.NoError(t, err)
	assert.Empty(t, left, "nothing is kept of a run that held")
}

func TestSoak_InterruptedLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, interrupt := context.WithCancel(t.Context())
	var stderr bytes.Buffer
	output := &listener{word: "episode 1", then: interrupt}
	code := run(ctx, []string{"soak", "--seed", seedOf(t, "the leader and a session die")}, output, &stderr)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr.String(), "interrupted after 0 episodes without violations")
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	assert.Empty(t, left)
}
