package lab

import (
	"sync"
	"time"
)

// belief is what one process thinks of itself, told to the lab at every change.
type belief struct {
	say  func(Event)
	news chan struct{} // a leadership has begun; cap 1, never closed

	mu     sync.Mutex // guards what follows; say is called under it, so that the order is true
	on     bool
	number uint64    // the rule's own; 0: it has none
	count  int       // leaderships so far
	until  time.Time // believed until then, unless it is extended; zero: until something ends it
}

// lead begins a leadership, or extends the one that there is.
func (b *belief) lead(number uint64, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	what := "extends"
	if !b.on || b.number != number {
		what = "leads"
		b.count++
		if b.on {
			b.say(Event{What: "left", At: stamp(time.Now()), Why: "another leadership"})
		}
	} else if until.Equal(b.until) {
		return
	}
	b.on, b.number, b.until = true, number, until
	e := Event{What: what, At: stamp(time.Now()), Number: number}
	if !until.IsZero() {
		e.Until = stamp(until)
	}
	b.say(e)
	if what == "leads" {
		nudge(b.news)
	}
}

// leave ends it; without one it does nothing.
func (b *belief) leave(why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.on {
		b.on = false
		b.say(Event{What: "left", At: stamp(time.Now()), Why: why})
	}
}

// holds is the check before an act.
func (b *belief) holds() (number uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.number, b.on && (b.until.IsZero() || time.Now().Before(b.until))
}

// led is how many leaderships have begun.
func (b *belief) led() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

// nudge makes a signal of capacity one; it never blocks.
func nudge(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
