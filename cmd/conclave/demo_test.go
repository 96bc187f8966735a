package main

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/check"
	"conclave/testbed/scenario"
)

func TestDemo_RefusesInvalidFlags(t *testing.T) {
	for want, args := range map[string][]string{
		`invalid --on "cloud" (want local or compose)`:       {"--on", "cloud"},
		"--kills is -1: want 0 or more":                      {"--kills", "-1"},
		`invalid --takeover "force" (want witness or lease)`: {"--on", "compose", "--takeover", "force"},
		`--project: project name "My cluster"`:               {"--on", "compose", "--project", "My cluster"},
	} {
		r := tool(t, append([]string{"demo"}, args...)...)
		assert.Equal(t, exitUsage, r.code, want)
		assert.Contains(t, r.stderr, want)
	}
}

func TestDemo_ReportsMissingDocker(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r := tool(t, "demo", "--on", "compose")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "docker compose cannot be used here")
}

func TestDemo_ScenarioHasTheTakeoverOfTheFlags(t *testing.T) {
	for kills, scenes := range map[int]int{0: 10, 3: 3} {
		o := demoOptions{on: "compose", kills: kills, compose: composeOptions{takeover: "lease"}}
		s, err := o.scenario()
		require.NoError(t, err)
		titled := slices.DeleteFunc(s.Scenes, func(x scenario.Scene) bool { return x.Title == "" })
		assert.Len(t, titled, scenes)
		assert.Equal(t, "lease", s.Cluster.Takeover)
		assert.Empty(t, s.Refusals(capabilities("compose")))
	}
}

func TestWriteWanted_ComparesWithTheTakeover(t *testing.T) {
	s, err := scenario.Parse("kills.txt", "at 1s kill leader\nfigure leaderless")
	require.NoError(t, err)
	r := &scenario.Result{Scenario: s, Figures: []check.Figure{{N: 2, P50: 101 * time.Millisecond, Max: 3200 * time.Millisecond}}}
	for takeover, want := range map[string]string{
		"witness": "wanted: p50 at most 100 ms: MISSED\n", "lease": "wanted: at most the lease and 200 ms: 3.2s: reached\n",
	} {
		var out bytes.Buffer
		(&demoOptions{compose: composeOptions{takeover: takeover}}).writeWanted(&out, r)
		assert.Equal(t, want, out.String())
	}
}

// The whole demo with a single kill, on processes, as JSON.
func TestDemo_OneKillOnRealProcesses(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	got := decode[demoResult](t, tool(t, "--json", "demo", "--kills", "1"))
	assert.True(t, got.Held)
	assert.Empty(t, got.Broken)
	require.Len(t, got.Scenes, 3)
	assert.Equal(t, "STOP", got.Scenes[2].Name)
	assert.NotEmpty(t, got.Scenes[2].Figures, "the processes ended with exit code 0")
	figures := map[string]string{}
	for _, f := range got.Scenes[1].Figures {
		figures[f.Name] = f.Value
	}
	assert.Contains(t, figures, "replaced")
	assert.Contains(t, figures, "leaderless")
	assert.Contains(t, got.Invariants[0].Name, "I1")
	assert.Positive(t, got.Invariants[0].Checks)
}
