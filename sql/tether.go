package sql

import (
	"net"
	"sync"
)

// tether is a socket that notices its own end. The driver reads a connection only
// while a statement is under way, so that an idle one that the server has closed
// looks alive until the next beat; a leader would believe for that long. The
// tether has a read outstanding at all times: it reads one piece ahead of the
// driver and hands it over when asked.
type tether struct {
	net.Conn
	lost func(error) // told once when the socket ends by itself

	pieces chan []byte   // read ahead; closed by pump when the socket has ended
	taken  chan struct{} // the driver has used the piece up; never closed
	gone   chan struct{} // closed by Close: nobody will read any more
	done   chan struct{} // closed by pump at its end

	rest []byte // of the last piece; only Read's goroutine touches it
	err  error  // why the socket ended; written before pieces is closed

	closing sync.Once
}

var _ net.Conn = (*tether)(nil)

// newTether takes the socket over and starts its pump, which Close joins.
func newTether(conn net.Conn, lost func(error)) *tether {
	t := &tether{
		Conn:   conn,
		lost:   lost,
		pieces: make(chan []byte),
		taken:  make(chan struct{}),
		gone:   make(chan struct{}),
		done:   make(chan struct{}),
	}
	go t.pump()
	return t
}

// pump reads ahead, one piece at a time.
func (t *tether) pump() {
	defer close(t.done)
	buf := make([]byte, 16<<10)
	for {
		n, err := t.Conn.Read(buf)
		if n > 0 {
			select {
			case t.pieces <- buf[:n]:
			case <-t.gone:
				return
			}
			select {
			case <-t.taken:
			case <-t.gone:
				return
			}
		}
		if err != nil {
			t.end(err)
			return
		}
	}
}

// end tells everyone that the socket has ended; Close alone is no news. lost comes
// first: once the driver knows, it closes the socket itself.
func (t *tether) end(err error) {
	select {
	case <-t.gone:
	default:
		t.lost(err)
	}
	t.err = err
	close(t.pieces)
}

// Read hands over what was read ahead. The driver calls it from one goroutine at
// a time.
func (t *tether) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(t.rest) == 0 {
		select {
		case piece, ok := <-t.pieces:
			if !ok {
				return 0, t.err
			}
			t.rest = piece
		case <-t.gone:
			return 0, net.ErrClosed
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	if len(t.rest) == 0 {
		select {
		case t.taken <- struct{}{}:
		case <-t.gone:
		}
	}
	return n, nil
}

// Close closes the socket and waits for the pump.
func (t *tether) Close() error {
	var err error
	t.closing.Do(func() {
		close(t.gone)
		err = t.Conn.Close()
	})
	<-t.done
	return err
}
