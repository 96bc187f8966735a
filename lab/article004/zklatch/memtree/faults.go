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
	Multi    Op = "multi"
	Children Op = "children"
)

// fault is what happens to a request that matches.
type fault struct {
	op   Op
	path string
	do   outcome
}

type outcome int

const (
	noFault     outcome = iota
	loseReply           // executed, not answered
	dropRequest         // not executed
)

// LoseReply executes the next request of this kind on a path that contains this text,
// and breaks its connection instead of answering.
func (s *Server) LoseReply(op Op, path string) { s.inject(fault{op, path, loseReply}) }

// DropRequest breaks the connection of the next such request before it is executed.
func (s *Server) DropRequest(op Op, path string) { s.inject(fault{op, path, dropRequest}) }

func (s *Server) inject(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f)
}

// fault removes and returns the first fault that matches; mu is held.
func (s *Server) fault(op Op, path string) outcome {
	for i, f := range s.faults {
		if f.op == op && strings.Contains(path, f.path) {
			s.faults = slices.Delete(s.faults, i, i+1)
			return f.do
		}
	}
	return noFault
}

// Faults returns how many faults have not happened yet.
func (s *Server) Faults() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.faults)
}
