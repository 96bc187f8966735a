package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Dist collects durations; it is safe for concurrent use.
type Dist struct {
	mu sync.Mutex // guards the rest
	h  *hdrhistogram.Histogram
	n  int
}

// NewDist holds durations from a microsecond to ten minutes, with three digits.
func NewDist() *Dist {
	return &Dist{h: hdrhistogram.New(1, (10 * time.Minute).Microseconds(), 3)}
}

// Add notes one duration.
func (d *Dist) Add(v time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	us := min(max(v.Microseconds(), 0), d.h.HighestTrackableValue())
	_ = d.h.RecordValue(us) // it is within the bounds
	d.n++
}

// AddMs notes one figure that is no duration in the same scale: 1 is 1 ms.
func (d *Dist) AddMs(v float64) { d.Add(time.Duration(v * float64(time.Millisecond))) }

// Values are the figures of a distribution in milliseconds.
type Values struct {
	N   int     `json:"n"`
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Values are what was collected, rounded to a microsecond.
func (d *Dist) Values() Values {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n == 0 {
		return Values{}
	}
	in := func(us int64) float64 { return float64(us) / 1000 }
	return Values{
		N: d.n, Min: in(d.h.Min()), P50: in(d.h.ValueAtQuantile(50)), P99: in(d.h.ValueAtQuantile(99)), Max: in(d.h.Max()),
	}
}

// One is a figure that was measured once.
func One(v float64) Values { return Values{N: 1, Min: v, P50: v, P99: v, Max: v} }
