// Package signal has the two ways in which goroutines are woken here: a Signal,
// a flag that stays set until its one loop takes it, and a Broadcast, which
// wakes all goroutines that wait at that moment.
package signal

import "sync"

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
