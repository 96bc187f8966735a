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

// fault is what becomes of a request that matches.
type fault struct {
	op   Op
	path string
	do   outcome
}

type outcome int

const (
	sound       outcome = iota
	loseReply           // carried out, not answered
	dropRequest         // not carried out
)

// LoseReply lets the next request of this kind, on a path with this text in it, be
// carried out, and breaks its connection instead of answering.
func (s *Server) LoseReply(op Op, path string) { s.plan(fault{op, path, loseReply}) }

// DropRequest breaks the connection of the next such request before it is carried out.
func (s *Server) DropRequest(op Op, path string) { s.plan(fault{op, path, dropRequest}) }

func (s *Server) plan(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f)
}

// fault takes the first one that fits; mu is held.
func (s *Server) fault(op Op, path string) outcome {
	for i, f := range s.faults {
		if f.op == op && strings.Contains(path, f.path) {
			s.faults = slices.Delete(s.faults, i, i+1)
			return f.do
		}
	}
	return sound
}

// Faults is how many faults have not come about yet.
func (s *Server) Faults() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.faults)
}
