package wire

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"conclave"
)

// HTTPServer serves a node's one port: Connect, admin API, metrics and events,
// over HTTP/1.1 and HTTP/2 without TLS.
type HTTPServer struct {
	server   *http.Server
	listener net.Listener
	cancel   context.CancelFunc // ends the contexts of all requests
	done     chan struct{}      // closed by Serve when it returns
	requests sync.WaitGroup     // handlers under way

	mu     sync.Mutex // guards closed, and so that no handler begins once Close waits for them
	closed bool
}

// NewHTTPServer prepares to serve handler on ln.
func NewHTTPServer(ln net.Listener, handler http.Handler) *HTTPServer {
	ctx, cancel := context.WithCancel(context.Background())
	s := &HTTPServer{listener: ln, cancel: cancel, done: make(chan struct{})}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !s.begin() {
				return // the connection is being closed: nobody reads an answer
			}
			defer s.requests.Done()
			handler.ServeHTTP(w, r)
		}),
		Protocols:         protocols,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // broken and frozen peers: the conversations notice them, and say so
		BaseContext:       func(net.Listener) context.Context { return ctx },
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 4096,
			SendPingTimeout:      2 * time.Second,
			PingTimeout:          time.Second,
		},
	}
	return s
}

// Serve blocks until Close or Shutdown, and returns nil then.
func (s *HTTPServer) Serve() error {
	defer close(s.done)
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown closes the listener, lets requests finish until ctx ends, then
// closes what is left.
func (s *HTTPServer) Shutdown(ctx context.Context) {
	if err := s.server.Shutdown(ctx); err != nil {
		s.Close()
		return
	}
	s.Close()
}

// Close drops everything at once and waits until no handler runs.
func (s *HTTPServer) Close() {
	s.cancel()
	_ = s.server.Close() // its error is the listener's, which is closing anyway
	<-s.done
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.requests.Wait()
}

// begin counts a handler in, unless the server waits for the last ones: an
// HTTP/2 connection may still start one while it is being closed.
func (s *HTTPServer) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.requests.Add(1)
	return true
}

// CheckListen refuses to listen beyond loopback without a token, unless told
// that this is wanted.
func CheckListen(address, token string, insecure bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return Errorf(CodeBadRequest, "listen address %q: want HOST:PORT", address)
	}
	if token != "" || insecure || host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return nil
	}
	return Errorf(CodeBadRequest, "refusing to listen on %q without a token: configure one, listen on loopback, or say --insecure", address)
}

// limitBody refuses bodies over the limit of a request.
func limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > conclave.MaxRequest && r.ProtoMajor == 1 {
			WriteError(w, Errorf(CodeTooLarge, "the body has %d bytes, the limit is %d", r.ContentLength, conclave.MaxRequest))
			return
		}
		next.ServeHTTP(w, r)
	})
}
