package playground

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"conclave/testbed/simulated"
)

const (
	stretch    = 10 * time.Millisecond // of virtual time, between two looks at what the viewer wants
	workFor    = 25 * time.Millisecond // then the page's messages are let in, since in a browser there is one thread
	lagAllowed = 200 * time.Millisecond
	checkShare = 20       // of the time, one part is used for checks
	heapLeast  = 64 << 20 // bytes from which on garbage is collected
)

// Fast is the speed of a run that does not wait.
const Fast = 0

// limits are how long a step may take, in virtual time.
var limits = map[Goal]time.Duration{Message: time.Second, Election: time.Minute, Violation: 3 * time.Minute}

// Pace returns how time moves now.
func (w *World) Pace() Pace {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, s := w.pace, w.start
	s.Acts, s.Moment = w.acts, max(w.now, s.Moment)
	p.Step, p.Replays, p.AtMs, p.Start, p.HeapMiB = w.goal, w.now < w.start.Moment, float64(w.now.Microseconds())/1000, s.String(), int(heap()>>20)
	return p
}

// SetPace changes how time moves; a step ends.
func (w *World) SetPace(speed float64, paused bool) error {
	if !(speed == Fast || speed >= 0.01 && speed <= 1000) {
		return fmt.Errorf("speed %g: want 0.01 to 1000, or %d, as fast as it can", speed, Fast)
	}
	w.mu.Lock()
	w.pace.Speed, w.pace.Paused, w.goal = speed, paused, ""
	w.mu.Unlock()
	w.wake.Set()
	return nil
}

// Step moves time until a goal is reached, and then pauses. It returns at once.
func (w *World) Step(goal Goal) error {
	limit, ok := limits[goal]
	if !ok {
		return fmt.Errorf("step to %q: want %s, %s or %s", goal, Message, Election, Violation)
	}
	w.mu.Lock()
	w.goal, w.limit, w.pace.Reached, w.pace.Paused = goal, w.now+limit, "", true
	w.mu.Unlock()
	w.wake.Set()
	return nil
}

// drive moves time as the viewer wants it, until ctx or the bubble ends.
func (w *World) drive(ctx context.Context, ended <-chan struct{}) {
	if simulated.OneTrace { // the collector would change the order of the bubble's goroutines
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
	}
	collectAt := uint64(heapLeast)
	worked := time.Now()
	var from time.Time          // a moment of a run at a speed;
	var fromNow time.Duration   // the virtual time then
	var fromSpeed float64 = -10 // and the speed; another one begins such a run again
	for ctx.Err() == nil {
		w.mu.Lock()
		now, goal, speed, paused, moment := w.now, w.goal, w.pace.Speed, w.pace.Paused, w.start.Moment
		w.mu.Unlock()
		if goal == "" && now >= moment && paused {
			fromSpeed = -10
			w.still.Notify()
			select {
			case <-w.wake.C():
			case <-ctx.Done():
			case <-ended:
				return
			}
			continue
		}
		if speed != fromSpeed || goal != "" || now < moment {
			from, fromNow, fromSpeed = time.Now(), now, speed
		}
		to := now + stretch
		if goal == "" && now < moment {
			to = min(to, moment)
		} else if goal == "" && speed != Fast {
			due := fromNow + time.Duration(speed*float64(time.Since(from)))
			if due-now > time.Duration(speed*float64(lagAllowed)) {
				fromSpeed = -10 // it cannot be so fast: what was missed is not made up for
			}
			if to = min(to, due.Truncate(quantum)); to <= now {
				time.Sleep(workFor / 5)
				worked = time.Now()
				continue
			}
		}
		if !w.move(now, to, goal, moment) {
			return
		}
		if time.Since(worked) > workFor {
			if simulated.OneTrace && heap() > collectAt {
				runtime.GC()
				collectAt = max(heapLeast, heap()*3/2)
			}
			time.Sleep(time.Millisecond)
			worked = time.Now()
		}
	}
}

// move moves time until a moment or until the goal is reached, and reports whether the
// bubble runs.
func (w *World) move(now, to time.Duration, goal Goal, moment time.Duration) bool {
	reached := ""
	ran := w.in(func(b *inside) {
		if goal == Message {
			to = min(to, now+quantum)
			b.fine = to
		}
		reached = b.advance(to, goal)
		if goal == Message {
			b.fine = b.now()
			b.noteStep(now, b.fine)
		}
	})
	if !ran {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case goal != "" && w.goal == goal && (reached != "" || w.now >= w.limit):
		if reached == "" {
			reached = fmt.Sprintf("no %s within %s", goal, limits[goal])
		}
		w.goal, w.pace.Reached = "", fmt.Sprintf("%s s: %s", seconds(w.now), reached)
	case goal == "" && now < moment && w.now >= moment:
		w.pace.Paused = true
	}
	return true
}

// noteStep adds a step to the acts, or makes the last one longer.
func (b *inside) noteStep(from, to time.Duration) {
	b.w.mu.Lock()
	if n := b.next; n > 0 && b.w.acts[n-1].Do == step && b.w.acts[n-1].Value == seconds(from) {
		b.next--
		from = b.w.acts[n-1].At
	}
	b.w.mu.Unlock()
	a := Act{At: from}
	a.Do, a.Value = step, seconds(to)
	b.note(a)
}

// aside implements live.Config.Aside.
func (w *World) aside(run func(), must bool) {
	w.checks <- check{run, must}
	<-w.done
}

// check runs the checks, outside of the bubble: there time is real, so that their share of
// it can be bounded, and they draw nothing from what is random in the bubble.
func (w *World) check() {
	var next time.Time
	for c := range w.checks {
		w.mu.Lock()
		must := c.must || w.goal == Violation
		w.mu.Unlock()
		if began := time.Now(); must || began.After(next) {
			c.run()
			next = time.Now().Add(checkShare * time.Since(began))
		}
		w.done <- struct{}{}
	}
}

// heap returns the bytes of objects, dead ones included.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
