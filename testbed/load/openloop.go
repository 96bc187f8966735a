package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"conclave/internal/sleep"
	"conclave/testbed"
)

const (
	senders     = 20     // goroutines of an open loop
	closedLoops = 20_000 // updates without an answer in the closed loop

	recoveryWindow = 500 * time.Millisecond // in which a rate is compared with the one before
	recoveryHold   = 4                      // windows in succession
	recoveryShare  = 0.9                    // of the rate before
	recoveryLimit  = 2 * time.Minute
)

// Lanes are registrations that are updated in turn. Offer and Recovery must not run at
// the same time.
type Lanes struct {
	lanes   []*lane
	answers sync.WaitGroup
}

// NewLanes returns lanes of registrations.
func NewLanes(made []testbed.Publication) *Lanes {
	l := &Lanes{lanes: make([]*lane, len(made))}
	for i, r := range made {
		l.lanes[i] = &lane{registration: r}
	}
	return l
}

// Capacity updates registrations in a closed loop, each when its last update is
// stored, and returns how many updates were stored per second.
func (l *Lanes) Capacity(ctx context.Context, lasts time.Duration) (float64, error) {
	limited, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	var stored atomic.Int64
	var failed error
	var once sync.Once
	var updating sync.WaitGroup
	start := time.Now()
	loops := min(closedLoops, len(l.lanes))
	for first := range loops {
		updating.Go(func() {
			for i := first; ; i += loops {
				r := l.lanes[i%len(l.lanes)].registration
				err := r.Update([]string{Value(i)})
				if err == nil {
					err = r.Stored(limited)
				}
				if err != nil {
					if limited.Err() == nil {
						once.Do(func() { failed = err; cancel() })
					}
					return
				}
				stored.Add(1)
			}
		})
	}
	updating.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	if failed == nil && stored.Load() == 0 {
		failed = fmt.Errorf("no update was stored in %s", lasts)
	}
	return float64(stored.Load()) / time.Since(start).Seconds(), failed
}

// Offer updates the registrations in an open loop. It returns what becomes of the
// updates, of which later answers are added, and how many were not sent.
func (l *Lanes) Offer(ctx context.Context, rate float64, lasts time.Duration) (of *Offered, missed int) {
	of = newOffered()
	return of, l.offer(ctx, rate, lasts, of)
}

func (l *Lanes) offer(ctx context.Context, rate float64, lasts time.Duration, of *Offered) (missed int) {
	return openLoop(ctx, rate, lasts, senders, func(i int, due time.Time) {
		l.lanes[i%len(l.lanes)].fire(ctx, of, due, Value(i), &l.answers)
	})
}

// Recovery offers a rate, and returns how long it takes until the updates stored per
// second are within 10 % of before.
func (l *Lanes) Recovery(ctx context.Context, rate, before float64) (time.Duration, error) {
	of := newOffered()
	loading, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { l.offer(loading, rate, recoveryLimit, of) })
	for of.Lasts() < recoveryLimit {
		if at, ok := recoveredAt(of.stored.rates(), recoveryShare*before, recoveryHold); ok {
			return time.Duration(at) * recoveryWindow, nil
		}
		if err := sleep.For(ctx, recoveryWindow/5); err != nil {
			return 0, fmt.Errorf("%w within %s: %w", errNotRecovered, of.Lasts().Round(time.Second), err)
		}
	}
	return 0, fmt.Errorf("%w within %s", errNotRecovered, recoveryLimit)
}

var errNotRecovered = errors.New("not recovered")

// Wait waits for the answers to everything that was offered, or until the context with
// which it was offered has ended.
func (l *Lanes) Wait() { l.answers.Wait() }

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

// Offered is what was offered, and what became of it.
type Offered struct {
	Latency *Dist // of each update, from when it was due until it or a later one was stored
	Answers atomic.Int64
	Sent    atomic.Int64
	Refused atomic.Int64 // updates that were not taken
	Open    atomic.Int64 // sent, and not known to be stored

	stored *series // updates known to be stored, by the time of the answer
}

func newOffered() *Offered {
	return &Offered{Latency: NewDist(), stored: newSeries(recoveryWindow)}
}

// Lasts returns how long ago the offer began.
func (o *Offered) Lasts() time.Duration { return time.Since(o.stored.start) }

// Rate returns the updates stored per second, without the first and the last window
// of time, in which the load starts and ends.
func (o *Offered) Rate() float64 { return middle(o.stored.rates()) }

func middle(rates []float64) float64 {
	if len(rates) > 2 {
		rates = rates[1 : len(rates)-1]
	}
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	return sum / float64(max(1, len(rates)))
}

// lane is a registration that is updated. Only one goroutine fires it.
type lane struct {
	registration testbed.Publication

	mu      sync.Mutex // guards the rest
	due     []dueUpdate
	waiting bool // a goroutine waits for answers
}

type dueUpdate struct {
	at   time.Time
	load *Offered
}

// fire updates the registration without waiting. The goroutine that waits for the
// answer is joined by wait.
func (l *lane) fire(ctx context.Context, load *Offered, due time.Time, v string, wait *sync.WaitGroup) {
	if err := l.registration.Update([]string{v}); err != nil {
		load.Refused.Add(1)
		return
	}
	load.Sent.Add(1)
	load.Open.Add(1)
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
			u.load.Latency.Add(now.Sub(u.at))
			u.load.stored.add(1)
			u.load.Open.Add(-1)
		}
		due[len(due)-1].load.Answers.Add(1)
	}
}
