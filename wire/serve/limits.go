package serve

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"

	"conclave"
	"conclave/wire"
	"conclave/wire/admit"
	"conclave/wire/rights"
)

// Limits of the body of a request, which is in memory before it is answered: of
// one that needs no right, or carries two numbers; of any other one that does not
// last; and of the time in which it must arrive.
const (
	smallBody = 64 << 10
	largeBody = 4 * conclave.MaxRequest
	bodyLimit = 10 * time.Second
)

// limitBodyTime bounds the time in which the body of a request must arrive that does not
// last, whoever sends it.
func limitBodyTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !routeOf(r).lasts && r.Body != nil && r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyLimit))
		}
		next.ServeHTTP(w, r)
	})
}

// limitBody bounds the bodies of these requests in bytes, after limitBodyTime. The rest of
// a body that was not read is discarded, up to largeBody, before the answer is sent: many
// clients read no answer before they have sent all, and a reset would discard it. Nothing
// is discarded for those that may not send the request.
func limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		need := routeOf(r)
		if need.lasts || r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		most := largeBody
		switch {
		case need.small, need.right == rights.Open:
			most = smallBody
		case r.ProtoMajor == 1, !strings.HasPrefix(keyOf(r), "/"): // not between nodes
			most = conclave.MaxRequest
		}
		body := r.Body
		// A proxy's transport may read on when the handler has returned.
		deadline := &Deadline{Response: http.NewResponseController(w)}
		defer deadline.End()
		if r.ContentLength > int64(most) {
			WriteError(w, wire.Errorf(wire.CodeTooLarge, "the body has %d bytes, the limit is %d", r.ContentLength, most))
		} else {
			r.Body = &limitedBody{
				ReadCloser: http.MaxBytesReader(w, io.NopCloser(body), int64(most)), // a handler that closes it would keep the rest from being discarded
				deadline:   deadline,
			}
			next.ServeHTTP(w, r)
		}
		if r.ProtoMajor == 1 && r.Header.Get("Expect") == "" { // such a client waits for the answer
			_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, body, largeBody))
		}
	})
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// Deadline is how long one request may be read and written. Unlike the request
// itself it may be used by any goroutine, also after the request's handler has
// returned: then it does nothing.
type Deadline struct {
	Response interface { // of a request, or a connection
		SetReadDeadline(time.Time) error
		SetWriteDeadline(time.Time) error
	}

	mu      sync.Mutex // held while the deadline is set, which waits for no peer
	aborted bool
	ended   bool
}

// Set sets when reads fail; the zero time means never. It has no effect once the
// request was aborted or has ended.
func (d *Deadline) Set(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended && !d.aborted {
		_ = d.Response.SetReadDeadline(at) // fails only when the request has ended
	}
}

// Abort makes all reads fail from now on, also if a message that is being handled
// would extend the deadline.
func (d *Deadline) Abort() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		_ = d.Response.SetReadDeadline(past)
	}
	d.aborted = true
}

// Fail makes all reads and writes fail, also those that wait.
func (d *Deadline) Fail() {
	d.Abort()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		_ = d.Response.SetWriteDeadline(past)
	}
}

// End is called before the request's handler returns.
func (d *Deadline) End() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
}

// limitedBody is a body that must arrive in time. What is done after that may take
// longer.
type limitedBody struct {
	io.ReadCloser
	deadline *Deadline
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.deadline.Set(time.Time{})
	}
	return n, err
}

// Limits of the requests that list something: what is answered at a time, and how
// long one answer may take to be written. A node that has leases to keep spends no
// more on readers, however many they are and however slowly they read.
const (
	readsAtOnce = 64
	readLimit   = 10 * time.Second
)

// limitReads refuses what exceeds readsAtOnce, with Retry-After, and breaks off what
// exceeds readLimit. Requests that last, probes and acts are not limited.
func limitReads() mux.MiddlewareFunc {
	places := admit.New(readsAtOnce, 0)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if methodOf(r.Method) != http.MethodGet || !strings.HasPrefix(r.URL.Path, "/v1/") || routeOf(r).lasts {
				next.ServeHTTP(w, r)
				return
			}
			if !places.Try("", 1) {
				w.Header().Set("Retry-After", "1")
				WriteError(w, wire.Errorf(wire.CodeUnavailable, "%d requests are being answered, which is the limit", readsAtOnce))
				return
			}
			defer places.Release("", 1)
			response := http.NewResponseController(w)
			_ = response.SetWriteDeadline(time.Now().Add(readLimit)) // of this answer only, and of its last byte
			next.ServeHTTP(w, r)
		})
	}
}

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
		defer p.budget.Release(address, 1)
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
			return &placedConn{Conn: conn, leave: sync.OnceFunc(func() { l.places.budget.Release(address, 1) })}, nil
		}
		_ = conn.Close() // of a client that has more than enough others
	}
}

// placedConn is a connection that has a place. It reads ahead, since net/http reads each
// frame of HTTP/2 by two calls: its header and its content.
type placedConn struct {
	net.Conn
	leave  func()
	unread []byte // of ahead
	ahead  [512]byte
}

// Read implements io.Reader. It reads ahead where less is asked for.
func (c *placedConn) Read(p []byte) (int, error) {
	if len(c.unread) == 0 && len(p) > 0 {
		if len(p) >= len(c.ahead) {
			return c.Conn.Read(p)
		}
		if err := c.fill(); len(c.unread) == 0 {
			return 0, err
		}
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

func (c *placedConn) fill() error {
	n, err := c.Conn.Read(c.ahead[:])
	c.unread = c.ahead[:n]
	return err
}

// AwaitRead waits until a connection that has a place has something to read or has ended.
// It needs less stack than reading a message.
func AwaitRead(conn net.Conn) {
	if c, ok := conn.(*placedConn); ok && len(c.unread) == 0 {
		_ = c.fill() // an error comes again with the next call of Read
	}
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
