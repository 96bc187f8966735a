package report_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/report"
	"conclave/testbed/scenario"
)

// The reports contain the result, and the page loads nothing else.
func TestReport_WritesPageAndDocument(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	event := func(at time.Duration, node string, c trace.Claim) check.Entry {
		c.Node = conclave.NodeID{Name: node, Incarnation: "a"}
		return check.Entry{At: at, Event: &c}
	}
	led := func(at time.Duration, node string) check.Entry {
		return event(at, node, trace.Claim{Kind: trace.Led, Term: 7, Until: began.Add(at + 3*time.Second)})
	}
	h := &check.History{Scenario: "forged", HasEvents: true, Began: began, Cluster: testbed.Size{Metas: 3, Sessions: 2, Datas: 3, Lease: 3 * time.Second}, Entries: []check.Entry{
		led(time.Millisecond, "meta-1"),
		{At: 1002 * time.Millisecond, Fault: &check.Fault{Action: testbed.Action{Verb: testbed.Kill, Node: "meta-1"}}},
		event(1003*time.Millisecond, "meta-1", trace.Claim{Kind: trace.Left, Term: 7}),
		led(1004*time.Millisecond, "meta-2"),
		{At: 6005 * time.Millisecond, Observed: &check.Observation{Leader: "meta-2", Term: 7}},
	}}
	s, err := scenario.Builtin("f01")
	require.NoError(t, err)
	r := &scenario.Result{Scenario: s, History: h, Verdicts: check.Run(h), Figures: check.Figures(h, s.Figures), Failures: []string{"line 4: no <leader>"}}
	assert.False(t, r.Ok())
	assert.Contains(t, strings.Join(r.Problems(), "\n"), "I1 (one owner per term) at 1.004s: term 7 is led by meta-1@a and by meta-2@a")

	written := report.New(r)
	var page bytes.Buffer
	require.NoError(t, report.WriteHTML(&page, written))
	document, err := json.Marshal(written)
	require.NoError(t, err)
	for _, want := range []string{"f01-kill-the-leader", "term 7 is led by meta-1@a", "no &lt;leader&gt;", "meta-1@a leads term 7", "violated"} {
		assert.Contains(t, page.String(), want)
	}
	for _, never := range []string{"http://", "https://", "src=", "ZgotmplZ"} {
		assert.NotContains(t, page.String(), never)
	}
	for _, want := range []string{`"atMs":1004`, `"p50Ms"`} {
		assert.Contains(t, string(document), want)
	}
	assert.Equal(t, []report.Done{{AtMs: written.Faults[0].AtMs, What: "kill meta-1"}}, written.Faults)
	assert.Contains(t, page.String(), "kill meta-1")
	assert.Equal(t, []string{"I1", "I2", "I3"}, []string{written.Verdicts[0].ID, written.Verdicts[1].ID, written.Verdicts[2].ID})
	assert.Equal(t, []string{"P1", "P2"}, []string{written.Verdicts[len(written.Verdicts)-2].ID, written.Verdicts[len(written.Verdicts)-1].ID})
	var back report.Report
	require.NoError(t, json.Unmarshal(document, &back))
	assert.Len(t, back.Lanes, len(written.Lanes))
	require.NotEmpty(t, back.Lanes)
	assert.Equal(t, "meta-1", back.Lanes[0].Host)
	assert.Equal(t, []string{"leads", "kill"}, []string{back.Lanes[0].Spans[0].What, back.Lanes[0].Spans[1].What})
}
