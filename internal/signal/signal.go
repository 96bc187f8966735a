// Package signal has the one way in which a loop is woken here: a flag that
// stays set until the loop takes it.
package signal

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
