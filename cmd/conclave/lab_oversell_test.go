package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/lab/oversell"
)

func TestLabOversell_RefusesInvalidFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"an unknown way":          {[]string{"--only", "magic"}, "magic"},
		"no buyers":               {[]string{"--buyers", "0"}, "buyers"},
		"enough for all":          {[]string{"--buyers", "100"}, "more than"},
		"nothing":                 {[]string{"--items", "0"}, "--items is 0: want more than 0"},
		"a port alone":            {[]string{"--zookeeper", "2181"}, "--zookeeper"},
		"no DSN":                  {[]string{"--db", "garbage"}, "missing the slash"},
		"an argument":             {[]string{"all"}, "no argument"},
		"a thought for the night": {[]string{"--think", "8h"}, "thinking"},
	} {
		t.Run(name, func(t *testing.T) {
			r := tool(t, append([]string{"lab", "oversell"}, c.args...)...)
			assert.Equal(t, exitUsage, r.code, r.stderr)
			assert.Contains(t, r.stderr, c.want)
		})
	}
	r := tool(t, "lab", "oversell", "--html", filepath.Join(t.TempDir(), "nowhere", "page.html"))
	assert.Equal(t, exitUsage, r.code, r.stderr)
	assert.Contains(t, r.stderr, "--html")
	r = tool(t, "lab", "oversell", "--db", "root:secret@tcp(127.0.0.1:1)/shop", "--only", "no-lock")
	assert.Equal(t, exitFailed, r.code, r.stderr)
	assert.Contains(t, r.stderr, "no-lock")
	assert.NotContains(t, r.stderr, "secret")
}

func TestLabOversell_EmbeddedDatabase(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	page := filepath.Join(t.TempDir(), "report.html")
	small := []string{"lab", "oversell", "--buyers", "30", "--items", "5", "--only", "row-condition,zk-mutex", "--html", page}
	r := tool(t, append(small, "--json")...)
	require.Equal(t, exitDone, r.code, r.stderr)
	report := decode[oversell.Report](t, r)
	require.Len(t, report.Ways, 2)
	for _, row := range report.Ways {
		assert.True(t, row.Ok, row.Verdict)
		assert.Equal(t, 5, row.Orders, row.Name)
		assert.Zero(t, row.Left, row.Name)
	}
	body, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(body), "zk-mutex")

	r = tool(t, small...)
	require.Equal(t, exitDone, r.code, r.stderr)
	assert.Contains(t, r.stdout, "OVERSOLD")
	assert.Contains(t, r.stdout, "row-condition")
}
