package lab

import (
	"math"
	"slices"
)

// Values are the figures of a distribution.
type Values struct {
	N   int      `json:"n"`
	Min float64  `json:"min"`
	P50 float64  `json:"p50"`
	P99 *float64 `json:"p99"` // null below a hundred samples: it would be the maximum under another name
	Max float64  `json:"max"`
}

// percentile needs so many samples.
const percentile = 100

// valuesOf sums samples up, by nearest rank.
func valuesOf(samples []float64) Values {
	if len(samples) == 0 {
		return Values{}
	}
	sorted := slices.Sorted(slices.Values(samples))
	rank := func(p float64) float64 { return sorted[max(0, int(math.Ceil(p*float64(len(sorted))))-1)] }
	v := Values{N: len(sorted), Min: sorted[0], P50: rank(0.5), Max: sorted[len(sorted)-1]}
	if len(sorted) >= percentile {
		p99 := rank(0.99)
		v.P99 = &p99
	}
	return v
}
