package lab

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestOverlap(t *testing.T) {
	a, b, c := "a@1", "b@1", "c@1"
	for _, test := range []struct {
		name        string
		leaderships []Leadership
		stops       []Span
		want        int64
	}{
		{"no leader", nil, nil, 0},
		{"one leader", []Leadership{{a, 0, 0, open}}, nil, 0},
		{"one after the other, to the nanosecond", []Leadership{{a, 0, 0, 50}, {b, 50, 0, open}}, nil, 0},
		{"two overlap", []Leadership{{a, 0, 0, 60}, {b, 50, 0, open}}, nil, 10},
		{"three at once count once", []Leadership{{a, 0, 0, 60}, {b, 50, 0, open}, {c, 55, 0, 58}}, nil, 10},
		{"two overlaps", []Leadership{{a, 0, 0, open}, {b, 10, 0, 15}, {c, 20, 0, 27}}, nil, 12},
		{"trust ends in time", []Leadership{{a, 0, 40, open}, {b, 50, 0, open}}, nil, 0},
		{"trust ends too late", []Leadership{{a, 0, 55, open}, {b, 50, 0, open}}, nil, 5},
		{"it was left before trust ended", []Leadership{{a, 0, 55, 45}, {b, 50, 0, open}}, nil, 0},
		{"stopped by the kernel, then it continues", []Leadership{{a, 0, 0, 75}, {b, 50, 0, open}}, []Span{{a, 20, 70}}, 5},
		{"stopped by the kernel, trust ended meanwhile", []Leadership{{a, 0, 40, 70}, {b, 50, 0, open}}, []Span{{a, 20, 70}}, 0},
		{"another process was stopped", []Leadership{{a, 0, 0, 60}, {b, 50, 0, open}}, []Span{{c, 0, 100}}, 10},
		{"stopped in the middle", []Leadership{{a, 0, 0, open}, {b, 50, 0, 90}}, []Span{{a, 60, 70}, {a, 80, 85}}, 25},
		{"two leaderships of one process", []Leadership{{a, 0, 0, open}, {a, 50, 0, open}}, nil, 0},
		{"before and after the window", []Leadership{{a, -20, 0, 120}, {b, -20, 0, 3}, {c, 98, 0, 200}}, nil, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, time.Duration(test.want), Overlap(test.leaderships, test.stops, 0, 100))
		})
	}
}

func TestDepositions(t *testing.T) {
	a, b, c := "a@1", "b@1", "c@1"
	for _, test := range []struct {
		name           string
		leaderships    []Leadership
		faults         []Span
		deposed, twice int
	}{
		{"no leader", nil, nil, 0, 0},
		{"one after the other", []Leadership{{a, 0, 0, 50}, {b, 50, 0, open}}, nil, 0, 0},
		{"a living leader", []Leadership{{a, 0, 0, 60}, {b, 50, 0, open}}, nil, 1, 0},
		{"its trust had ended", []Leadership{{a, 0, 40, 60}, {b, 50, 0, open}}, nil, 0, 0},
		{"two winners", []Leadership{{a, 0, 0, 40}, {b, 50, 0, 80}, {c, 55, 0, 80}}, nil, 0, 1},
		{"two winners depose a leader", []Leadership{{a, 0, 0, 60}, {b, 50, 0, 80}, {c, 55, 0, 80}}, nil, 1, 1},
		{"the leader was stopped", []Leadership{{a, 0, 0, 60}, {b, 50, 0, open}}, []Span{{a, 20, 70}}, 0, 0},
		{"it was stopped before", []Leadership{{a, 0, 0, 60}, {b, 50, 0, open}}, []Span{{a, 20, 30}}, 1, 0},
		{"two winners after a fault", []Leadership{{a, 0, 0, 60}, {b, 50, 0, 80}, {c, 55, 0, 80}}, []Span{{a, 20, 70}}, 0, 1},
		{"the stopped one wins", []Leadership{{b, 0, 0, 80}, {a, 55, 0, 80}}, []Span{{a, 20, 70}}, 0, 0},
		{"one process", []Leadership{{a, 0, 0, open}, {a, 50, 0, open}}, nil, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			deposed, twice := Depositions(test.leaderships, test.faults, 10)
			assert.Equal(t, test.deposed, deposed, "deposed")
			assert.Equal(t, test.twice, twice, "won twice")
		})
	}
}

func TestSuccessor_FirstOtherProcess(t *testing.T) {
	leaderships := []Leadership{{"a@1", 0, 0, 100}, {"b@1", 20, 0, 30}, {"c@1", 130, 0, open}, {"b@2", 120, 0, open}, {"a@1", 110, 0, open}}
	next, ok := Successor(leaderships, "a@1", 100)
	assert.True(t, ok)
	assert.Equal(t, "b@2", next.Process, "neither the leadership before the fault nor the old leader's")
	_, ok = Successor(leaderships[:2], "a@1", 100)
	assert.False(t, ok, "no other leads yet")
}

func TestValues_AreThoseOfTheSamples(t *testing.T) {
	samples := make([]float64, 99)
	for i := range samples {
		samples[i] = float64(99 - i)
	}
	v := valuesOf(samples)
	assert.Equal(t, Values{N: 99, Min: 1, P50: 50, Max: 99}, v)
	assert.Equal(t, Values{N: 100, Min: 1, P50: 50, Max: 100}, valuesOf(append(samples, 100)))
	assert.Equal(t, Values{}, valuesOf(nil))
}

// A rule's beat and check scale with its lease, unless its times are fixed.
func TestTimes_ScaleWithLease(t *testing.T) {
	for _, r := range Rules() {
		got := r.times(time.Second)
		if r.Fixed {
			assert.Equal(t, r.Own, got, r.Name)
			continue
		}
		assert.Equal(t, time.Second, got.Lease, r.Name)
		assert.InDelta(t, float64(r.Own.Beat)/float64(r.Own.Lease), got.Beat.Seconds(), 0.001, r.Name)
		assert.InDelta(t, float64(r.Own.Check)/float64(r.Own.Lease), got.Check.Seconds(), 0.001, r.Name)
	}
}
