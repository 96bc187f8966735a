package serve

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"conclave/wire"
	"conclave/wire/admit"
)

// Places are how many of something a process has at a time, in all and for one
// address: connections, or requests. One address cannot take the places of all.
type Places struct {
	all, each int
	budget    *admit.Budget // by address
	refused   atomic.Uint64
}

// NewPlaces returns places, of which one address has each at most.
func NewPlaces(all, each int) *Places {
	return &Places{all: all, each: each, budget: admit.New(all, each)}
}

// Refused returns how often there was none.
func (p *Places) Refused() uint64 { return p.refused.Load() }

// take takes a place for an address, and reports whether there was one.
func (p *Places) take(address string) bool {
	if p.budget.Try(address, 1) {
		return true
	}
	p.refused.Add(1)
	return false
}

// leave gives a place back.
func (p *Places) leave(address string) { p.budget.Release(address, 1) }

// Listener returns ln with a place for each connection. One without a place is
// closed at once.
func (p *Places) Listener(ln net.Listener) net.Listener { return &placedListener{ln, p} }

// Handler returns next with a place for each request. One without a place is
// refused with the code unavailable.
func (p *Places) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address := HostOf(r.RemoteAddr)
		if !p.take(address) {
			w.Header().Set("Retry-After", "1")
			WriteError(w, wire.Errorf(wire.CodeUnavailable, "there are %d requests from %s, or %d in all, which is the limit", p.each, address, p.all))
			return
		}
		defer p.leave(address)
		next.ServeHTTP(w, r)
	})
}

type placedListener struct {
	net.Listener
	places *Places
}

// Accept returns the next connection that has a place.
func (l *placedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := HostOf(conn.RemoteAddr().String())
		if l.places.take(address) {
			return &placedConn{Conn: conn, leave: sync.OnceFunc(func() { l.places.leave(address) })}, nil
		}
		_ = conn.Close() // of a client that has more than enough others
	}
}

type placedConn struct {
	net.Conn
	leave func()
}

// Close closes the connection and gives its place back.
func (c *placedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// HostOf returns the host of HOST:PORT, and what has no port as it is.
func HostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
