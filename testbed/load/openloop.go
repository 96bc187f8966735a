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

	recoveryWindow = 2 * time.Second // in which a rate is compared with the one before
	recoveryShare  = 0.9             // of the rate before
	recoveryLimit  = 2 * time.Minute
)

// Lanes are registrations that are updated in turn. Only one method may run at a time.
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
	missed = openLoop(ctx, rate, lasts, senders, func(i int, due time.Time) {
		l.lanes[i%len(l.lanes)].fire(ctx, of, due, Value(i), &l.answers)
	})
	of.Lasted = time.Since(of.began)
	return of, missed
}

// Recovery offers a rate in one window after the other, and returns how long it takes
// until the updates stored per second of a window are within 10 % of before.
func (l *Lanes) Recovery(ctx context.Context, rate, before float64) (time.Duration, error) {
	start := time.Now()
	for ctx.Err() == nil && time.Since(start) < recoveryLimit {
		began := time.Since(start)
		if of, _ := l.Offer(ctx, rate, recoveryWindow); ctx.Err() == nil && of.Rate() >= recoveryShare*before {
			return began, nil
		}
	}
	return 0, errors.Join(fmt.Errorf("%w within %s", errNotRecovered, time.Since(start).Round(time.Second)), ctx.Err())
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

// Offered is what was offered, and what became of it.
type Offered struct {
	Lasted  time.Duration
	Latency *Dist // of each update, from when it was due until it or a later one was stored
	Answers atomic.Int64
	Sent    atomic.Int64
	Refused atomic.Int64 // updates that were not taken
	Open    atomic.Int64 // sent, and not known to be stored

	began time.Time
}

func newOffered() *Offered { return &Offered{Latency: NewDist(), began: time.Now()} }

// Rate returns the updates known to be stored by now for each second that it lasted.
func (o *Offered) Rate() float64 { return float64(o.Sent.Load()-o.Open.Load()) / o.Lasted.Seconds() }

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
			u.load.Open.Add(-1)
		}
		due[len(due)-1].load.Answers.Add(1)
	}
}
