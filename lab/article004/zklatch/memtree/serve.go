package memtree

import (
	"context"
	"crypto/subtle"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	"conclave/internal/signal"
)

// maxPacket is the maximum length of a client's packet, as in ZooKeeper.
const maxPacket = 1 << 20

// wireConn is one connection of a client that uses ZooKeeper's protocol. Server.mu
// guards its fields except conn.
type wireConn struct {
	server *Server
	conn   net.Conn
	ses    *session
	out    [][]byte      // packets to be written
	last   bool          // close after these
	gone   bool          // closed
	more   signal.Signal // there is something in out
}

// Serve answers clients that use ZooKeeper's protocol until ctx ends, and joins its
// goroutines. Sessions remain until their timeouts.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	var group sync.WaitGroup
	defer group.Wait()
	defer s.hangUpAll()
	for {
		conn, err := listener.Accept()
		if err != nil {
			listener.Close()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
		w := &wireConn{server: s, conn: conn, more: signal.New()}
		s.mu.Lock()
		s.conns[w] = true
		s.mu.Unlock()
		group.Go(w.write)
		group.Go(func() {
			w.read()
			w.end()
		})
	}
}

// hangUpAll closes all connections.
func (s *Server) hangUpAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.conns {
		w.hangUp()
	}
}

// hangUp closes the connection; mu is held.
func (w *wireConn) hangUp() {
	w.gone = true
	w.conn.Close()
	w.more.Set()
}

// end removes a closed connection; its session remains.
func (w *wireConn) end() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.hangUp()
	delete(w.server.conns, w)
	if w.ses != nil && w.ses.conn == w {
		w.ses.conn = nil
		w.server.unwatch(w.ses)
	}
}

// send queues a packet; mu is held.
func (w *wireConn) send(e encoder) {
	if !w.gone && !w.last {
		w.out = append(w.out, e.packet())
		w.more.Set()
	}
}

// write writes the queued packets until the connection is closed.
func (w *wireConn) write() {
	for range w.more.C() {
		w.server.mu.Lock()
		out, last, gone := w.out, w.last, w.gone
		w.out = nil
		w.server.mu.Unlock()
		for _, packet := range out {
			if _, err := w.conn.Write(packet); err != nil {
				gone = true
			}
		}
		if gone || last {
			w.conn.Close()
			return
		}
	}
}

// packet reads one packet.
func (w *wireConn) packet() (*decoder, error) {
	var head [4]byte
	if _, err := io.ReadFull(w.conn, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxPacket {
		return nil, errShort
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(w.conn, body); err != nil {
		return nil, err
	}
	return &decoder{b: body}, nil
}

// read answers requests until the connection is closed.
func (w *wireConn) read() {
	d, err := w.packet()
	ok := err == nil && w.greet(d)
	for ok {
		d, err = w.packet()
		ok = err == nil && w.answer(d)
	}
	w.server.mu.Lock()
	last := w.last
	w.server.mu.Unlock()
	if last { // the writer closes the connection after the last packet
		_, _ = io.Copy(io.Discard, w.conn)
	}
}

// greet opens or continues a session. It returns false if the connection ends.
func (w *wireConn) greet(d *decoder) bool {
	s := w.server
	d.int()  // protocol version
	d.long() // the last transaction seen
	timeout := time.Duration(d.int()) * time.Millisecond
	id, secret := d.long(), d.bytes()
	if d.err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := newPacket()
	e.int(0)
	ses := s.sessions[id]
	switch {
	case id == 0:
		ses = s.open(timeout)
	case ses == nil || subtle.ConstantTimeCompare(secret, ses.secret[:]) != 1:
		e.int(0)
		e.long(0) // expired
		e.bytes(make([]byte, 16))
		w.send(e)
		w.last = true
		w.more.Set()
		return false
	}
	if old := ses.conn; old != nil {
		old.hangUp() // the session has moved to this connection
		s.unwatch(ses)
	}
	ses.conn, w.ses = w, ses
	s.touch(ses)
	e.int(int32(ses.timeout / time.Millisecond))
	e.long(ses.id)
	e.bytes(ses.secret[:])
	w.send(e)
	return true
}

// answer executes and answers one request. It returns false if the connection ends.
func (w *wireConn) answer(d *decoder) bool {
	s := w.server
	xid, op := d.int(), d.int()
	if d.err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[w.ses.id] != w.ses || w.ses.conn != w {
		return false // expired, or moved
	}
	s.touch(w.ses)
	what := requests[op]
	request := *d
	path := request.string()
	if op == opMulti {
		path = firstWrite(*d)
	}
	outcome := s.fault(what, path)
	if outcome == dropRequest {
		return false
	}
	body := encoder{}
	err := w.execute(op, d, &body)
	if outcome == loseReply {
		return false
	}
	e := newPacket()
	e.int(xid)
	e.long(s.zxid)
	e.int(code(err))
	if err == nil {
		e = append(e, body...)
	}
	w.send(e)
	if op == opClose {
		w.last = true
		s.expire(w.ses)
		return false
	}
	return true
}
