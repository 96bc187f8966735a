package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed"
	"conclave/testbed/bench"
)

func TestBenchGrowth_RefusesWrongFlagsBeforeAnythingStarts(t *testing.T) {
	t.Setenv(binEnv, t.TempDir()) // without programs
	for want, args := range map[string][]string{
		`unknown curve "calm" (want one of registrations`:             {"--full", "--only", "calm"},
		`unknown measurement "providers" (want one of calm`:           {"--only", "providers"},
		"--repeat and --full exclude each other":                      {"--full", "--repeat", "3"},
		"--sizes and --full exclude each other":                       {"--full", "--sizes"},
		"--max-registrations needs --full":                            {"--max-registrations", "5000"},
		`--html "` + filepath.Join("none", "x.html") + `": no folder`: {"--html", filepath.Join("none", "x.html")},
		"--for needs --full":                                          {"--for", "1s"},
		"at most 5 registrations: want at least 1000":                 {"--full", "--max-registrations", "5"},
		"--max-connections is -1: want 0 or more":                     {"--full", "--max-connections", "-1"},
		"--limit 0s: want more than 0":                                {"--full", "--limit", "0s"},
		"--for 0s: want more than 0":                                  {"--full", "--for", "0s"},
		`--html "` + filepath.Join("no", "x.html") + `": no folder`:   {"--full", "--html", filepath.Join("no", "x.html")},
	} {
		r := tool(t, append([]string{"bench"}, args...)...)
		assert.Equal(t, exitUsage, r.code, "%v", args)
		assert.Contains(t, r.stderr, want, "%v", args)
	}
}

func TestBenchGrowth_WritesTableJSONAndPage(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	realPrograms(t)
	dir := t.TempDir()
	html, file := filepath.Join(dir, "growth.html"), filepath.Join(dir, "growth.json")
	r := tool(t, "bench", "--full", "--only", "registrations,connections", "--max-registrations", "1000", "--max-connections", "10",
		"--limit", "2m", "--html", html, "--report", file)
	require.Equal(t, exitDone, r.code, r.stderr)
	assert.Contains(t, r.stdout, "RATE per s")
	body, err := os.ReadFile(file)
	require.NoError(t, err)
	var g bench.Growth
	require.NoError(t, json.Unmarshal(body, &g))
	require.Len(t, g.Curves, 2)
	for _, p := range g.Curves[0].Points {
		assert.Positive(t, p.Values["rate"])
		assert.Positive(t, p.Values["dataMiB"], "the memory of each role is measured")
		assert.Zero(t, p.Values["elections"])
		assert.Zero(t, p.Values["clientsGone"])
	}
	page, err := os.ReadFile(html)
	require.NoError(t, err)
	assert.Contains(t, string(page), "<polyline")
}

// The pool counts the client's own report of a lost session.
func TestStartPoint_PoolCountsLostSessions(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	realPrograms(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	running, err := startPoint(ctx, filepath.Join(t.TempDir(), "c"), testbed.Size{}, true)
	require.NoError(t, err)
	defer func() { assert.NoError(t, running.Stop()) }()
	one, err := running.Clients.Connect("one")
	require.NoError(t, err)
	defer one.Kill()
	r, err := one.Publish(ctx, "lost", []string{"v"})
	require.NoError(t, err)
	require.NoError(t, r.Stored(ctx))
	assert.Zero(t, running.Clients.Lost())
	assert.Positive(t, running.Clients.Received())
	for _, session := range []string{"session-1", "session-2"} { // the client is at one of them, and may reach the other in between
		require.NoError(t, running.Cluster.Do(ctx, testbed.Action{Verb: testbed.Kill, Node: session}))
	}
	require.Eventually(t, func() bool { return running.Clients.Lost() > 0 }, 30*time.Second, 10*time.Millisecond)
}
