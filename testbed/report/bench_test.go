package report_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/bench"
	"conclave/testbed/load"
	"conclave/testbed/report"
)

func TestWriteBench_ShowsDistributions(t *testing.T) {
	few, many := load.NewDist(), load.NewDist()
	for i := range 30 {
		few.Add(time.Duration(100+i%3) * time.Millisecond)
	}
	for i := range 5000 {
		many.Add(time.Duration(1+i%100) * time.Millisecond)
	}
	missed := false
	r := bench.Report{Version: "v1", Figures: []bench.Figure{
		{Name: "leader-killed", What: "leader killed <now>", Unit: "ms", Values: few.Values(), Reached: &missed, Target: "p99 <= 50 ms"},
		{Name: "publish-to-push", What: "publish to push", Unit: "ms", Values: many.Values()},
		{Name: "registrations", What: "registrations per second", Unit: "per s", Values: load.One(7)},
	}}
	var out bytes.Buffer
	require.NoError(t, report.WriteBench(&out, r))
	page := out.String()
	assert.Equal(t, 1, strings.Count(page, "<svg "), "a plot for each unit that has a distribution")
	assert.Equal(t, 30, strings.Count(page, "<circle "), "a dot for each of a few samples")
	assert.Equal(t, 1, strings.Count(page, `class="share"`), "a curve for many")
	assert.Contains(t, page, "leader killed &lt;now&gt;")
	assert.Contains(t, page, "missed")
	for _, outside := range []string{"<script", "src=", "href=", "url(", "http:", "https:"} {
		assert.NotContains(t, page, outside)
	}
}
