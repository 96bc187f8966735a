package sql

import (
	"net"
	"sync"
)

// watchedConn is a socket that notices when it ends. The driver reads a
// connection only while a statement is in progress, so that an idle connection
// that the server has closed looks alive until the next beat, and a leader
// would believe for that long that it still holds its witness. watchedConn
// always has a read outstanding: it reads one chunk ahead of the driver.
type watchedConn struct {
	net.Conn
	lost func(error) // called once when the socket ends without Close
	read func()      // called with each read that has returned bytes

	chunks chan []byte   // read ahead; closed by pump when the socket has ended
	taken  chan struct{} // the driver has consumed the chunk; never closed
	closed chan struct{} // closed by Close: there are no more reads
	done   chan struct{} // closed by pump at its end

	rest []byte // of the last chunk; used only by Read
	err  error  // why the socket ended; set before chunks is closed

	closing sync.Once
}

var _ net.Conn = (*watchedConn)(nil)

// newWatchedConn takes over the socket and starts the goroutine that reads it.
// Close waits for that goroutine.
func newWatchedConn(conn net.Conn, lost func(error), read func()) *watchedConn {
	t := &watchedConn{
		Conn:   conn,
		lost:   lost,
		read:   read,
		chunks: make(chan []byte),
		taken:  make(chan struct{}),
		closed: make(chan struct{}),
		done:   make(chan struct{}),
	}
	go t.pump()
	return t
}

// pump reads ahead, one chunk at a time.
func (t *watchedConn) pump() {
	defer close(t.done)
	buf := make([]byte, 16<<10)
	for {
		n, err := t.Conn.Read(buf)
		if n > 0 {
			t.read()
			select {
			case t.chunks <- buf[:n]:
			case <-t.closed:
				return
			}
			select {
			case <-t.taken:
			case <-t.closed:
				return
			}
		}
		if err != nil {
			t.end(err)
			return
		}
	}
}

// end reports that the socket has ended, unless Close ended it. It calls lost
// before Read returns the error, because the driver then closes the socket
// itself.
func (t *watchedConn) end(err error) {
	select {
	case <-t.closed:
	default:
		t.lost(err)
	}
	t.err = err
	close(t.chunks)
}

// Read returns what was read ahead. It must not be called from two goroutines
// at once.
func (t *watchedConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(t.rest) == 0 {
		select {
		case chunk, ok := <-t.chunks:
			if !ok {
				return 0, t.err
			}
			t.rest = chunk
		case <-t.closed:
			return 0, net.ErrClosed
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	if len(t.rest) == 0 {
		select {
		case t.taken <- struct{}{}:
		case <-t.closed:
		}
	}
	return n, nil
}

// Close closes the socket and waits for the pump.
func (t *watchedConn) Close() error {
	var err error
	t.closing.Do(func() {
		close(t.closed)
		err = t.Conn.Close()
	})
	<-t.done
	return err
}
