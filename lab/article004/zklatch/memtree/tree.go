package memtree

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
)

// Server is a ZooKeeper in memory: a tree of nodes, and the sessions of its clients.
type Server struct {
	// Around, if set, is called before each request is executed, and decides what
	// happens to it. It may make requests of other sessions. Set it before Serve.
	Around func(op Op, path string) Outcome

	mu       sync.Mutex // guards the fields below, and all nodes, sessions and connections; never held across a wait
	zxid     int64
	nodes    map[string]*node // by path
	sessions map[int64]*session
	ids      int64
}

// New returns a server with an empty tree.
func New() *Server {
	return &Server{
		nodes:    map[string]*node{"/": {path: "/", children: map[string]bool{}}},
		sessions: map[int64]*session{},
		ids:      0x1000,
	}
}

// node is one node of the tree.
type node struct {
	zk.Stat  // without its times, and without what follows from the fields below
	path     string
	data     []byte
	made     int32           // children ever created: the number of the next one
	children map[string]bool // their names

	container      bool       // deleted by Sweep
	watches, below []*session // that receive one event of the node, of its children
}

// Watches returns how many watches are set.
func (s *Server) Watches() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.nodes {
		n += len(at.watches) + len(at.below)
	}
	return n
}

// Sweep deletes the containers that have had a child and have none now, and returns
// their paths. ZooKeeper does that each minute. A container that becomes empty by a
// sweep is deleted by the next one.
func (s *Server) Sweep() (deleted []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, n := range s.nodes {
		if n.container && n.made > 0 && len(n.children) == 0 {
			deleted = append(deleted, path)
		}
	}
	slices.Sort(deleted)
	for _, path := range deleted {
		_ = s.remove(path, anyVersion) // cannot fail: it exists and is empty
	}
	return deleted
}

// errPath is returned for a path that does not begin with a slash, ends with one, or has
// two in a row.
var errPath = errors.New("not a path")

const anyVersion = -1

// find returns the node at path; mu is held.
func (s *Server) find(path string) (*node, error) {
	if n := s.nodes[path]; n != nil {
		return n, nil
	}
	return nil, zk.ErrNoNode
}

// check returns the node at path if it has that version; mu is held.
func (s *Server) check(path string, version int32) (*node, error) {
	n, err := s.find(path)
	if err == nil && version != anyVersion && version != n.Version {
		return nil, zk.ErrBadVersion
	}
	return n, err
}

// create creates a node and returns its path; mu is held.
func (s *Server) create(owner *session, at string, data []byte, kind int32) (string, error) {
	parent, err := s.find(path.Dir(at))
	if err != nil {
		return "", err
	}
	if parent.EphemeralOwner != 0 {
		return "", fmt.Errorf("%s ends with a session and can have no children", parent.path)
	}
	if kind == zk.FlagEphemeralSequential || kind == zk.FlagSequence {
		at += fmt.Sprintf("%010d", parent.made)
	}
	if path.Clean(at) != at || !path.IsAbs(at) {
		return "", errPath
	}
	if s.nodes[at] != nil {
		return "", zk.ErrNodeExists
	}
	s.zxid++
	parent.made++
	n := &node{path: at, data: slices.Clone(data), children: map[string]bool{},
		Stat: zk.Stat{Czxid: s.zxid, Mzxid: s.zxid}, container: kind == zk.FlagContainer}
	if kind == zk.FlagEphemeral || kind == zk.FlagEphemeralSequential {
		n.EphemeralOwner = owner.id
	}
	s.nodes[at] = n
	parent.children[path.Base(at)] = true
	s.altered(parent)
	return at, nil
}

// remove deletes a node and fires its watches; mu is held.
func (s *Server) remove(at string, version int32) error {
	n, err := s.check(at, version)
	switch {
	case err != nil:
		return err
	case len(n.children) > 0:
		return zk.ErrNotEmpty
	case at == "/":
		return errPath
	}
	s.zxid++
	parent := s.nodes[path.Dir(at)]
	delete(parent.children, path.Base(at))
	delete(s.nodes, at)
	notify(&n.watches, eventDeleted, at)
	notify(&n.below, eventDeleted, at)
	s.altered(parent)
	return nil
}

// altered records that a child was added to n or removed; mu is held.
func (s *Server) altered(n *node) {
	n.Pzxid = s.zxid
	notify(&n.below, eventChildren, n.path)
}

// write sets a node's data and fires its watches; mu is held.
func (s *Server) write(path string, data []byte, version int32) (*node, error) {
	n, err := s.check(path, version)
	if err != nil {
		return nil, err
	}
	s.zxid++
	n.data = slices.Clone(data)
	n.Version++
	n.Mzxid = s.zxid
	notify(&n.watches, eventChanged, path)
	return n, nil
}

// notify fires watches, each once; mu is held.
func notify(watches *[]*session, what int32, path string) {
	list := *watches
	*watches = nil
	for _, owner := range list {
		owner.event(what, path)
	}
}

// watch adds a session's watch, unless it is there; mu is held.
func watch(watches *[]*session, owner *session) {
	if !slices.Contains(*watches, owner) {
		*watches = append(*watches, owner)
	}
}

// unwatch removes a session's watches; mu is held.
func (s *Server) unwatch(owner *session) {
	own := func(x *session) bool { return x == owner }
	for _, n := range s.nodes {
		n.watches, n.below = slices.DeleteFunc(n.watches, own), slices.DeleteFunc(n.below, own)
	}
}
