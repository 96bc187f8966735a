package hostile_test

import (
	"slices"
	"sync"
	"time"
)

// window is how long the pieces are of which a measurement consists.
const window = 250 * time.Millisecond

// latencies holds times from publish to push, in the windows in which they were received.
type latencies struct {
	mu      sync.Mutex // guards the rest
	begun   time.Time
	windows [][]time.Duration
}

// note adds one.
func (l *latencies) note(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun.IsZero() {
		l.begun = time.Now()
	}
	for at := int(time.Since(l.begun) / window); len(l.windows) <= at; {
		l.windows = append(l.windows, nil)
	}
	last := len(l.windows) - 1
	l.windows[last] = append(l.windows[last], d)
}

// measurement is of one phase.
type measurement struct {
	pushes int
	p99    time.Duration // of all
	usual  time.Duration // the median of the windows' 99th percentiles
}

// take removes and returns what was measured since the last call. The usual 99th
// percentile is not that of the worst moment, which on a busy machine is another
// process's: half of the windows are better. A window without any push is as bad as it
// is long.
func (l *latencies) take() (m measurement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all, of []time.Duration
	for _, w := range l.windows {
		all, of = append(all, w...), append(of, percentile(w, window))
	}
	m = measurement{len(all), percentile(all, 0), 0}
	slices.Sort(of)
	if len(of) > 0 {
		m.usual = of[len(of)/2]
	}
	l.begun, l.windows = time.Time{}, nil
	return m
}

// percentile returns the 99th percentile, or none if there is nothing.
func percentile(of []time.Duration, none time.Duration) time.Duration {
	if len(of) == 0 {
		return none
	}
	of = slices.Sorted(slices.Values(of))
	return of[len(of)*99/100]
}
