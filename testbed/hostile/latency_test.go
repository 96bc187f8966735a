package hostile_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	_ "conclave/internal/bubble"
)

// window is how long the pieces are of which a measurement consists.
const window = 250 * time.Millisecond

// latencies holds times from publish to push, in the windows in which they were received.
type latencies struct {
	mu      sync.Mutex // guards the rest
	begun   time.Time  // of the first window; zero before the first take
	windows [][]time.Duration
}

// note adds one.
func (l *latencies) note(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun.IsZero() {
		return
	}
	l.extend(int(time.Since(l.begun)/window) + 1)
	last := len(l.windows) - 1
	l.windows[last] = append(l.windows[last], d)
}

// extend adds windows up to a number. mu is held.
func (l *latencies) extend(to int) {
	for len(l.windows) < to {
		l.windows = append(l.windows, nil)
	}
}

// measurement is of one phase.
type measurement struct {
	pushes int
	p99    time.Duration // of all
	usual  time.Duration // the median of the windows' 99th percentiles
}

// take removes and returns what was measured since the last call. The usual 99th
// percentile is not that of the worst moment, which on a busy machine is another
// process's: half of the windows are better. A window without any push, the first and
// the last ones too, is as bad as the time without one until its end: what is pushed only
// after an attack is not measured with it.
func (l *latencies) take() (m measurement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun.IsZero() {
		l.extend(int(time.Since(l.begun) / window))
	}
	var all, of []time.Duration
	silent := time.Duration(0)
	for _, w := range l.windows {
		if silent += window; len(w) > 0 {
			silent = 0
		}
		all, of = append(all, w...), append(of, percentile(w, silent))
	}
	m = measurement{len(all), max(percentile(all, 0), silent), 0}
	slices.Sort(of)
	if len(of) > 0 {
		m.usual = of[len(of)/2]
	}
	l.begun, l.windows = time.Now(), nil
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

func TestLatencies_CountTheTimeWithoutAPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l latencies
		l.take()
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			l.note(time.Millisecond)
		}
		assert.Equal(t, measurement{100, time.Millisecond, time.Millisecond}, l.take(), "while all is well")

		l.note(time.Millisecond)
		time.Sleep(2 * time.Second) // the attack stops all pushes, until it ends
		m := l.take()
		assert.Equal(t, 1, m.pushes)
		assert.Equal(t, 1750*time.Millisecond, m.p99)
		assert.Equal(t, time.Second, m.usual)

		time.Sleep(2 * time.Second)
		l.note(2 * time.Second)
		assert.GreaterOrEqual(t, l.take().usual, time.Second, "or from its beginning")
	})
}
