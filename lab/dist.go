package lab

import "slices"

// Values summarise a distribution.
type Values struct {
	N   int     `json:"n"`
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	Max float64 `json:"max"`
}

// valuesOf summarises samples. The median is by nearest rank.
func valuesOf(samples []float64) Values {
	if len(samples) == 0 {
		return Values{}
	}
	sorted := slices.Sorted(slices.Values(samples))
	last := len(sorted) - 1
	return Values{N: len(sorted), Min: sorted[0], P50: sorted[last/2], Max: sorted[last]}
}

// median formats the median for people.
func (v Values) median() string {
	if v.N == 0 {
		return "-"
	}
	return number(v.P50)
}
