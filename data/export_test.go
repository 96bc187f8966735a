package data

import "conclave/data/store"

// LoseCopy removes a copy from a slot of this node without a trace, as a defect
// would.
func (s *Server) LoseCopy(slot int, key store.Key) {
	r := s.replicas.of(slot)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store.Remove(key, 1<<62, 0, r.fresh)
}

// ComparedNext is comparedNext for slots 0 to n-1.
func ComparedNext(n, last int) []int {
	follows := map[int]*feedSlot{}
	for id := range n {
		follows[id] = &feedSlot{}
	}
	return comparedNext(follows, last)
}

const CompareBeats = compareBeats
