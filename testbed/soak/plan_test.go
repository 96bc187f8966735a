package soak

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/testbed"
)

var size = testbed.Size{Metas: 3, Sessions: 2, Datas: 3}

// noLinks are the capabilities of containers.
var noLinks = &testbed.Capabilities{Can: func(testbed.Step) error { return testbed.ErrUnsupported }}

func planned(seed uint64, can *testbed.Capabilities, n int) (out []Episode) {
	p := NewPlan(seed, size, can, "")
	for range n {
		out = append(out, p.Next())
	}
	return out
}

func TestPlan_EqualSeedsGiveEqualEpisodes(t *testing.T) {
	for seed := range uint64(50) {
		assert.Equal(t, planned(seed, nil, 60), planned(seed, nil, 60))
	}
	assert.NotEqual(t, planned(1, nil, 5), planned(2, nil, 5))
}

func TestPlan_HasEveryShapeInEachRound(t *testing.T) {
	for seed := range uint64(20) {
		seen := map[string]int{}
		for _, e := range planned(seed, nil, 2*len(shapes)) {
			seen[e.Name]++
		}
		for _, s := range shapes {
			assert.Equal(t, 2, seen[s.name], s.name)
		}
	}
	for _, e := range planned(3, noLinks, 60) {
		for _, s := range e.Steps {
			assert.NotContains(t, []testbed.Verb{testbed.Cut, testbed.Mend, testbed.Slow, testbed.Reset}, s.Act, "without links")
		}
	}
}

// Offsets are in order, no outage is longer than longestOutage, and no episode
// has a loss that ARCHITECTURE.md does not cover.
func TestPlan_KeepsItsBounds(t *testing.T) {
	begins := map[testbed.Verb]testbed.Verb{testbed.Kill: testbed.Start, testbed.Stop: testbed.Start, testbed.Pause: testbed.Resume, testbed.Cut: testbed.Mend, testbed.Slow: testbed.Mend}
	for seed := range uint64(200) {
		for _, e := range planned(seed, nil, len(shapes)) {
			assert.True(t, slices.IsSortedFunc(e.Steps, func(a, b Step) int { return int(a.At - b.At) }), e)
			var sessionDies, dataDies, dataPaused bool
			for i, s := range e.Steps {
				data, session := strings.HasPrefix(s.Node, "data-"), strings.HasPrefix(s.Node, "session-")
				sessionDies = sessionDies || session && s.Act == testbed.Kill
				dataDies = dataDies || data && s.Act == testbed.Kill
				dataPaused = dataPaused || data && (s.Act == testbed.Pause || s.Act == testbed.Cut)
				undo, lasts := begins[s.Act]
				if !lasts {
					continue
				}
				end := slices.IndexFunc(e.Steps[i:], func(x Step) bool { return x.Act == undo && x.Node == s.Node && x.Peer == s.Peer })
				if assert.GreaterOrEqual(t, end, 0, "%s never ends: %s", s, e) {
					assert.LessOrEqual(t, e.Steps[i+end].At-s.At, longestOutage+3*time.Second, e)
				}
			}
			assert.False(t, sessionDies && dataDies && dataPaused, "a loss that is not covered: %s", e)
		}
	}
}

// Outages are shorter and longer than every lease and grace.
func TestPlan_OutagesLieAroundEveryGrace(t *testing.T) {
	below, above := map[time.Duration]bool{}, map[time.Duration]bool{}
	for seed := range uint64(100) {
		for _, e := range planned(seed, nil, len(shapes)) {
			if e.Name != "all sessions are down" {
				continue
			}
			away := e.Steps[len(e.Steps)-1].At
			for _, grace := range []time.Duration{nodeLease, clientLease, sessionGrace} {
				below[grace] = below[grace] || away < grace
				above[grace] = above[grace] || away > grace
			}
		}
	}
	assert.Len(t, below, 3)
	for grace := range below {
		assert.True(t, below[grace], "shorter than %s", grace)
		assert.True(t, above[grace], "longer than %s", grace)
	}
}

func TestStep_IsPrintedInOneLine(t *testing.T) {
	for want, s := range map[string]Step{
		"kill data-1":                     {Act: testbed.Kill, Node: "data-1"},
		"cut data-1 from session-2":       {Act: testbed.Cut, Node: "data-1", Peer: "session-2"},
		"slow data-1 from data-2 by 20ms": {Act: testbed.Slow, Node: "data-1", Peer: "data-2", By: 20 * time.Millisecond},
		"switch arrange off":              {Act: testbed.Switch, Key: "arrange", Value: "off"},
		"leave 12":                        {Act: Leave, Count: 12},
	} {
		assert.Equal(t, want, fmt.Sprint(s))
	}
}
