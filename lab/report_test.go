package lab

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// exampleReport returns a report of made-up trials.
func exampleReport() Report {
	kept := newRow(leaseRule, leaseRule.times(time.Second))
	statements, turns := 9.12, 9.0
	kept.StatementsPerSecond, kept.TurnsPerSecond = &statements, &turns
	kept.sum([]trial{
		{fault: Kill, followed: true, leaderless: 901 * time.Millisecond, costKnown: true, statements: 9, turns: 7, writes: 30, landed: 29},
		{fault: Kill, followed: true, leaderless: 750 * time.Millisecond, costKnown: true, statements: 8, turns: 6, writes: 30},
		{fault: Term, followed: true, leaderless: 3500 * time.Microsecond, writes: 12},
		{fault: Pause, followed: true, leaderless: 903 * time.Millisecond, stale: 1, refused: 1, writes: 40, landed: 38},
		{fault: Partition, followed: true, leaderless: 1020 * time.Millisecond, writes: 44},
	})
	fixed := newRow(article001Rule, article001Rule.times(time.Second))
	fixed.sum([]trial{{fault: Kill}, {fault: Pause, overlap: 0}, {fault: Partition}, {fault: Term, followed: true, leaderless: 1900 * time.Millisecond}})
	keeps := newRow(frenoRule, frenoRule.times(time.Second))
	keeps.Unasked, keeps.Deposed, keeps.WonTwice = 2, 3, 4
	var hundred []trial
	for i := range 100 {
		hundred = append(hundred, trial{fault: Kill, followed: true, leaderless: time.Duration(i+1) * 10 * time.Millisecond})
	}
	keeps.sum(append(hundred, trial{fault: Partition, followed: true, leaderless: 1500 * time.Millisecond, overlap: 1234567 * time.Microsecond, endless: true, stale: 17, writes: 90}))
	return Report{
		At: time.Date(2026, 11, 21, 23, 0, 0, 0, time.UTC), Version: "v1", Database: "embedded", ZooKeeper: "in memory",
		Candidates: 3, LeaseMs: 1000, ActMs: 20, Repeat: 10, AtOnce: 7, TookMs: 160000, Rows: []Row{kept, fixed, keeps},
	}
}

func TestReport_Write(t *testing.T) {
	var out bytes.Buffer
	exampleReport().Write(&out)
	golden := filepath.Join("testdata", "report.txt")
	if *update {
		require.NoError(t, os.WriteFile(golden, out.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), out.String())
}

func TestReport_JSON(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, json.NewEncoder(&out).Encode(exampleReport()))
	var got Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	assert.Equal(t, exampleReport(), got)
	assert.Contains(t, out.String(), `"statementsPerSecond":null`, "a missing figure is null")
	assert.NotContains(t, out.String(), `"cells":null`)
}

func TestReport_WriteHTML(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, exampleReport().WriteHTML(&out))
	html := out.String()
	assert.Contains(t, html, "All promises were kept")
	assert.Contains(t, html, "never (1 of 1)")
	assert.Equal(t, 3, strings.Count(html, "<td>freno"), "in both tables and among the rules")
	for _, outside := range []string{"<script", "src=", "href=", "url(", "http:", "https:"} {
		assert.NotContains(t, html, outside)
	}
}

func TestReport_BrokenListsPromisesNotKept(t *testing.T) {
	r := exampleReport()
	assert.Empty(t, r.Broken(), "rules that promise nothing are not listed")
	assert.True(t, r.Kept())
	assert.False(t, Report{Rows: r.Rows[1:]}.Kept(), "nothing was promised")
	assert.False(t, Report{Rows: []Row{newRow(leaseRule, leaseRule.times(time.Second))}}.Kept(), "no trial tested a promise")
	r.Rows[0].Cells[2].Overlap.Max = 3
	r.Rows[0].Cells[3].Guarded = 2
	assert.Equal(t, []string{
		"conclave-lease, pause: two believed that they lead, for 3.000 ms",
		"conclave-lease, partition: 2 guarded writes of an old leader took effect",
	}, r.Broken())
	assert.False(t, r.Kept())
}

// A rule that fails, none of whose guarded writes takes effect, or that has no
// new leader after a fault, is listed.
func TestReport_BrokenListsFailedRules(t *testing.T) {
	row := newRow(versionRule, versionRule.times(time.Second))
	row.Failed = "version-cas: candidate n1@1 does not take part: no"
	row.sum([]trial{{fault: Kill, followed: true, writes: 30}, {fault: Term, writes: 12}})
	other := newRow(riverRule, riverRule.times(time.Second))
	other.Failed = interrupted
	assert.Equal(t, []string{
		"did not run to its end: version-cas: candidate n1@1 does not take part: no",
		"version-cas: no guarded write took effect, so that stale ones were not tested",
		"version-cas, term: no other candidate led in 1 of 1 trials",
	}, Report{Rows: []Row{row, other}}.Broken())
}
