package memtree

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/lab/article004/zklatch"
)

// Server is a ZooKeeper in memory: a tree of nodes, and the sessions of its clients.
type Server struct {
	timeouts [2]time.Duration // the shortest and the longest that a session is granted

	mu           sync.Mutex // guards the fields below, and all nodes and sessions; never held across a wait
	zxid         int64
	root         *node
	sessions     map[int64]*session
	ids          int64
	writes       uint64 // transactions requested
	reads        uint64 // reads requested
	faults       []fault
	noContainers bool
	conns        map[*wireConn]bool // of clients that use the protocol
}

// Limits sets the shortest and the longest session timeout that the server grants.
// Call it before any session.
func (s *Server) Limits(shortest, longest time.Duration) {
	s.timeouts = [2]time.Duration{shortest, longest}
}

// New returns a server with an empty tree. It grants session timeouts between 50 ms
// and a minute.
func New() *Server {
	return &Server{
		timeouts: [2]time.Duration{50 * time.Millisecond, time.Minute},
		root:     &node{children: map[string]*node{}, path: "/"},
		sessions: map[int64]*session{},
		ids:      0x1000,
		conns:    map[*wireConn]bool{},
	}
}

// node is one node of the tree.
type node struct {
	path     string
	data     []byte
	stat     zklatch.Stat
	made     int32 // children ever created: the number of the next one
	pzxid    int64 // the last transaction that added or removed a child
	children map[string]*node
	// container nodes are deleted by Sweep.
	container bool
	watches   []*watch // on the node
	below     []*watch // on its children
}

// watch notifies one client, once.
type watch struct {
	owner *session
	fire  func(zklatch.Event)
}

// Counts are the numbers of requests.
type Counts struct{ Reads, Writes uint64 }

// Counts returns the counts since New.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Counts{s.reads, s.writes}
}

// find returns the node at path; mu is held.
func (s *Server) find(path string) (*node, error) {
	if path == "/" {
		return s.root, nil
	}
	below, ok := strings.CutPrefix(path, "/")
	if !ok {
		return nil, errPath
	}
	n := s.root
	for name := range strings.SplitSeq(below, "/") {
		if name == "" {
			return nil, errPath
		}
		if n = n.children[name]; n == nil {
			return nil, zklatch.ErrNoNode
		}
	}
	return n, nil
}

// errPath is returned for a path that does not begin with a slash, ends with one, or
// has two in a row.
var errPath = errors.New("not a path")

// parentOf returns the parent of the node at path, and the node's name; mu is held.
func (s *Server) parentOf(path string) (parent *node, name string, err error) {
	at := strings.LastIndexByte(path, '/')
	if at < 0 || path == "/" {
		return nil, "", errPath
	}
	parent, err = s.find(path[:max(at, 1)])
	return parent, path[at+1:], err
}

// create creates a node; mu is held.
func (s *Server) create(owner *session, path string, data []byte, kind zklatch.Kind) (string, error) {
	parent, name, err := s.parentOf(path)
	if err != nil {
		return "", err
	}
	if parent.stat.Owner != 0 {
		return "", fmt.Errorf("%s ends with a session and can have no children", parent.path)
	}
	if kind == zklatch.Container && s.noContainers {
		return "", zklatch.ErrUnsupported
	}
	above := path[:len(path)-len(name)]
	if kind == zklatch.EphemeralNumbered || kind == zklatch.PersistentNumbered {
		name += fmt.Sprintf("%010d", parent.made)
	}
	if name == "" {
		return "", errPath
	}
	if parent.children[name] != nil {
		return "", zklatch.ErrNodeExists
	}
	s.zxid++
	parent.made++
	n := &node{path: above + name, data: slices.Clone(data), children: map[string]*node{}}
	n.stat = zklatch.Stat{Czxid: s.zxid, Mzxid: s.zxid}
	n.container = kind == zklatch.Container
	if kind == zklatch.Ephemeral || kind == zklatch.EphemeralNumbered {
		n.stat.Owner = owner.id
		owner.nodes[n.path] = true
	}
	parent.children[name] = n
	s.altered(parent)
	return n.path, nil
}

// remove deletes a node and fires its watches; mu is held.
func (s *Server) remove(path string, version int32) error {
	n, err := s.check(path, version)
	switch {
	case err != nil:
		return err
	case len(n.children) > 0:
		return zklatch.ErrNotEmpty
	}
	parent, name, err := s.parentOf(path)
	if err != nil {
		return err // the root
	}
	s.zxid++
	delete(parent.children, name)
	if owner := s.sessions[n.stat.Owner]; owner != nil {
		delete(owner.nodes, path)
	}
	s.notify(n, zklatch.NodeDeleted)
	s.notifyBelow(n, zklatch.NodeDeleted)
	s.altered(parent)
	return nil
}

// altered records that a child was added to n or removed; mu is held.
func (s *Server) altered(n *node) {
	n.pzxid = s.zxid
	s.notifyBelow(n, zklatch.ChildrenChanged)
}

// write sets a node's data and fires its watches; mu is held.
func (s *Server) write(path string, data []byte, version int32) (zklatch.Stat, error) {
	n, err := s.check(path, version)
	if err != nil {
		return zklatch.Stat{}, err
	}
	s.zxid++
	n.data = slices.Clone(data)
	n.stat.Version++
	n.stat.Mzxid = s.zxid
	s.notify(n, zklatch.NodeChanged)
	return n.stat, nil
}

// check returns the node at path if it has that version; mu is held.
func (s *Server) check(path string, version int32) (*node, error) {
	n, err := s.find(path)
	if err == nil && version != zklatch.AnyVersion && version != n.stat.Version {
		return nil, zklatch.ErrBadVersion
	}
	return n, err
}

// notify fires a node's watches, each once; mu is held.
func (s *Server) notify(n *node, what zklatch.EventType) {
	watches := n.watches
	n.watches = nil
	for _, w := range watches {
		w.fire(zklatch.Event{Type: what, Path: n.path})
	}
}

// notifyBelow fires the watches on a node's children, each once; mu is held.
func (s *Server) notifyBelow(n *node, what zklatch.EventType) {
	watches := n.below
	n.below = nil
	for _, w := range watches {
		w.fire(zklatch.Event{Type: what, Path: n.path})
	}
}

// walk visits n and all nodes below it.
func (n *node) walk(visit func(*node)) {
	visit(n)
	for _, child := range n.children {
		child.walk(visit)
	}
}

// unwatch removes a session's watches; mu is held.
func (s *Server) unwatch(ses *session) {
	own := func(w *watch) bool { return w.owner == ses }
	s.root.walk(func(n *node) {
		n.watches, n.below = slices.DeleteFunc(n.watches, own), slices.DeleteFunc(n.below, own)
	})
}

// Watches returns how many watches are set below the root.
func (s *Server) Watches() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.root.walk(func(at *node) { n += len(at.watches) + len(at.below) })
	return n - len(s.root.watches)
}
