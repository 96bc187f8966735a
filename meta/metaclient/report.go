package metaclient

import (
	"context"
	"time"

	"conclave/internal/signal"
	wirev1 "conclave/wire/v1"
)

// report is what a beat carries about the node besides that it lives.
type report struct {
	slots           []*wirev1.SlotReport
	load            uint32
	ready, draining bool
}

// reporter calls Report in a goroutine of its own. Report takes locks that
// requests with many registrations hold, and a beat must not wait for them: one
// whose report is late is sent without it, and the report follows as soon as it
// is there. The leader keeps what the node reported before.
type reporter struct {
	wanted signal.Signal
	made   chan report // room for one
	last   report      // used by the sender only
}

func newReporter() *reporter {
	return &reporter{wanted: signal.New(), made: make(chan report, 1)}
}

// run calls from whenever a report is wanted, until ctx ends.
func (r *reporter) run(ctx context.Context, from func() (slots []*wirev1.SlotReport, load uint32, ready, draining bool)) {
	for {
		select {
		case <-r.wanted.C():
		case <-ctx.Done():
			return
		}
		var next report
		next.slots, next.load, next.ready, next.draining = from()
		select {
		case r.made <- next:
		case <-ctx.Done():
			return
		}
	}
}

// next asks for a report and waits for it, for limit at most. It returns false
// with the last one if that time has passed. One that was asked for before may
// come first; the one that is asked for now follows in made.
func (r *reporter) next(ctx context.Context, limit time.Duration) (_ report, inTime bool) {
	r.wanted.Set()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r.last = <-r.made:
		return r.last, true
	case <-timer.C:
	case <-ctx.Done():
	}
	return r.last, false
}
