package metaclient

import (
	"context"
	"sync/atomic"
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
//
// A node that makes no report for a node lease (overdue) sends no beats: a part
// of it that holds such a lock for ever serves nothing, and the node must not
// stay a member for it.
type reporter struct {
	wanted signal.Signal
	asked  atomic.Uint64      // how many reports were asked for
	made   chan orderedReport // room for one

	// The fields below belong to the sender of the present stream.
	first   uint64    // the first report that was asked for on this stream
	waiting bool      // a report has been asked for and was not received,
	since   time.Time // since this time
	silent  bool      // overdue was logged
}

// orderedReport is a report that was begun after so many had been asked for.
type orderedReport struct {
	report
	asked uint64
}

func newReporter() *reporter {
	return &reporter{wanted: signal.New(), made: make(chan orderedReport, 1)}
}

// run calls from whenever a report is wanted, until ctx ends.
func (r *reporter) run(ctx context.Context, from func() (slots []*wirev1.SlotReport, load uint32, ready, draining bool)) {
	for {
		select {
		case <-r.wanted.C():
		case <-ctx.Done():
			return
		}
		next := orderedReport{asked: r.asked.Load()}
		next.slots, next.load, next.ready, next.draining = from()
		select {
		case r.made <- next:
		case <-ctx.Done():
			return
		}
	}
}

// beginStream makes what was asked for on earlier streams too old to be sent: a
// new leader must not take what the node was long ago for what it is now.
func (r *reporter) beginStream() { r.first = r.asked.Load() + 1 }

// next asks for a report and waits for it, for limit at most. It returns false if
// that time has passed. One that was asked for before, on this stream, may come
// first; the one that is asked for now follows in made.
func (r *reporter) next(ctx context.Context, limit time.Duration) (_ report, inTime bool) {
	r.asked.Add(1)
	r.wanted.Set()
	if !r.waiting {
		r.waiting, r.since = true, time.Now()
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case m := <-r.made:
			if r.received(m) {
				return m.report, true
			}
		case <-timer.C:
			return report{}, false
		case <-ctx.Done():
			return report{}, false
		}
	}
}

// received records a report from made. It returns false if the report was asked
// for on an earlier stream, so that it is not to be sent.
func (r *reporter) received(m orderedReport) (fresh bool) {
	r.waiting, r.since = m.asked < r.asked.Load(), time.Now()
	return m.asked >= r.first
}

// overdue reports whether reports were asked for and none was received for a
// while.
func (r *reporter) overdue(after time.Duration) bool {
	return r.waiting && time.Since(r.since) >= after
}
