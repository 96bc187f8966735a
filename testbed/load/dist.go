package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Dist collects durations. It is safe for concurrent use.
type Dist struct {
	mu sync.Mutex // guards the fields below
	h  *hdrhistogram.Histogram
	n  int
}

// NewDist returns a Dist for durations from a microsecond to ten minutes with a
// precision of three digits.
func NewDist() *Dist {
	return &Dist{h: hdrhistogram.New(1, (10 * time.Minute).Microseconds(), 3)}
}

// Add adds a duration.
func (d *Dist) Add(v time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	us := min(max(v.Microseconds(), 0), d.h.HighestTrackableValue())
	_ = d.h.RecordValue(us) // it is within the bounds
	d.n++
}

// AddMs adds a number of milliseconds, or a number without unit in the same
// scale.
func (d *Dist) AddMs(v float64) { d.Add(time.Duration(v * float64(time.Millisecond))) }

// Merge adds everything that another Dist, which is not used any more, has
// collected.
func (d *Dist) Merge(other *Dist) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.h.Merge(other.h)
	d.n += other.n
}

// Values are the figures of a distribution in milliseconds.
type Values struct {
	N   int     `json:"n"`
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Values returns the figures of what was collected, rounded to a microsecond.
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

// One returns the Values of a figure that was measured once.
func One(v float64) Values { return Values{N: 1, Min: v, P50: v, P99: v, Max: v} }
