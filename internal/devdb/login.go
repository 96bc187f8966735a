package devdb

import (
	"net"
	"slices"
	"time"
)

// Limits of connections whose client has not logged in. One address has
// loginPlaces of them: a new one takes the place of its oldest, since a login takes
// milliseconds.
const (
	loginTime   = 5 * time.Second
	loginPacket = 64 << 10 // the engine allocates what a packet announces
	loginPlaces = 256
)

// login follows what a client sends until it has logged in. Except for what listener
// does, it belongs to the connection's goroutine.
type login struct {
	known  func() bool // reports whether the client has logged in
	done   bool
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
	if !s.login.done && s.login.known != nil && s.login.known() {
		s.login.done = true
		s.listener.leaveLogin(s)
		s.SetReadDeadline(time.Time{})
	}
	return s.login.done
}

// enterLogin limits a new connection until its client has logged in.
func (l *listener) enterLogin(s *socket) {
	s.SetReadDeadline(time.Now().Add(loginTime))
	l.mu.Lock()
	l.logins = append(l.logins, s)
	oldest, places := s, 0
	for _, o := range slices.Backward(l.logins) {
		if o.host() == s.host() {
			oldest = o
			places++
		}
	}
	l.mu.Unlock()
	if places > loginPlaces {
		oldest.cut()
	}
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

// leaveLogin ends that, if it has not ended yet.
func (l *listener) leaveLogin(s *socket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.logins, s); i >= 0 {
		l.logins = slices.Delete(l.logins, i, i+1)
	}
}
