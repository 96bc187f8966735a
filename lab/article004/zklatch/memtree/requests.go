package memtree

import (
	"errors"
	"slices"

	"conclave/lab/article004/zklatch"
)

// errUnknownOp is returned for a request that this server does not support.
var errUnknownOp = errors.New("unknown operation")

// requests are the kinds of requests by their codes.
var requests = map[int32]Op{
	opCreate: Create, opCreateContainer: Create, opDelete: Delete, opExists: Get, opGetData: Get, opSetData: Set, opMulti: Multi, opChildren: Children,
}

// execute executes one request; mu is held.
func (w *wireConn) execute(op int32, d *decoder, reply *encoder) error {
	s := w.server
	switch op {
	case opPing, opClose:
		return nil
	case opSetWatches:
		return w.rewatch(d)
	case opCreate, opCreateContainer:
		path, data := d.string(), d.bytes()
		d.acl()
		flags := d.int()
		if d.err != nil {
			return d.err
		}
		kind, known := map[int32]zklatch.Kind{0: zklatch.Persistent, 1: zklatch.Ephemeral, 2: zklatch.PersistentNumbered, 3: zklatch.EphemeralNumbered, 4: zklatch.Container}[flags]
		if !known || (kind == zklatch.Container) != (op == opCreateContainer) {
			return errUnknownOp
		}
		return s.count(Create, func(s *Server) error {
			made, err := s.create(w.ses, path, data, kind)
			reply.string(made)
			return err
		})
	case opDelete:
		path, version := d.string(), d.int()
		if d.err != nil {
			return d.err
		}
		return s.count(Delete, func(s *Server) error { return s.remove(path, version) })
	case opSetData:
		path, data, version := d.string(), d.bytes(), d.int()
		if d.err != nil {
			return d.err
		}
		return s.count(Set, func(s *Server) error {
			if _, err := s.write(path, data, version); err != nil {
				return err
			}
			return w.stat(path, reply)
		})
	case opExists, opGetData, opChildren:
		path, watching := d.string(), d.bool()
		if d.err != nil {
			return d.err
		}
		return s.count(Get, func(*Server) error { return w.look(op, path, watching, reply) })
	case opMulti:
		return w.multi(d, reply)
	}
	return errUnknownOp
}

// stat writes the Stat of an existing node.
func (w *wireConn) stat(path string, reply *encoder) error {
	n, err := w.server.find(path)
	if err == nil {
		reply.stat(n)
	}
	return err
}

// look executes the requests that read. Missing nodes cannot be watched.
func (w *wireConn) look(op int32, path string, watching bool, reply *encoder) error {
	n, err := w.server.find(path)
	if err != nil {
		return err
	}
	switch {
	case watching && op == opChildren:
		n.below = w.watch(n.below)
	case watching:
		n.watches = w.watch(n.watches)
	}
	switch op {
	case opGetData:
		reply.bytes(n.data)
	case opChildren:
		reply.strings(n.names())
	}
	reply.stat(n)
	return nil
}

// eventCodes are the codes of events.
var eventCodes = map[zklatch.EventType]int32{
	zklatch.NodeDeleted: eventDeleted, zklatch.NodeChanged: eventChanged, zklatch.ChildrenChanged: eventChildren,
}

// watch adds this connection's watch to a node's, unless it has one there.
func (w *wireConn) watch(list []*watch) []*watch {
	if slices.ContainsFunc(list, func(x *watch) bool { return x.owner == w.ses }) {
		return list
	}
	return append(list, &watch{owner: w.ses, fire: func(e zklatch.Event) { w.event(eventCodes[e.Type], e.Path) }})
}

func (w *wireConn) event(what int32, path string) {
	e := newPacket()
	e.int(xidEvent)
	e.long(-1)
	e.int(0)
	e.int(what)
	e.int(stateSync)
	e.string(path)
	w.send(e)
}

// rewatch sets a client's watches again after a time without a connection, and
// reports at once what has happened meanwhile.
func (w *wireConn) rewatch(d *decoder) error {
	seen := d.long()
	data, _, children := d.strings(), d.strings(), d.strings()
	if d.err != nil {
		return d.err
	}
	for _, path := range data {
		n, err := w.server.find(path)
		switch {
		case err != nil:
			w.event(eventDeleted, path)
		case n.stat.Mzxid > seen:
			w.event(eventChanged, path)
		default:
			n.watches = w.watch(n.watches)
		}
	}
	for _, path := range children {
		n, err := w.server.find(path)
		switch {
		case err != nil:
			w.event(eventDeleted, path)
		case n.pzxid > seen:
			w.event(eventChildren, path)
		default:
			n.below = w.watch(n.below)
		}
	}
	return nil
}

// multi executes a transaction of checks and at most one write, which is all that the
// recipes use. With one write there is nothing to roll back.
func (w *wireConn) multi(d *decoder, reply *encoder) error {
	s := w.server
	type step struct {
		op      int32
		path    string
		data    []byte
		version int32
	}
	var steps []step
	writes := 0
	for {
		op, done := d.int(), d.bool()
		d.int()
		if d.err != nil {
			return d.err
		}
		if done {
			break
		}
		switch op {
		case opCheck:
			steps = append(steps, step{op: op, path: d.string(), version: d.int()})
		case opSetData:
			writes++
			steps = append(steps, step{op: op, path: d.string(), data: d.bytes(), version: d.int()})
		default:
			return errUnknownOp
		}
	}
	if d.err != nil || writes > 1 {
		return errors.Join(d.err, errUnknownOp)
	}
	return s.count(Multi, func(s *Server) error {
		for _, step := range steps {
			if _, err := s.check(step.path, step.version); err != nil {
				return err
			}
		}
		for _, step := range steps {
			reply.int(step.op)
			reply.bool(false)
			reply.int(0)
			if step.op == opSetData {
				if _, err := s.write(step.path, step.data, step.version); err != nil {
					return err
				}
				if err := w.stat(step.path, reply); err != nil {
					return err
				}
			}
		}
		reply.int(-1)
		reply.bool(true)
		reply.int(-1)
		return nil
	})
}

// firstWrite returns the path that a transaction writes, to match faults.
func firstWrite(d decoder) string {
	for d.err == nil {
		op, done := d.int(), d.bool()
		d.int()
		if done {
			break
		}
		path := d.string()
		if op == opSetData {
			return path
		}
		d.int()
	}
	return ""
}
