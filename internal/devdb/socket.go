package devdb

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// readAhead limits how many bytes are buffered while a client's statement
// waits.
const readAhead = 64 << 10

// listener accepts sockets and counts them, so that Run can wait for the
// goroutines that serve them.
type listener struct {
	net.Listener
	stopping chan struct{} // closed by Server.drain: no further command is read

	mu    sync.Mutex     // guards open
	open  []*socket      // the oldest first
	alive sync.WaitGroup // one for each socket whose goroutine has not ended
}

func newListener(l net.Listener) *listener {
	return &listener{Listener: l, stopping: make(chan struct{})}
}

// Accept retries when the process has no free file descriptors, because the
// server takes any error as the end of the listener.
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
	s.SetReadDeadline(time.Now().Add(loginTime))
	l.alive.Add(1)
	if oldest, logins := l.enter(s); logins > loginPlaces {
		oldest.cut()
	}
	return s, nil
}

// sockets returns the open sockets.
func (l *listener) sockets() []*socket {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.open)
}

// drain makes every connection end at its next read: an idle one now, a busy
// one after its answer was sent.
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

// socket is a client's connection that is also watched while a statement waits.
//
// The server reads a connection only between two statements. While a statement
// waits (for a named lock or in SLEEP) it would not notice that the client was
// killed, and the lock would be granted to a dead client. So a waiting
// statement reads ahead with watch, as net/http does to find out that the
// client of a request has gone.
type socket struct {
	net.Conn
	listener *listener
	closed   chan struct{} // closed by cut
	once     sync.Once     // for closing it

	finished atomic.Bool // the handler has finished; the next Close is its goroutine's last action
	joined   sync.Once   // for listener.alive

	login login

	// Used by the connection's goroutine, and by watch while that goroutine
	// waits for it.
	ahead []byte // read while a statement waited
	fault error  // why reading has ended
}

// Read returns the bytes that were read ahead, then reads from the connection.
// It returns io.EOF for a broken connection too, because the engine would log
// any other error.
func (s *socket) Read(p []byte) (int, error) {
	if len(s.ahead) > 0 {
		n := copy(p, s.ahead)
		s.ahead = s.ahead[n:]
		return n, nil
	}
	known := s.loggedIn() // before stopping is read: drain sets a deadline
	if s.fault != nil || isClosed(s.listener.stopping) {
		return 0, io.EOF
	}
	n, err := s.Conn.Read(p)
	if err != nil || !known && !s.login.fits(p[:n]) {
		return 0, io.EOF
	}
	return n, nil
}

// cut closes the connection. Any goroutine may call it; the one that serves the
// connection notices and cleans up.
func (s *socket) cut() {
	s.Conn.Close()
	s.once.Do(func() {
		close(s.closed)
		s.listener.mu.Lock()
		s.listener.open = slices.DeleteFunc(s.listener.open, func(o *socket) bool { return o == s })
		s.listener.mu.Unlock()
	})
}

// Close is called by KILL, and by the goroutine that serves the socket as its
// last action.
func (s *socket) Close() error {
	s.cut()
	if s.finished.Load() {
		s.joined.Do(s.listener.alive.Done)
	}
	return nil
}

// watch reads ahead until stop is called. gone is closed when the client has
// closed its end. Only one watch may run at a time.
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

// past returns a deadline that ends a read at once, also in a bubble.
func past() time.Time { return time.Unix(1, 0) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Limits of connections whose client has not logged in. One address has
// loginPlaces of them: a new one takes the place of its oldest, since a login takes
// milliseconds.
const (
	loginTime   = 5 * time.Second
	loginPacket = 64 << 10 // the engine allocates what a packet announces
	loginPlaces = 256
)

// login follows what a client sends until it has logged in. Except for done, it belongs
// to the connection's goroutine.
type login struct {
	known  func() bool // reports whether the client has logged in
	done   atomic.Bool
	header []byte // of the next packet, as far as it has arrived
	left   int    // bytes of the present packet that have not arrived
}

// fits reports whether the packets in what was read are small.
func (l *login) fits(read []byte) bool {
	for len(read) > 0 {
		if l.left > 0 {
			n := min(l.left, len(read))
			l.left, read = l.left-n, read[n:]
			continue
		}
		n := min(4-len(l.header), len(read))
		l.header, read = append(l.header, read[:n]...), read[n:]
		if len(l.header) < 4 {
			continue
		}
		l.left = int(l.header[0]) | int(l.header[1])<<8 | int(l.header[2])<<16
		if l.header = l.header[:0]; l.left > loginPacket {
			return false
		}
	}
	return true
}

// loggedIn reports whether the client has logged in, and ends the limits when it has.
func (s *socket) loggedIn() bool {
	if !s.login.done.Load() && s.login.known != nil && s.login.known() {
		s.login.done.Store(true)
		s.SetReadDeadline(time.Time{})
	}
	return s.login.done.Load()
}

// enter adds a new connection. It returns how many of its address have not logged in,
// and the oldest of them.
func (l *listener) enter(s *socket) (oldest *socket, logins int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, s)
	for _, o := range slices.Backward(l.open) {
		if !o.login.done.Load() && o.host() == s.host() {
			oldest = o
			logins++
		}
	}
	return oldest, logins
}

// host returns the address of the client without its port.
func (s *socket) host() string {
	address := s.RemoteAddr().String()
	host, _, err := net.SplitHostPort(address)
	if err != nil { // a network in memory
		return address
	}
	return host
}
