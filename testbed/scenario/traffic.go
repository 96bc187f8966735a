package scenario

import (
	"context"
	"slices"
	"time"

	"conclave/testbed"
	"conclave/testbed/check"
)

// Traffic is the clients of a scenario without the scenario: for a cluster that is
// watched for a long time. What they do and see is recorded.
type Traffic struct {
	load  *load
	seed  uint64
	seen  map[string]string        // each client's connections, as they were last recorded
	wrong map[difference]time.Time // since which look each list has differed so
}

// difference is a registration that is not in a list as often as it is published.
type difference struct{ list, tag string }

// NewTraffic returns clients that have not started.
func NewTraffic(of Load, d testbed.Cluster, rec Recorder, seed uint64) *Traffic {
	l := newLoad(of, d, rec)
	l.anyOf = true // values may change faster than they arrive
	return &Traffic{load: l, seed: seed, seen: map[string]string{}, wrong: map[difference]time.Time{}}
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

// Pause waits until no client is about to change anything, or waits for an
// acknowledgement, and keeps them all from changes until Resume. No new one arrives.
// With an error, which is that of ctx, nothing is kept.
func (t *Traffic) Pause(ctx context.Context) error { return t.load.changes.Acquire(ctx, everyone) }

// Resume ends a Pause.
func (t *Traffic) Resume() { t.load.changes.Release(everyone) }

// Leave makes the guests leave within a moment, whenever they would have left.
func (t *Traffic) Leave() {
	t.load.mu.Lock()
	defer t.load.mu.Unlock()
	for _, w := range t.load.guests {
		w.leave()
	}
}

// Look records which sessions know the clients, and returns the lists that have
// lacked a registration of a live client, or had one too many, for a second: the
// same one, from one look on. What it was between two looks is not known, however
// long that time was. It is called several times a second, by one goroutine.
func (t *Traffic) Look() (missing []string) {
	t.load.connections(t.seen)
	now := time.Now()
	found := t.differences()
	for d := range t.wrong {
		if !found[d] {
			delete(t.wrong, d)
		}
	}
	for d := range found {
		switch since, known := t.wrong[d]; {
		case !known:
			t.wrong[d] = now
		case now.Sub(since) > changing && !slices.Contains(missing, d.list):
			missing = append(missing, d.list)
		}
	}
	slices.Sort(missing)
	return missing
}

// differences returns how the lists differ from what is published.
func (t *Traffic) differences() map[difference]bool {
	l := t.load
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[difference]bool{}
	for client, name := range l.short() {
		list := check.ListName(client, name)
		more := map[string]int{} // by tag: how many more are in the list than are published
		for _, tag := range tags(l.settled(l.last[[2]string{client, name}])) {
			more[tag]++
		}
		for _, tag := range tags(l.wanted(name)) {
			more[tag]--
		}
		for tag, n := range more {
			if n != 0 {
				out[difference{list, tag}] = true
			}
		}
	}
	return out
}
