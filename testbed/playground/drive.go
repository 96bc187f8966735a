package playground

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"conclave/testbed/console"
	"conclave/testbed/simulated"
)

const (
	stretch    = 10 * time.Millisecond // of virtual time, between two looks at what the viewer wants
	workFor    = 25 * time.Millisecond // then the page's messages are let in, since in a browser there is one thread
	lagAllowed = 200 * time.Millisecond
	heapLeast  = 64 << 20 // bytes from which on garbage is collected
)

// Run plays the cluster, and shows it, until ctx ends.
func (w *World) Run(ctx context.Context, hub *console.Hub) error {
	if simulated.OneTrace { // the collector would change the order of the bubble's goroutines; see drive
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
		runtime.GC()
	}
	var err error
	var all sync.WaitGroup
	all.Go(w.check)
	all.Go(func() {
		defer close(w.checks)
		w.bubble(func() { err = w.play(hub) })
	})
	w.drive(ctx)
	w.jobs <- nil
	all.Wait()
	return err
}

// Pace returns how time moves now.
func (w *World) Pace() Pace {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, s := w.pace, w.start
	if s.Acts = w.acts; p.Step != moment { // otherwise that of the start is on its way
		if s.Moment = w.now; len(s.Acts) > 0 {
			s.Moment = max(w.now, s.Acts[len(s.Acts)-1].At) // a Start has no act after its moment
		}
	}
	p.AtMs, p.Start, p.HeapMiB = float64(w.now.Microseconds())/1000, s.String(), int(heap()>>20)
	return p
}

// SetPace changes how time moves, by Speed, Paused and Step; the step before ends. With a
// step it returns at once, and time moves until the goal is reached, and then pauses. After
// a pause time is stopped when it returns. Until the moment of the start is reached, only
// Speed is changed, unless there is a step: a shared start shows its moment, and pauses.
func (w *World) SetPace(p Pace) error {
	limit, ok := limits[p.Step]
	switch {
	case p.Step != "" && !ok:
		return fmt.Errorf("step to %q: want %s, %s or %s", p.Step, Message, Election, Violation)
	case !(p.Speed == Fast || p.Speed >= 0.01 && p.Speed <= 1000):
		return fmt.Errorf("speed %g: want 0.01 to 1000, or %d, as fast as it can", p.Speed, Fast)
	}
	w.mu.Lock()
	if w.pace.Step == moment && !ok {
		defer w.mu.Unlock()
		w.pace.Speed = p.Speed
		return nil
	}
	w.pace.Speed, w.pace.Paused, w.pace.Step, w.limit = p.Speed, p.Paused || ok, p.Step, w.now+limit
	if ok {
		w.pace.Reached = ""
	}
	w.mu.Unlock()
	w.wake.Set()
	if p.Paused && !ok {
		w.in(func(*inside) {})
	}
	return nil
}

// drive moves time as the viewer wants it, until ctx ends.
func (w *World) drive(ctx context.Context) {
	collectAt := uint64(heapLeast)
	worked, played := time.Now(), time.Now() // until then time was moved
	for ctx.Err() == nil {
		w.mu.Lock()
		now, p, limit := w.now, w.pace, w.limit
		w.mu.Unlock()
		to := now + stretch
		switch {
		case p.Step != "":
			to = min(to, limit)
		case p.Paused:
			if w.idle != nil {
				w.idle()
			}
			select {
			case <-w.wake.C():
			case <-ctx.Done():
			}
			played = time.Now()
			continue
		case p.Speed != Fast:
			if late := time.Since(played) - lagAllowed; late > 0 {
				played = played.Add(late) // it cannot be so fast: what was missed is not made up for
			}
			by := min(stretch, time.Duration(p.Speed*float64(time.Since(played))).Truncate(quantum))
			if by == 0 {
				time.Sleep(workFor / 5)
				worked = time.Now()
				continue
			}
			to, played = now+by, played.Add(time.Duration(float64(by)/p.Speed))
		}
		w.move(to, p.Step)
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

// move moves time until a moment or until the goal is reached.
func (w *World) move(to time.Duration, goal Goal) {
	reached := ""
	w.in(func(b *inside) {
		w.mu.Lock()
		late := goal == "" && w.pace.Paused
		w.mu.Unlock()
		if !late {
			reached = b.advance(to, goal)
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if goal == "" || w.pace.Step != goal || reached == "" && w.now < w.limit {
		return
	}
	w.pace.Step = ""
	if reached == "" && goal != moment {
		reached = fmt.Sprintf("no %s within %s", goal, limits[goal])
	}
	if reached != "" {
		w.pace.Reached = fmt.Sprintf("%s s: %s", seconds(w.now), reached)
	}
}

// heap returns the bytes of objects, dead ones included.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
