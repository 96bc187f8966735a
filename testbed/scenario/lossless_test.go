package scenario

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed"
	"conclave/testbed/check"
)

var losslessSize = testbed.Size{Metas: 3, Sessions: 2, Datas: 3}

func lossless(seed uint64, on *testbed.Capabilities, n int) (out []Scenario) {
	for s := range Storms(seed, losslessSize, on, "") {
		if out = append(out, s); len(out) == n {
			break
		}
	}
	return out
}

func TestStorms_EqualSeedsGiveEqualStorms(t *testing.T) {
	for seed := range uint64(50) {
		assert.Equal(t, lossless(seed, nil, 60), lossless(seed, nil, 60))
	}
	assert.NotEqual(t, lossless(1, nil, 5), lossless(2, nil, 5))
	for s := range Storms(1, losslessSize, nil, "no such theme") {
		t.Error(s)
	}
}

func TestStorms_AreScenariosOfTheLanguage(t *testing.T) {
	for _, s := range lossless(3, nil, len(losslessThemes)) {
		again, err := Parse(s.Name, s.String())
		require.NoError(t, err, s)
		assert.Equal(t, s.String(), again.String())
	}
}

func TestStorms_HaveEveryThemeInEachRound(t *testing.T) {
	for seed := range uint64(20) {
		seen := map[string]int{}
		for _, s := range lossless(seed, nil, 2*len(losslessThemes)) {
			seen[s.Scenes[0].Title]++
		}
		for _, theme := range losslessThemes {
			assert.Equal(t, 2, seen[theme.about], theme.about)
		}
	}
	links := []testbed.Verb{testbed.Cut, testbed.Mend, testbed.Slow, testbed.Reset}
	noLinks := &testbed.Capabilities{Can: func(s testbed.Step) error {
		if slices.Contains(links, s.Verb) {
			return testbed.ErrUnsupported
		}
		return nil
	}}
	for _, s := range lossless(3, noLinks, 60) {
		for _, l := range s.Lines {
			assert.NotContains(t, links, l.Step.Verb)
		}
	}
	for range Storms(3, losslessSize, &testbed.Capabilities{Can: func(testbed.Step) error { return testbed.ErrUnsupported }}, "") {
		t.Error("nothing is possible")
	}
}

// Lines are in order, no outage is longer than LongestOutage, and no storm has a
// loss that ARCHITECTURE.md lists as not guaranteed.
func TestStorms_KeepTheirBounds(t *testing.T) {
	for seed := range uint64(200) {
		for _, s := range lossless(seed, nil, len(losslessThemes)) {
			assert.True(t, slices.IsSortedFunc(s.Lines, func(a, b Line) int { return int(a.At - b.At) }), s)
			var sessionDies, dataDies, dataPaused bool
			for _, l := range s.Lines {
				verb := l.Step.Verb
				data, session := strings.HasPrefix(string(l.Step.Who), "data-"), strings.HasPrefix(string(l.Step.Who), "session-")
				sessionDies = sessionDies || session && verb == testbed.Kill
				dataDies = dataDies || data && verb == testbed.Kill
				dataPaused = dataPaused || data && (verb == testbed.Pause || verb == testbed.Cut)
				if verb != testbed.Stop {
					assert.LessOrEqual(t, l.Step.For, LongestOutage+time.Second, s)
				}
				assert.LessOrEqual(t, l.At+l.Step.For, s.Until, s)
			}
			assert.False(t, sessionDies && dataDies && dataPaused, "a loss that is not covered: %s", s)
		}
	}
}

// Outages are shorter and longer than every lease and grace.
func TestStorms_OutagesLieAroundEveryGrace(t *testing.T) {
	below, above := map[time.Duration]bool{}, map[time.Duration]bool{}
	graces := []time.Duration{nodeLease, check.ClientLease, check.SessionGrace}
	for seed := range uint64(100) {
		for s := range Storms(seed, losslessSize, nil, "all sessions are down") {
			away := s.Lines[0].Step.For
			for _, grace := range graces {
				below[grace] = below[grace] || away < grace
				above[grace] = above[grace] || away > grace
			}
			break
		}
	}
	for _, grace := range graces {
		assert.True(t, below[grace], "shorter than %s", grace)
		assert.True(t, above[grace], "longer than %s", grace)
	}
}
