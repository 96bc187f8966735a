package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/bench"
	"conclave/testbed/report"
)

func growth() bench.Growth {
	point := func(connections, n, rate float64) bench.Point {
		return bench.Point{Target: "conclave", Values: map[string]float64{"connections": connections, "registrations": n, "rate": rate}}
	}
	failed := bench.Point{Target: "conclave", Values: map[string]float64{"connections": 20, "registrations": 1_000_000}, Error: "more than <5m>"}
	return bench.Growth{Version: "v1", Curves: []bench.Curve{{
		Name: "registrations", What: "how fast",
		Columns: []bench.Column{{Name: "connections", What: "CONNECTIONS"}, {Name: "registrations", What: "REGISTRATIONS"}, {Name: "rate", What: "RATE", Unit: "per s"}},
		Plots: []bench.Plot{
			{What: "registrations per second", X: "registrations", Y: "rate", By: "connections"},
			{What: "what no point has", X: "registrations", Y: "p99Ms"},
		},
		Points: []bench.Point{point(1, 100_000, 40_000), point(1, 10_000, 60_000), point(20, 10_000, 50_000), failed},
	}}}
}

func TestWriteGrowth_DrawsALineForEachNumberOfConnections(t *testing.T) {
	var page bytes.Buffer
	require.NoError(t, report.WriteGrowth(&page, growth()))
	out := page.String()
	assert.Equal(t, 1, strings.Count(out, `role="img"`), "a plot without points is left out")
	assert.Equal(t, 2, strings.Count(out, "<polyline"), "1 and 20 connections")
	assert.Equal(t, 3, strings.Count(out, "<title>")-1, "the failed point has no rate")
	assert.Contains(t, out, ">connections 20</text>", "the target is not named if there is only one")
	assert.Contains(t, out, "<title>10,000: 60,000</title>")
	assert.Contains(t, out, ">registrations, log scale</text>")
	assert.Contains(t, out, "failed: more than &lt;5m&gt;")
	assert.Contains(t, out, "<th class=\"n\">rate per s")
}

func TestWriteGrowth_NamesTheTargetsIfThereAreSeveral(t *testing.T) {
	g := growth()
	g.Curves[0].Points[0].Target = "other"
	var out bytes.Buffer
	require.NoError(t, report.WriteGrowth(&out, g))
	assert.Contains(t, out.String(), "other, connections 1<")
}

func TestWriteGrowth_LoadsNothing(t *testing.T) {
	var page bytes.Buffer
	require.NoError(t, report.WriteGrowth(&page, growth()))
	for _, what := range []string{"<script", "src=", "@import", "url(", "http://", "https://", "ZgotmplZ"} {
		assert.NotContains(t, page.String(), what)
	}
	require.NoError(t, report.WriteGrowth(&page, bench.Growth{Curves: []bench.Curve{{Name: "nodes"}}}), "a run that was interrupted")
}
