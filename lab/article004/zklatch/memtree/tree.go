package memtree

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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
	root     *node
	sessions map[int64]*session
	ids      int64
	conns    map[*conn]bool
}

// New returns a server with an empty tree.
func New() *Server {
	return &Server{
		root:     &node{children: map[string]*node{}, path: "/"},
		sessions: map[int64]*session{},
		ids:      0x1000,
		conns:    map[*conn]bool{},
	}
}

// node is one node of the tree.
type node struct {
	path     string
	data     []byte
	version  int32 // how often it was written
	owner    int64 // the session that it ends with; 0: none
	czxid    int64 // the transaction that created it
	mzxid    int64 // the last transaction that wrote it
	pzxid    int64 // the last transaction that added or removed a child
	made     int32 // children ever created: the number of the next one
	children map[string]*node

	container      bool       // deleted by Sweep
	watches, below []*session // that receive one event of the node, of its children
}

// Watches returns how many watches are set.
func (s *Server) Watches() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.root.walk(func(at *node) { n += len(at.watches) + len(at.below) })
	return n
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
		_ = s.remove(path, anyVersion) // cannot fail: it exists and is empty
	}
	return deleted
}

// walk visits n and all nodes below it.
func (n *node) walk(visit func(*node)) {
	visit(n)
	for _, child := range n.children {
		child.walk(visit)
	}
}

// errPath is returned for a path that does not begin with a slash, ends with one, or has
// two in a row.
var errPath = errors.New("not a path")

const anyVersion = -1

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
			return nil, zk.ErrNoNode
		}
	}
	return n, nil
}

// check returns the node at path if it has that version; mu is held.
func (s *Server) check(path string, version int32) (*node, error) {
	n, err := s.find(path)
	if err == nil && version != anyVersion && version != n.version {
		return nil, zk.ErrBadVersion
	}
	return n, err
}

// parentOf returns the parent of the node at path, and the node's name; mu is held.
func (s *Server) parentOf(path string) (parent *node, name string, err error) {
	at := strings.LastIndexByte(path, '/')
	if at < 0 || path == "/" {
		return nil, "", errPath
	}
	parent, err = s.find(path[:max(at, 1)])
	return parent, path[at+1:], err
}

// create creates a node and returns its path; mu is held.
func (s *Server) create(owner *session, path string, data []byte, kind int32) (string, error) {
	parent, name, err := s.parentOf(path)
	if err != nil {
		return "", err
	}
	if parent.owner != 0 {
		return "", fmt.Errorf("%s ends with a session and can have no children", parent.path)
	}
	above := path[:len(path)-len(name)]
	if kind == zk.FlagEphemeralSequential || kind == zk.FlagSequence {
		name += fmt.Sprintf("%010d", parent.made)
	}
	if name == "" {
		return "", errPath
	}
	if parent.children[name] != nil {
		return "", zk.ErrNodeExists
	}
	s.zxid++
	parent.made++
	n := &node{path: above + name, data: slices.Clone(data), children: map[string]*node{},
		czxid: s.zxid, mzxid: s.zxid, container: kind == zk.FlagContainer}
	if kind == zk.FlagEphemeral || kind == zk.FlagEphemeralSequential {
		n.owner = owner.id
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
		return zk.ErrNotEmpty
	}
	parent, name, err := s.parentOf(path)
	if err != nil {
		return err // the root
	}
	s.zxid++
	delete(parent.children, name)
	if owner := s.sessions[n.owner]; owner != nil {
		delete(owner.nodes, path)
	}
	notify(&n.watches, eventDeleted, path)
	notify(&n.below, eventDeleted, path)
	s.altered(parent)
	return nil
}

// altered records that a child was added to n or removed; mu is held.
func (s *Server) altered(n *node) {
	n.pzxid = s.zxid
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
	n.version++
	n.mzxid = s.zxid
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
	s.root.walk(func(n *node) {
		n.watches, n.below = slices.DeleteFunc(n.watches, own), slices.DeleteFunc(n.below, own)
	})
}
