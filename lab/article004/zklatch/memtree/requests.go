package memtree

import (
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"
)

// errUnknownOp is returned for a request that this server does not support.
var errUnknownOp = errors.New("unknown operation")

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

// Outcome is what happens to a request.
type Outcome int

// The outcomes. After the last two the connection breaks.
const (
	Answered    Outcome = iota
	NotAnswered         // executed, but the answer is lost
	NotExecuted         // the request is lost
)

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
		d.b = d.b[max(0, len(d.b)-4):] // behind the access list: there are no restrictions here
		kind := d.int()                // one of the client's flags
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
	for i, path := range slices.Concat(nodes, parents) {
		n, err := s.find(path)
		switch {
		case err != nil:
			ses.event(eventDeleted, path)
		case i < len(nodes) && n.Mzxid > seen:
			ses.event(eventChanged, path)
		case i < len(nodes):
			watch(&n.watches, ses)
		case n.Pzxid > seen:
			ses.event(eventChildren, path)
		default:
			watch(&n.below, ses)
		}
	}
	return nil
}
