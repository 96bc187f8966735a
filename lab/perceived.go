package lab

import (
	"cmp"
	"sync"
	"time"

	"conclave/internal/signal"
)

// perceivedLeadership is whether this process believes that it leads. It
// reports every change to the lab.
type perceivedLeadership struct {
	report func(Event)
	began  signal.Signal // set when a leadership begins

	mu     sync.Mutex // guards what follows; report is called with it held, so that events are in order
	on     bool
	number uint64    // the rule's number of this leadership; 0 if it has none
	at     int64     // when it began
	until  time.Time // when it ends unless it is extended; zero if nothing but an event ends it
}

// lead begins a leadership, or extends the present one if it has the same
// number.
func (p *perceivedLeadership) lead(number uint64, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, what := stamp(time.Now()), "extends"
	if !p.on || p.number != number {
		what = "leads"
		if p.on {
			p.report(Event{What: "left", At: now, Why: "another leadership"})
		}
		p.at = now
	} else if until.Equal(p.until) {
		return
	}
	p.on, p.number, p.until = true, number, until
	e := Event{What: what, At: now}
	if !until.IsZero() {
		e.Until = stamp(until)
	}
	p.report(e)
	if what == "leads" {
		p.began.Set()
	}
}

// leave ends the leadership. Without one it does nothing.
func (p *perceivedLeadership) leave(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.on {
		p.on = false
		p.report(Event{What: "left", At: stamp(time.Now()), Why: why})
	}
}

// leading is the check that a leader makes before each write. If the rule has no number,
// the time when the leadership began orders it.
func (p *perceivedLeadership) leading() (number uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.number, uint64(p.at)), p.on && (p.until.IsZero() || time.Now().Before(p.until))
}
