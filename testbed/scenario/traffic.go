package scenario

import (
	"context"
	"slices"
	"time"

	"conclave/testbed"
	"conclave/testbed/check"
)

// NewTraffic returns clients without a scenario, which have not started.
func NewTraffic(of Load, d testbed.Cluster, rec Recorder, seed uint64) *Traffic {
	l := newTraffic(of, d, rec, seed)
	l.anyOf = true // values may change faster than they arrive
	return l
}

// Pause waits until no client is about to change anything, or waits for an
// acknowledgement, and keeps them all from changes until Resume. No new one arrives.
// With an error, which is that of ctx, nothing is kept.
func (l *Traffic) Pause(ctx context.Context) error { return l.changes.Acquire(ctx, everyone) }

// Resume ends a Pause.
func (l *Traffic) Resume() { l.changes.Release(everyone) }

// Leave makes the guests leave within a moment, whenever they would have left.
func (l *Traffic) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.guests {
		w.leave()
	}
}

// Look records which sessions know the clients, and returns the lists that have
// lacked a registration of a live client, or had one too many, for a second: the
// same one, from one look on. What it was between two looks is not known, however
// long that time was. It is called several times a second, by one goroutine.
func (l *Traffic) Look() (missing []string) {
	l.connections()
	now := time.Now()
	found := l.differences()
	for d := range l.wrong {
		if !found[d] {
			delete(l.wrong, d)
		}
	}
	for d := range found {
		switch since, known := l.wrong[d]; {
		case !known:
			l.wrong[d] = now
		case now.Sub(since) > changing && !slices.Contains(missing, d.list):
			missing = append(missing, d.list)
		}
	}
	slices.Sort(missing)
	return missing
}

// differences returns how the lists differ from what is published.
func (l *Traffic) differences() map[difference]bool {
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
