package zklatch

import (
	"encoding/binary"
	"net"
	"os"
	"sync"
	"time"
)

// tap parses the traffic of a connection to a ZooKeeper server, for what the client
// library does not report: the granted timeout, and when the request was sent that is
// answered now. (go-zookeeper drops the answers to its pings, and detects a silent
// server only two thirds of a timeout after the last answer was received, however
// late that was.)
type tap struct {
	net.Conn
	owner *Conn

	mu    sync.Mutex // guards the fields below
	sent  map[int32]time.Time
	pings []time.Time // times of unanswered pings, in order
	hello time.Time   // when the request for a session was sent; zero before
	head  []byte      // the first bytes of a packet, as far as they were read
	skip  int         // bytes of the packet still to skip
	met   bool        // the answer to hello has been read

	deadline time.Time     // of the reader, which alone uses it
	hold     bool          // nothing is read before the watches are set again; used by the reader only
	asked    chan struct{} // closed when they are
	gone     chan struct{} // closed by Close
	once     sync.Once     // closes gone
}

func newTap(conn net.Conn, owner *Conn) *tap {
	return &tap{Conn: conn, owner: owner, sent: map[int32]time.Time{}, asked: make(chan struct{}), gone: make(chan struct{})}
}

// Close closes the connection, and ends a wait of the reader.
func (t *tap) Close() error {
	t.once.Do(func() { close(t.gone) })
	return t.Conn.Close()
}

// The parts of the protocol that the tap knows.
const (
	headSize     = 8  // length, and the number of the request that is answered
	helloSize    = 20 // length, version, timeout, session
	pingNumber   = -2
	opSetWatches = 101
)

// Write records when a request was sent. The library calls it with whole packets, one
// at a time.
func (t *tap) Write(p []byte) (int, error) {
	now := time.Now() // before it is sent
	t.mu.Lock()
	rewatched := false
	switch {
	case t.hello.IsZero():
		t.hello = now
	case len(p) >= 12:
		number := int32(binary.BigEndian.Uint32(p[4:8]))
		if number == pingNumber {
			t.pings = append(t.pings, now)
		} else {
			t.sent[number] = now
		}
		rewatched = int32(binary.BigEndian.Uint32(p[8:12])) == opSetWatches
	}
	t.mu.Unlock()
	if rewatched {
		t.rewatched()
	}
	return t.Conn.Write(p)
}

// SetReadDeadline shortens the library's time-out for a server that accepts the
// connection but does not answer, which is seven session timeouts.
func (t *tap) SetReadDeadline(at time.Time) error {
	if limit := time.Now().Add(t.owner.cfg.Timeout / 3); !t.met && at.After(limit) {
		at = limit
	}
	t.deadline = at
	return t.Conn.SetReadDeadline(at)
}

// rewatched lets the reader and requests proceed when the watches are being set
// again. A long list of watches is sent in several packets.
func (t *tap) rewatched() {
	select {
	case <-t.asked:
	default:
		close(t.asked) // called by the library's sender only
		t.owner.rewatched(t)
	}
}

// wait blocks the reader until the watches are set again. Otherwise a request that
// was left over from the last connection could be answered first.
func (t *tap) wait() error {
	var late <-chan time.Time
	if !t.deadline.IsZero() {
		timer := time.NewTimer(time.Until(t.deadline))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-t.asked:
		t.hold = false
		return nil
	case <-t.gone:
		return net.ErrClosed
	case <-late:
		return os.ErrDeadlineExceeded
	}
}

func (t *tap) Read(p []byte) (int, error) {
	if t.hold && t.skip == 0 { // not in the middle of the answer to hello
		if err := t.wait(); err != nil {
			return 0, err
		}
	}
	n, err := t.Conn.Read(p)
	t.parse(p[:n])
	return n, err
}

// parse follows the packets that are received.
func (t *tap) parse(b []byte) {
	for len(b) > 0 {
		if t.skip > 0 {
			n := min(t.skip, len(b))
			t.skip, b = t.skip-n, b[n:]
			continue
		}
		want := headSize
		if !t.met {
			want = helloSize
		}
		n := min(want-len(t.head), len(b))
		t.head, b = append(t.head, b[:n]...), b[n:]
		if len(t.head) < want {
			return
		}
		t.skip = max(0, 4+int(binary.BigEndian.Uint32(t.head))-want)
		if t.met {
			t.answered(int32(binary.BigEndian.Uint32(t.head[4:])))
		} else {
			t.greeted(t.head)
		}
		t.head = t.head[:0]
	}
}

// greeted handles the answer to the request for a session.
func (t *tap) greeted(head []byte) {
	t.met = true
	timeout := time.Duration(binary.BigEndian.Uint32(head[8:])) * time.Millisecond
	t.mu.Lock()
	hello := t.hello
	t.mu.Unlock()
	if id := int64(binary.BigEndian.Uint64(head[12:])); id != 0 {
		t.hold = t.owner.granted(t, id, timeout, hello)
	}
}

// answered looks up when the answered request was sent. Events answer no request.
func (t *tap) answered(number int32) {
	t.mu.Lock()
	at, known := t.sent[number]
	delete(t.sent, number)
	if number == pingNumber && len(t.pings) > 0 {
		at, known = t.pings[0], true
		t.pings = t.pings[1:]
	}
	t.mu.Unlock()
	if known {
		t.owner.confirmed(t, at)
	}
}
