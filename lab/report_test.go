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

var update = flag.Bool("update", false, "write the golden files anew")

// forged is a report of trials that never were.
func forged() Report {
	kept := newRow(leaseRule, leaseRule.times(time.Second))
	statements, turns := 9.12, 9.0
	kept.StatementsPerSecond, kept.TurnsPerSecond = &statements, &turns
	kept.sum([]trial{
		{fault: Kill, followed: true, leaderless: 901 * time.Millisecond, costs: true, statements: 9, turns: 7, writes: 30, landed: 29},
		{fault: Kill, followed: true, leaderless: 750 * time.Millisecond, costs: true, statements: 8, turns: 6, writes: 30},
		{fault: Term, followed: true, leaderless: 3500 * time.Microsecond, writes: 12},
		{fault: Pause, followed: true, leaderless: 903 * time.Millisecond, stale: 1, refused: 1, writes: 40, landed: 38, unheard: 1},
		{fault: Partition, followed: true, leaderless: 1020 * time.Millisecond, writes: 44},
	})
	fixed := newRow(article001Rule, article001Rule.times(time.Second))
	fixed.sum([]trial{{fault: Kill}, {fault: Pause, overlap: 0}, {fault: Partition}, {fault: Term, followed: true, leaderless: 1900 * time.Millisecond}})
	keeps := newRow(frenoRule, frenoRule.times(time.Second))
	keeps.Unasked = 2
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

func TestReportForPeople(t *testing.T) {
	var out bytes.Buffer
	forged().Write(&out)
	golden := filepath.Join("testdata", "report.txt")
	if *update {
		require.NoError(t, os.WriteFile(golden, out.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), out.String())
}

func TestReportAsJSONKeepsWhatWasMeasured(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, forged().WriteJSON(&out))
	var got Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	assert.Equal(t, forged(), got)
	assert.Contains(t, out.String(), `"p99": null`, "what cannot be had is said")
	assert.Contains(t, out.String(), `"statementsPerSecond": null`)
	assert.NotContains(t, out.String(), `"cells": null`)
}

func TestPageNeedsNothingButItself(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, forged().WriteHTML(&out))
	html := out.String()
	assert.Equal(t, 4, strings.Count(html, "<svg "), "a plot for each fault")
	assert.Contains(t, html, "What was promised was kept")
	assert.Equal(t, 5+1+101, strings.Count(html, "<circle "), "a dot for each takeover")
	assert.Contains(t, html, "1 of 1: never")
	for _, outside := range []string{"<script", "src=", "href=", "url(", "http:", "https:"} {
		assert.NotContains(t, html, outside)
	}
}

func TestBrokenPromisesAreNamed(t *testing.T) {
	r := forged()
	assert.Empty(t, r.Broken(), "who promises nothing breaks nothing")
	assert.True(t, r.Kept())
	assert.False(t, Report{Rows: r.Rows[1:]}.Kept(), "nothing was promised")
	assert.False(t, Report{Rows: []Row{newRow(leaseRule, leaseRule.times(time.Second))}}.Kept(), "nothing was tried")
	r.Rows[0].Cells[2].Overlap.Max = 3
	r.Rows[0].Cells[3].Guarded = 2
	assert.Equal(t, []string{
		"conclave-lease, pause: two believed to lead for 3.000 ms",
		"conclave-lease, partition: 2 guarded writes of an old leader landed",
	}, r.Broken())
	assert.False(t, r.Kept())
}

// What fails each time shows nothing, and who is never followed has not elected.
func TestWhatShowsNothingIsBroken(t *testing.T) {
	row := newRow(rowRule, rowRule.times(time.Second))
	row.Failed = "row-lock: candidate n1@1 does not take part: no"
	row.sum([]trial{{fault: Kill, followed: true, writes: 30}, {fault: Term, writes: 12}})
	waited := newRow(riverRule, riverRule.times(time.Second))
	waited.Failed = interrupted
	assert.Equal(t, []string{
		"not played to its end: row-lock: candidate n1@1 does not take part: no",
		"row-lock: no guarded write landed: nothing was shown",
		"row-lock, term: 1 of 1 times nobody followed",
	}, Report{Rows: []Row{row, waited}}.Broken())
}
