package lab

import (
	"math"
	"slices"
)

// Values summarise a distribution.
type Values struct {
	N   int      `json:"n"`
	Min float64  `json:"min"`
	P50 float64  `json:"p50"`
	P99 *float64 `json:"p99"` // null with fewer than 100 samples: it would be the maximum
	Max float64  `json:"max"`
}

// samplesForP99 is the least number of samples for which P99 is given.
const samplesForP99 = 100

// valuesOf summarises samples. Percentiles are by nearest rank.
func valuesOf(samples []float64) Values {
	if len(samples) == 0 {
		return Values{}
	}
	sorted := slices.Sorted(slices.Values(samples))
	rank := func(p float64) float64 { return sorted[max(0, int(math.Ceil(p*float64(len(sorted))))-1)] }
	v := Values{N: len(sorted), Min: sorted[0], P50: rank(0.5), Max: sorted[len(sorted)-1]}
	if len(sorted) >= samplesForP99 {
		p99 := rank(0.99)
		v.P99 = &p99
	}
	return v
}

// median formats the median for people.
func (v Values) median() string {
	if v.N == 0 {
		return "-"
	}
	return number(v.P50)
}
