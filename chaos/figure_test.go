package chaos_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/chaos"
	"conclave/internal/trace"
)

func figure(t *testing.T, f *forger, name string) chaos.Figure {
	all := chaos.Figures(&f.h, []string{name})
	require.Len(t, all, 1)
	return all[0]
}

func TestFigures_MeasureForgedHistories(t *testing.T) {
	f := forge()
	f.claim("meta-1", led(7, 3*time.Second)).pause(time.Second)
	f.claim("meta-1", trace.Claim{Kind: trace.Left, Term: 7}).pause(49 * time.Millisecond)
	f.claim("meta-2", led(8, 3*time.Second))
	leaderless := figure(t, f, "leaderless")
	assert.Equal(t, 1, leaderless.N)
	assert.Equal(t, 50*time.Millisecond, leaderless.Max)
	assert.Equal(t, 2, figure(t, f, "elections").N)

	f = forge()
	f.claim("data-1", trace.Claim{Kind: trace.Serving, Slot: 1, Epoch: epoch(7, 1)})
	f.fault(chaos.Act{Verb: chaos.Kill, Node: "data-1"}).pause(199 * time.Millisecond)
	f.claim("data-2", trace.Claim{Kind: trace.Serving, Slot: 1, Epoch: epoch(7, 2)})
	assert.Equal(t, 200*time.Millisecond, figure(t, f, "unserved").Max)

	f = forge()
	published(f, 1).pause(9 * time.Millisecond)
	push(f, "c", 5, "client-1/1#1").pause(time.Second)
	push(f, "c", 6, "client-1/1#1")
	push(f, "c", 7)
	assert.Equal(t, []time.Duration{10 * time.Millisecond}, figure(t, f, "push").Times)
	assert.Equal(t, 1, figure(t, f, "empty").N)
}

// The figures of several runs are added: times are collected, counts are
// summed.
func TestAdd_CollectsTimesAndSumsCounts(t *testing.T) {
	a := []chaos.Figure{{Name: "elections", N: 2}, {Name: "push", N: 1, Times: []time.Duration{time.Second}}}
	b := []chaos.Figure{{Name: "elections", N: 3}, {Name: "push", N: 2, Times: []time.Duration{2 * time.Second, 3 * time.Second}}}
	sum := chaos.Add(chaos.Add(nil, a), b)
	assert.Equal(t, 5, sum[0].N)
	assert.Equal(t, 3, sum[1].N)
	assert.Equal(t, 2*time.Second, sum[1].P50)
	assert.Equal(t, 3*time.Second, sum[1].Max)
}

// The time to progress counts from the healing, however long ago the last fault
// was.
func TestFigures_HealedCountsFromHealing(t *testing.T) {
	f := forge()
	f.fault(chaos.Act{Verb: chaos.Kill, Node: "client-1"}).pause(20 * time.Second)
	f.op(chaos.Op{Kind: chaos.OpHealed}).pause(time.Second)
	f.op(chaos.Op{Kind: chaos.OpProgress, Name: "leader"}).pause(time.Second)
	f.op(chaos.Op{Kind: chaos.OpProgress, Name: "even"}).op(chaos.Op{Kind: chaos.OpProgress, Name: "full", Err: errors.New("never")})
	healed := chaos.Figures(&f.h, []string{"healed"})[0]
	assert.Equal(t, 2, healed.N)
	assert.InDelta(t, 2*time.Second, healed.Max, float64(100*time.Millisecond))
}

// The reports contain the result, and the page loads nothing else.
func TestReport_WritesPageAndDocument(t *testing.T) {
	f := forge()
	f.claim("meta-1", led(7, 3*time.Second)).pause(time.Second)
	f.fault(chaos.Act{Verb: chaos.Kill, Node: "meta-1"}).claim("meta-1", trace.Claim{Kind: trace.Left, Term: 7})
	f.claim("meta-2", led(7, 3*time.Second)).pause(5 * time.Second).rested("meta-2")
	s, err := chaos.Builtin("f01")
	require.NoError(t, err)
	r := &chaos.Result{Scenario: s, History: &f.h, Verdicts: chaos.Judge(&f.h), Figures: chaos.Figures(&f.h, s.Figures), Failures: []string{"line 4: no <leader>"}}
	assert.False(t, r.Ok())
	assert.Contains(t, strings.Join(r.Problems(), "\n"), "I1 (one owner per term) at 1.004s: term 7 is led by meta-1@a and by meta-2@a")

	report := r.Report()
	var page, document bytes.Buffer
	require.NoError(t, chaos.WriteHTML(&page, report))
	require.NoError(t, report.WriteJSON(&document))
	for _, want := range []string{"f01-kill-the-leader", "term 7 is led by meta-1@a", "no &lt;leader&gt;", "meta-1@a leads term 7", "violated"} {
		assert.Contains(t, page.String(), want)
	}
	for _, never := range []string{"http://", "https://", "src=", "ZgotmplZ"} {
		assert.NotContains(t, page.String(), never)
	}
	for _, want := range []string{`"atMs": 1004`, `"p50Ms"`} {
		assert.Contains(t, document.String(), want)
	}
	assert.Equal(t, []chaos.Done{{AtMs: report.Faults[0].AtMs, What: "kill meta-1"}}, report.Faults)
	assert.Contains(t, page.String(), "kill meta-1")
	assert.Equal(t, []string{"I1", "I2", "I3"}, []string{report.Verdicts[0].ID, report.Verdicts[1].ID, report.Verdicts[2].ID})
	assert.Equal(t, []string{"P1", "P2"}, []string{report.Verdicts[len(report.Verdicts)-2].ID, report.Verdicts[len(report.Verdicts)-1].ID})
	var back chaos.Report
	require.NoError(t, json.Unmarshal(document.Bytes(), &back))
	assert.Len(t, back.Lanes, len(report.Lanes))
	require.NotEmpty(t, back.Lanes)
	assert.Equal(t, "meta-1", back.Lanes[0].Host)
	assert.Equal(t, []string{"leads", "kill"}, []string{back.Lanes[0].Spans[0].What, back.Lanes[0].Spans[1].What})
}
