package lab

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
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
	assert.Contains(t, out.String(), `"p99":null`, "a missing figure is null")
	assert.Contains(t, out.String(), `"statementsPerSecond":null`)
	assert.NotContains(t, out.String(), `"cells":null`)
}

func TestReport_WriteHTML(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, exampleReport().WriteHTML(&out))
	html := out.String()
	assert.Equal(t, 4, strings.Count(html, "<svg "), "a plot for each fault")
	assert.Contains(t, html, "All promises were kept")
	assert.Equal(t, 5+1+101, strings.Count(html, "<circle "), "a dot for each takeover")
	assert.Contains(t, html, "1 of 1: never")
	assert.Contains(t, html, `<circle cx="210" cy="10" r="4"><title>freno: 10 ms`, "the scale begins at a power of ten")
	assert.Contains(t, html, `<circle cx="570" cy="10" r="4"><title>freno: 100 ms`, "and is logarithmic")
	for _, outside := range []string{"<script", "src=", "href=", "url(", "http:", "https:"} {
		assert.NotContains(t, html, outside)
	}
}

// A time of zero or below it, which a logarithm does not have, is at the left end.
func TestPlot_MarksAreOnTheScale(t *testing.T) {
	for name, samples := range map[string][]float64{
		"none": nil, "zeros": {0, 0}, "equal": {10, 10}, "negative": {-1, 5}, "only negative": {-1}, "all kinds": {-1, 0, 0.1, 10, 99999},
	} {
		t.Run(name, func(t *testing.T) {
			p := Report{Rows: []Row{{Cells: []Cell{{Fault: Kill, Samples: samples}}}}}.plot(Kill)
			require.Len(t, p.Rows[0].Dots, len(samples))
			require.GreaterOrEqual(t, len(p.Ticks), 2)
			for _, m := range slices.Concat(p.Ticks, p.Rows[0].Dots) {
				assert.True(t, m.X >= plotLeft && m.X <= plotRight, "%s at %v", m.Text, m.X) // NaN is not
			}
			for i, ms := range samples {
				if ms <= 0 {
					assert.EqualValues(t, plotLeft, p.Rows[0].Dots[i].X)
				}
			}
		})
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
