package memtree

import (
	"slices"
	"strings"
)

// Op is a kind of request.
type Op string

// The kinds of requests.
const (
	Create   Op = "create"
	Delete   Op = "delete"
	Get      Op = "get"
	Set      Op = "set"
	Children Op = "children"
)

// fault is what happens to a request that matches: it is lost, or executed and not
// answered. Then its connection breaks.
type fault struct {
	op      Op
	path    string
	execute bool
}

// LoseReply executes the next request of this kind on a path that contains this text,
// and breaks its connection instead of answering.
func (s *Server) LoseReply(op Op, path string) { s.inject(fault{op, path, true}) }

// DropRequest breaks the connection of the next such request before it is executed.
func (s *Server) DropRequest(op Op, path string) { s.inject(fault{op, path, false}) }

func (s *Server) inject(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f)
}

// fault removes and returns the first fault that matches; mu is held.
func (s *Server) fault(op Op, path string) (f fault, found bool) {
	at := slices.IndexFunc(s.faults, func(f fault) bool { return f.op == op && strings.Contains(path, f.path) })
	if at < 0 {
		return fault{}, false
	}
	f = s.faults[at]
	s.faults = slices.Delete(s.faults, at, at+1)
	return f, true
}

// Before sets a function that is called before each request of a kind is executed. It may
// make requests of other sessions.
func (s *Server) Before(op Op, do func(path string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before[op] = do
}

// Faults returns how many faults have not happened yet.
func (s *Server) Faults() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.faults)
}
