// Package signal has the ways in which goroutines are woken here: a Signal, a flag
// that stays set until its one loop takes it, a Broadcast, which wakes all
// goroutines that wait at that moment, and Ticks, which wakes them as time passes.
package signal

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Signal wakes one loop. Setting it while it is set changes nothing, so that a
// loop that was slow runs once for all that happened meanwhile, and no sender
// ever waits.
//
// Any number of goroutines may set it. One goroutine takes it, by receiving from
// C; a loop must look at everything after it has taken the signal, not before.
type Signal struct{ c chan struct{} }

// New returns a signal that is not set.
func New() Signal { return Signal{make(chan struct{}, 1)} }

// Set sets the signal. It never blocks.
func (s Signal) Set() {
	select {
	case s.c <- struct{}{}:
	default: // set already
	}
}

// C returns the channel from which the signal is taken. It is never closed.
func (s Signal) C() <-chan struct{} { return s.c }

// Broadcast wakes any number of goroutines. Several notifications count as one.
// Its zero value is ready to use.
type Broadcast struct {
	mu   sync.Mutex // guards next
	next chan struct{}
}

// Next returns a channel that the next Notify closes. Call it before looking at
// what may have changed.
func (b *Broadcast) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// Notify wakes all goroutines that wait. It never blocks.
func (b *Broadcast) Notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// Ticks is a ticker that any number of goroutines share: a process at rest that wakes
// once for all of them takes less than one that wakes for each (docs/performance.md).
// While none waits, nothing runs.
type Ticks struct {
	every time.Duration

	mu   sync.Mutex // guards the rest
	due  time.Time  // of the last tick that was waited for
	next chan struct{}
}

// NewTicks returns Ticks with this time between two, at an offset that random draws, so
// that nodes which start together do not tick together.
func NewTicks(every time.Duration, random *rand.Rand) *Ticks {
	return &Ticks{every: every, due: time.Now().Add(-time.Duration(random.Int64N(int64(every))))}
}

// Next returns a channel that the next tick closes. A loop calls it before its first
// round, and again after each tick, so that a tick during a long round is not missed.
func (t *Ticks) Next() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil {
		t.next = make(chan struct{})
		since := time.Since(t.due)
		t.due = t.due.Add(since - since%t.every + t.every)
		time.AfterFunc(time.Until(t.due), t.tick)
	}
	return t.next
}

func (t *Ticks) tick() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.next)
	t.next = nil
}
