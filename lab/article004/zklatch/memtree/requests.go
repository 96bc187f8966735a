package memtree

import (
	"errors"

	"conclave/lab/article004/zklatch"
)

// errUnknownOp is returned for a request that this server does not support.
var errUnknownOp = errors.New("unknown operation")

// request is a request as received.
type request struct {
	op       int32
	path     string
	data     []byte
	kind     zklatch.Kind
	version  int32
	watching bool
	check    string   // of a transaction: the node that must have checked
	checked  int32    // as its version
	seen     int64    // of a client that sets its watches again: the last transaction seen
	again    []string // by it: the nodes watched
	below    []string // by it: the nodes whose children are watched
}

// ops are the kinds of requests by their codes.
var ops = map[int32]Op{
	opCreate: Create, opCreateContainer: Create, opDelete: Delete, opGetData: Get, opSetData: Set, opMulti: Multi, opChildren: Children,
}

// kinds are the kinds of nodes by their codes.
var kinds = map[int32]zklatch.Kind{
	0: zklatch.Persistent, 1: zklatch.Ephemeral, 2: zklatch.PersistentNumbered, 3: zklatch.EphemeralNumbered, 4: zklatch.Container,
}

// parse reads a request.
func parse(op int32, d *decoder) (request, error) {
	r := request{op: op}
	known := true
	switch op {
	case opPing, opClose:
	case opCreate, opCreateContainer:
		r.path, r.data = d.string(), d.bytes()
		d.acl()
		r.kind, known = kinds[d.int()]
		known = known && (r.kind == zklatch.Container) == (op == opCreateContainer)
	case opDelete:
		r.path, r.version = d.string(), d.int()
	case opSetData:
		r.path, r.data, r.version = d.string(), d.bytes(), d.int()
	case opGetData, opChildren:
		r.path, r.watching = d.string(), d.bool()
	case opMulti: // a check and a write
		known = d.step() == opCheck
		r.check, r.checked = d.string(), d.int()
		known = known && d.step() == opSetData
		r.path, r.data, r.version = d.string(), d.bytes(), d.int()
		known = known && d.step() == opEnd
	case opSetWatches:
		r.seen = d.long()
		r.again, _, r.below = d.strings(), d.strings(), d.strings()
	default:
		known = false
	}
	if d.err != nil {
		return r, d.err
	}
	if !known {
		return r, errUnknownOp
	}
	return r, nil
}

// execute executes a request and writes its answer; mu is held.
func (s *Server) execute(ses *session, r request, reply *encoder) error {
	switch r.op {
	case opPing, opClose:
		return nil
	case opSetWatches:
		s.rewatch(ses, r)
		return nil
	}
	s.requests++
	switch r.op {
	case opDelete:
		return s.remove(r.path, r.version)
	case opGetData, opChildren:
		n, err := s.find(r.path) // missing nodes cannot be watched
		if err != nil {
			return err
		}
		watches := &n.watches
		if r.op == opChildren {
			watches = &n.below
			reply.names(n)
		} else {
			reply.bytes(n.data)
		}
		if r.watching {
			watch(watches, ses)
		}
		reply.stat(n)
		return nil
	case opSetData:
		n, err := s.write(r.path, r.data, r.version)
		if err == nil {
			reply.stat(n)
		}
		return err
	case opMulti:
		if _, err := s.check(r.check, r.checked); err != nil {
			return err
		}
		n, err := s.write(r.path, r.data, r.version)
		if err == nil {
			reply.step(opCheck)
			reply.step(opSetData)
			reply.stat(n)
			reply.step(opEnd)
		}
		return err
	}
	path, err := s.create(ses, r.path, r.data, r.kind)
	reply.string(path)
	return err
}

// rewatch sets a client's watches again after a time without a connection, and
// reports at once what has happened meanwhile; mu is held.
func (s *Server) rewatch(ses *session, r request) {
	for _, path := range r.again {
		n, err := s.find(path)
		switch {
		case err != nil:
			ses.event(eventDeleted, path)
		case n.mzxid > r.seen:
			ses.event(eventChanged, path)
		default:
			watch(&n.watches, ses)
		}
	}
	for _, path := range r.below {
		n, err := s.find(path)
		switch {
		case err != nil:
			ses.event(eventDeleted, path)
		case n.pzxid > r.seen:
			ses.event(eventChildren, path)
		default:
			watch(&n.below, ses)
		}
	}
}
