package memtree

import (
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	"conclave/internal/signal"
)

// maxPacket is the maximum length of a client's packet, as in ZooKeeper.
const maxPacket = 1 << 20

// conn is one connection of a client. Server.mu guards its fields except conn.
type conn struct {
	server *Server
	conn   net.Conn
	ses    *session
	out    [][]byte      // packets to be written
	gone   bool          // closed
	more   signal.Signal // there is something in out
}

// Start serves an empty tree on a port of this machine until stop is called, which joins
// the server's goroutines.
func Start() (s *Server, address string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", nil, err
	}
	s = New()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = s.Serve(ctx, listener) }) // returns ctx's error
	return s, listener.Addr().String(), func() {
		cancel()
		group.Wait()
	}, nil
}

// Serve answers clients until ctx ends, and joins its goroutines. Sessions remain until
// their timeouts.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(ctx, func() { listener.Close() })
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	for {
		accepted, err := listener.Accept()
		if err != nil {
			return cmp.Or(ctx.Err(), err)
		}
		w := &conn{server: s, conn: accepted, more: signal.New()}
		group.Go(w.write)
		group.Go(func() {
			defer context.AfterFunc(ctx, func() { accepted.Close() })()
			w.read()
			w.end()
		})
	}
}

// hangUp closes the connection; mu is held.
func (w *conn) hangUp() {
	w.gone = true
	w.conn.Close()
	w.more.Set()
}

// end removes a closed connection; its session remains.
func (w *conn) end() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.hangUp()
	if w.ses != nil && w.ses.conn == w {
		w.ses.conn = nil
		w.server.unwatch(w.ses)
	}
}

// send queues a packet; mu is held.
func (w *conn) send(e encoder) {
	if !w.gone {
		w.out = append(w.out, e.packet())
		w.more.Set()
	}
}

// write writes the queued packets until the connection is closed.
func (w *conn) write() {
	for range w.more.C() {
		w.server.mu.Lock()
		out, gone := w.out, w.gone
		w.out = nil
		w.server.mu.Unlock()
		for _, packet := range out {
			if _, err := w.conn.Write(packet); err != nil {
				gone = true
			}
		}
		if gone {
			w.conn.Close()
			return
		}
	}
}

// packet reads one packet.
func (w *conn) packet() (*decoder, error) {
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
func (w *conn) read() {
	d, err := w.packet()
	ok := err == nil && w.greet(d)
	for ok {
		d, err = w.packet()
		ok = err == nil && w.answer(d)
	}
}

// greet opens or continues a session. It returns false if the connection ends.
func (w *conn) greet(d *decoder) bool {
	s := w.server
	d.int()  // protocol version
	d.long() // the last transaction seen
	timeout := time.Duration(d.int()) * time.Millisecond
	id := d.long()
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
	case ses == nil: // expired
		e.int(0)
		e.long(0)
		e.bytes(make([]byte, 16))
		w.send(e)
		w.gone = true // the writer hangs up after this
		return true
	}
	if old := ses.conn; old != nil {
		old.hangUp() // the session has moved to this connection
		s.unwatch(ses)
	}
	ses.conn, w.ses = w, ses
	ses.touch()
	e.int(int32(ses.timeout / time.Millisecond))
	e.long(ses.id)
	e.bytes(make([]byte, 16))
	w.send(e)
	return true
}

// answer executes and answers one request. It returns false if the connection ends.
func (w *conn) answer(d *decoder) bool {
	s := w.server
	xid, op := d.int(), d.int()
	path := ""
	if ops[op] != "" {
		path = d.string()
	}
	outcome := Answered
	if s.Around != nil {
		outcome = s.Around(ops[op], path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.ses == nil || s.sessions[w.ses.id] != w.ses || w.ses.conn != w {
		return false // expired, or moved
	}
	w.ses.touch()
	if outcome == NotExecuted {
		return false
	}
	body := encoder{}
	err := s.execute(w.ses, op, path, d, &body)
	if outcome == NotAnswered {
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
		w.ses.conn = nil // the client hangs up when it has the answer
		s.expire(w.ses)
	}
	return true
}
