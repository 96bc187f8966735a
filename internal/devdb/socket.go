package devdb

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// readAhead bounds what is kept of a client that sends on while its statement waits.
const readAhead = 64 << 10

// listener hands out sockets and counts them, so that Run can join the goroutines that serve them.
type listener struct {
	net.Listener
	stopping chan struct{} // closed by Server.drain: no further command is read

	mu    sync.Mutex // guards all
	all   map[*socket]bool
	alive sync.WaitGroup // one for each socket whose goroutine has not ended
}

func newListener(l net.Listener) *listener {
	return &listener{Listener: l, stopping: make(chan struct{}), all: make(map[*socket]bool)}
}

// Accept outlasts a moment without file descriptors, which would end the server: it takes any error for its closing.
func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	for errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) {
		time.Sleep(10 * time.Millisecond)
		conn, err = l.Listener.Accept()
	}
	if err != nil {
		return nil, err
	}
	s := &socket{Conn: conn, listener: l, closed: make(chan struct{})}
	l.mu.Lock()
	l.all[s] = true
	l.mu.Unlock()
	l.alive.Add(1)
	return s, nil
}

// sockets lists the open ones.
func (l *listener) sockets() []*socket {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := make([]*socket, 0, len(l.all))
	for s := range l.all {
		open = append(open, s)
	}
	return open
}

// drain makes every connection end at its next read: an idle one now, a busy one once its answer has left.
func (l *listener) drain() {
	close(l.stopping)
	for _, s := range l.sockets() {
		s.SetReadDeadline(past())
	}
}

func (l *listener) closeAll() {
	for _, s := range l.sockets() {
		s.cut()
	}
}

// socket is a client's connection that can be watched while nobody reads from it.
//
// The server reads a connection only between two statements. While a statement waits (for a named lock, in SLEEP) a
// client that is killed would go unnoticed, keep its place in the queue, and swallow the wake-up meant for the living.
// So a waiting statement lets watch read ahead, as net/http does to find out that a request's client is gone.
type socket struct {
	net.Conn
	listener *listener
	closed   chan struct{} // closed by cut
	once     sync.Once     // guards that closing

	finished atomic.Bool // the handler is done with it: the next Close is its goroutine's last act
	joined   sync.Once   // guards that counting

	// Used by the connection's goroutine, and by watch while that goroutine waits for it.
	ahead []byte // read while a statement waited
	fault error  // why reading has ended
}

// Read answers what was read ahead, then what comes. A broken connection reads as a closed one: for a database it is
// no news worth a log line.
func (s *socket) Read(p []byte) (int, error) {
	if len(s.ahead) > 0 {
		n := copy(p, s.ahead)
		s.ahead = s.ahead[n:]
		return n, nil
	}
	if s.fault != nil || isClosed(s.listener.stopping) {
		return 0, io.EOF
	}
	n, err := s.Conn.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// cut closes the connection, from any goroutine; the one that serves it notices and cleans up.
func (s *socket) cut() {
	s.Conn.Close()
	s.once.Do(func() {
		close(s.closed)
		s.listener.mu.Lock()
		delete(s.listener.all, s)
		s.listener.mu.Unlock()
	})
}

// Close is called by the goroutine that serves the socket, as the last thing it does, and by KILL.
func (s *socket) Close() error {
	s.cut()
	if s.finished.Load() {
		s.joined.Do(s.listener.alive.Done)
	}
	return nil
}

// watch reads ahead until stop is called; gone is closed when the client has closed its end. Only one watch at a time.
func (s *socket) watch() (gone <-chan struct{}, stop func()) {
	lost := make(chan struct{})
	var reading sync.WaitGroup
	if s.fault != nil {
		close(lost)
		return lost, func() {}
	}
	reading.Go(func() {
		buf := make([]byte, 512)
		for len(s.ahead) < readAhead {
			n, err := s.Conn.Read(buf)
			s.ahead = append(s.ahead, buf[:n]...)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return // stop, or drain
			}
			if err != nil {
				s.fault = err
				close(lost)
				return
			}
		}
	})
	return lost, func() {
		s.SetReadDeadline(past())
		reading.Wait()
		s.SetReadDeadline(time.Time{})
	}
}

// past is a deadline that ends a read at once, in a bubble too.
func past() time.Time { return time.Unix(1, 0) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
