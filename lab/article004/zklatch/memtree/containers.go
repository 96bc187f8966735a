package memtree

import (
	"slices"

	"conclave/lab/article004/zklatch"
)

// RefuseContainers makes the server refuse containers, as a ZooKeeper before 3.5.3 does.
func (s *Server) RefuseContainers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noContainers = true
}

// IsContainer reports whether there is a container at path. Clients cannot ask that.
func (s *Server) IsContainer(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.find(path)
	return err == nil && n.container
}

// Sweep deletes the containers that have had a child and have none now, and returns
// their paths. ZooKeeper does that each minute. A container that becomes empty by a
// sweep is deleted by the next one.
func (s *Server) Sweep() (deleted []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.root.walk(func(n *node) {
		if n.container && n.made > 0 && len(n.children) == 0 {
			deleted = append(deleted, n.path)
		}
	})
	slices.Sort(deleted)
	for _, path := range deleted {
		_ = s.remove(path, zklatch.AnyVersion) // cannot fail: it exists and is empty
	}
	return deleted
}
