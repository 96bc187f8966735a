package scenario

import (
	"cmp"
	"context"
	"slices"
	"time"

	"conclave"
	"conclave/testbed"
	"conclave/testbed/check"
)

// player plays one scenario. One goroutine does everything but the clients'
// work.
type player struct {
	s         Scenario
	cluster   testbed.Cluster
	narrators []Narrator
	can       *testbed.Capabilities // of cluster, once it is open
	rec       *check.Recorder
	load      *Traffic
	targets   *targets

	start    time.Time
	due      []event
	seq      int
	open     []*openExpectation
	baseline testbed.Snapshot          // before the last fault
	active   map[string]testbed.Action // the act that ends each fault that lasts, by key
	last     check.Observation
	refused  int                    // refusals before the scenario began
	evicted  map[int]conclave.Epoch // slots whose evicted leader was ahead, at the epoch of the next one
	usedAt   time.Time              // when the usage was last recorded
	members  []string               // nodes that had joined, once a burst has begun
	compared int64                  // pairs of copies compared since the last OpCompared
	failures []string
	failedAt time.Duration
	late     []string
	acted    acted
}

// acted is when the first of the actions began that are due at one time.
type acted struct {
	at    time.Duration
	began time.Time
}

// event is something that is due at a time of the scenario.
type event struct {
	at  time.Duration
	seq int // in the order of the file
	do  func(ctx context.Context) error
}

// at adds an event, which is due at a time of the scenario.
func (p *player) at(at time.Duration, do func(context.Context) error) {
	p.seq++
	p.due = append(p.due, event{at, p.seq, do})
	slices.SortFunc(p.due, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) })
}

// openExpectation is an expectation that is not decided yet.
type openExpectation struct {
	Expectation
	line     int
	began    time.Time
	due      time.Time // began, or before: when the action began that is due at the same time
	progress bool      // one of those that end every scenario
}
