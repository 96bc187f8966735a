package meta

import (
	"maps"
	"slices"
	"sync"
	"time"

	"conclave"
)

// spread measures for how long two slot tables coexist: from the publishing of a
// table until every member that holds a stream has said that it holds it, or a
// newer one. Article 002 gives about a second for the original; here members say
// so as soon as they have taken it.
type spread struct {
	mu    sync.Mutex     // guards the rest
	table conclave.Epoch // the newest that was published
	at    time.Time      // when; zero: everybody has it
	last  time.Duration  // how long the last one took that everybody has
}

// published starts the clock for a table, unless the one before is still on its
// way: then that one's time goes on.
func (s *spread) published(table conclave.Epoch, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.table.Less(table) {
		return
	}
	s.table = table
	if s.at.IsZero() {
		s.at = now
	}
}

// held stops it, when nobody is behind any more.
func (s *spread) held(behind func(table conclave.Epoch) []string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() || len(behind(s.table)) > 0 {
		return
	}
	s.last, s.at = now.Sub(s.at), time.Time{}
}

// took is how long the last table took, or how long the present one has been on
// its way, if that is longer.
func (s *spread) took(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() {
		return s.last
	}
	return max(s.last, now.Sub(s.at))
}

// behind are the members that hold a stream and an older table, sorted.
func (r *roster) behind(table conclave.Epoch) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		if n := r.nodes[name]; n.stream != nil && n.table.Less(table) {
			names = append(names, name)
		}
	}
	return names
}
