package scenario

import (
	"context"

	"conclave/testbed"
	"conclave/testbed/check"
)

// Traffic is the clients of a scenario without the scenario: for a cluster that is
// watched for a long time. What they do and see is recorded.
type Traffic struct {
	load *load
	seed uint64
	seen map[string]string // each client's connections, as they were last recorded
}

// NewTraffic returns clients that have not started.
func NewTraffic(of Load, d testbed.Cluster, rec *check.Recorder, seed uint64) *Traffic {
	l := newLoad(of, d, rec)
	l.anyOf = true // values may change faster than they arrive
	return &Traffic{load: l, seed: seed, seen: map[string]string{}}
}

// Begin starts the clients. They work until ctx ends; Wait joins them.
func (t *Traffic) Begin(ctx context.Context) error { return t.load.begin(ctx, t.seed) }

// Wait waits until no client works any more.
func (t *Traffic) Wait() { t.load.working.Wait() }

// Burst makes each client also change values factor times as often as before,
// until EndBurst or ctx ends.
func (t *Traffic) Burst(ctx context.Context, factor int) {
	t.load.burst(ctx, testbed.Action{Verb: testbed.Burst, Factor: factor}, t.seed)
}

// EndBurst ends the burst, if there is one.
func (t *Traffic) EndBurst() { t.load.endBurst() }

// Look records which sessions know the clients, and returns the lists that are not
// full and were not for a second: some registration of a live client is missing in them.
// It is called several times a second, by one goroutine.
func (t *Traffic) Look() (missing []string) {
	t.load.connections(t.seen)
	t.load.full()
	return t.load.missing()
}
