package meta

import (
	"sync"
	"time"

	"conclave"
)

// propagation measures for how long two slot tables coexist: from the
// publication of a table until every member that holds a stream has reported
// it, or a newer one. Article 002 gives about a second for the original; here
// members report a table as soon as they have applied it.
type propagation struct {
	mu    sync.Mutex     // guards the rest
	table conclave.Epoch // the last that was published
	at    time.Time      // when; zero: every member has it
	last  time.Duration  // how long the last table took to reach every member
}

// published starts the clock for a table, unless the previous one has not
// reached every member yet: then its time continues.
func (p *propagation) published(table conclave.Epoch, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.table.Less(table) {
		return
	}
	p.table = table
	if p.at.IsZero() {
		p.at = now
	}
}

// held stops the clock if no member is behind.
func (p *propagation) held(behind func(table conclave.Epoch) []string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() || len(behind(p.table)) > 0 {
		return
	}
	p.last, p.at = now.Sub(p.at), time.Time{}
}

// took returns how long the last table took, or how long the current one has
// been taking, if that is longer.
func (p *propagation) took(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() {
		return p.last
	}
	return max(p.last, now.Sub(p.at))
}

// behind returns the members that hold a stream and an older table, sorted.
func (r *roster) behind(table conclave.Epoch) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name, n := range sorted(r.nodes) {
		if n.stream != nil && n.table.Less(table) {
			names = append(names, name)
		}
	}
	return names
}
