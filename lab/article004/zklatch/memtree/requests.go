package memtree

import (
	"errors"

	"github.com/go-zookeeper/zk"
)

// errUnknownOp is returned for a request that this server does not support.
var errUnknownOp = errors.New("unknown operation")

// ops are the kinds of requests that begin with a path, by their codes.
var ops = map[int32]Op{
	opCreate: Create, opCreateContainer: Create, opDelete: Delete, opGetData: Get, opSetData: Set, opChildren: Children,
}

// execute executes the request whose other fields are in d, and writes its answer; mu is
// held.
func (s *Server) execute(ses *session, op int32, path string, d *decoder, reply *encoder) error {
	switch op {
	case opPing, opClose:
		return d.err
	case opSetWatches:
		return s.rewatch(ses, d)
	case opCreate, opCreateContainer:
		data := d.bytes()
		d.acl()
		kind := d.int() // one of the client's flags
		switch {
		case d.err != nil:
			return d.err
		case kind < 0 || kind > zk.FlagContainer || (kind == zk.FlagContainer) != (op == opCreateContainer):
			return errUnknownOp
		}
		made, err := s.create(ses, path, data, kind)
		reply.string(made)
		return err
	case opDelete:
		version := d.int()
		if d.err != nil {
			return d.err
		}
		return s.remove(path, version)
	case opSetData:
		data, version := d.bytes(), d.int()
		if d.err != nil {
			return d.err
		}
		n, err := s.write(path, data, version)
		if err == nil {
			reply.stat(n)
		}
		return err
	case opGetData, opChildren:
		watching := d.bool()
		n, err := s.find(path) // missing nodes cannot be watched
		if err = errors.Join(d.err, err); err != nil {
			return err
		}
		watches := &n.watches
		if op == opChildren {
			watches = &n.below
			reply.names(n)
		} else {
			reply.bytes(n.data)
		}
		if watching {
			watch(watches, ses)
		}
		reply.stat(n)
		return nil
	}
	return errUnknownOp
}

// rewatch sets a client's watches again after a time without a connection, and
// reports at once what has happened meanwhile; mu is held.
func (s *Server) rewatch(ses *session, d *decoder) error {
	seen := d.long() // the last transaction that the client knows
	nodes, _, parents := d.strings(), d.strings(), d.strings()
	if d.err != nil {
		return d.err
	}
	for _, path := range nodes {
		if n, err := s.find(path); err != nil {
			ses.event(eventDeleted, path)
		} else if n.mzxid > seen {
			ses.event(eventChanged, path)
		} else {
			watch(&n.watches, ses)
		}
	}
	for _, path := range parents {
		if n, err := s.find(path); err != nil {
			ses.event(eventDeleted, path)
		} else if n.pzxid > seen {
			ses.event(eventChildren, path)
		} else {
			watch(&n.below, ses)
		}
	}
	return nil
}
