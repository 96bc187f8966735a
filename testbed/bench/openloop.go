package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"conclave/internal/sleep"
)

// openLoop calls fire rate times a second for a while, whether or not earlier
// operations have been answered. Operation i is due i/rate seconds after the start,
// which fire is given, and i%senders is the goroutine that fires it: not before it is
// due and, if the goroutine is not late, at most openTick after it. openLoop
// returns how many operations were not fired, because their sender was late when the time ended.
//
// A latency counted from the due time includes what an operation has waited because
// earlier ones were slow (no coordinated omission).
func openLoop(ctx context.Context, rate float64, lasts time.Duration, senders int, fire func(i int, due time.Time)) (missed int) {
	start := time.Now()
	n := int(rate * lasts.Seconds())
	var fired atomic.Int64
	var sending sync.WaitGroup
	for s := range senders {
		sending.Go(func() {
			for i := s; i < n; i += senders {
				due := start.Add(dueAfter(i, rate))
				if wait := time.Until(due); wait > 0 && sleep.For(ctx, max(wait, openTick)) != nil {
					return
				}
				if ctx.Err() != nil || time.Since(start) > lasts+openTick {
					return
				}
				fire(i, due)
				fired.Add(1)
			}
		})
	}
	sending.Wait()
	return n - int(fired.Load())
}

// openTick is the shortest sleep of a sender. Shorter ones would cost more than
// the operations.
const openTick = time.Millisecond

// dueAfter returns when operation i is due.
func dueAfter(i int, rate float64) time.Duration {
	return time.Duration(float64(i) / rate * float64(time.Second))
}

// series counts events in windows of time.
type series struct {
	start time.Time
	width time.Duration
	mu    sync.Mutex // guards counts
	count []int
}

func newSeries(width time.Duration) *series { return &series{start: time.Now(), width: width} }

// add counts n events now.
func (s *series) add(n int) {
	i := int(time.Since(s.start) / s.width)
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.count) <= i {
		s.count = append(s.count, 0)
	}
	s.count[i] += n
}

// rates returns the events per second of each window that has ended.
func (s *series) rates() []float64 {
	ended := int(time.Since(s.start) / s.width)
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]float64, ended)
	for i := range min(ended, len(s.count)) {
		out[i] = float64(s.count[i]) / s.width.Seconds()
	}
	return out
}

// recoveredAt returns the first window from which hold windows in succession have
// at least the given rate. ok is false if there is none yet.
func recoveredAt(rates []float64, least float64, hold int) (window int, ok bool) {
	good := 0
	for i, r := range rates {
		if r < least {
			good = 0
			continue
		}
		if good++; good == hold {
			return i - hold + 1, true
		}
	}
	return 0, false
}

// recoveryWindow is the width of the windows in which a rate is compared with
// the rate before.
const recoveryWindow = 500 * time.Millisecond

// offered is the load of one phase, and what became of it.
type offered struct {
	latency *Dist   // of each update, from when it was due until it or a later one was stored
	stored  *series // updates known to be stored, by the time of the answer
	answers atomic.Int64
	sent    atomic.Int64
	refused atomic.Int64 // updates that were not taken
	open    atomic.Int64 // sent, and not known to be stored
}

func newOffered() *offered {
	return &offered{latency: NewDist(), stored: newSeries(recoveryWindow)}
}

// lane is a registration that is updated. Only one goroutine fires it.
type lane struct {
	registration Registration

	mu      sync.Mutex // guards the rest
	due     []dueUpdate
	waiting bool // a goroutine waits for answers
}

type dueUpdate struct {
	at   time.Time
	load *offered
}

// fire updates the registration without waiting. The goroutine that waits for the
// answer is joined by wait.
func (l *lane) fire(ctx context.Context, load *offered, due time.Time, v string, wait *sync.WaitGroup) {
	if err := l.registration.Update(v); err != nil {
		load.refused.Add(1)
		return
	}
	load.sent.Add(1)
	load.open.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = append(l.due, dueUpdate{due, load})
	if !l.waiting {
		l.waiting = true
		wait.Go(func() { l.await(ctx) })
	}
}

// await records the answers until none is due.
func (l *lane) await(ctx context.Context) {
	for {
		l.mu.Lock()
		due := l.due
		l.due, l.waiting = nil, len(due) > 0
		l.mu.Unlock()
		if len(due) == 0 || l.registration.Stored(ctx) != nil {
			return // what is not stored stays open
		}
		now := time.Now()
		for _, u := range due {
			u.load.latency.Add(now.Sub(u.at))
			u.load.stored.add(1)
			u.load.open.Add(-1)
		}
		due[len(due)-1].load.answers.Add(1)
	}
}
