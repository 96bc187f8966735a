package serve

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"conclave/wire"
)

// HTTPServer serves a node's only port: Connect services, admin API, metrics
// and events, over HTTP/1.1 and HTTP/2, with TLS if its listener has it.
type HTTPServer struct {
	server   *http.Server
	listener net.Listener
	cancel   context.CancelFunc // ends the contexts of all requests
	done     chan struct{}      // closed by Serve when it returns
	requests sync.WaitGroup     // running handlers

	mu     sync.Mutex // guards closed; no handler starts while Close waits for requests
	closed bool
}

// NewHTTPServer returns a server of handler on ln; Serve starts it. pings is the
// limit of the time that the answer to an HTTP/2 ping may take; see
// wire.PingTimeout.
func NewHTTPServer(ln net.Listener, handler http.Handler, pings time.Duration) *HTTPServer {
	ctx, cancel := context.WithCancel(context.Background())
	s := &HTTPServer{listener: ln, cancel: cancel, done: make(chan struct{})}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !s.begin() {
				return // the connection is being closed
			}
			defer s.requests.Done()
			handler.ServeHTTP(w, r)
		}),
		Protocols:         protocols,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // the services report broken and frozen peers themselves
		BaseContext:       func(net.Listener) context.Context { return ctx },
		HTTP2:             wire.HTTP2(pings),
	}
	s.server.HTTP2.MaxConcurrentStreams = 4096
	return s
}

// Serve blocks until Close or Shutdown is called, and then returns nil.
func (s *HTTPServer) Serve() error {
	defer close(s.done)
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown closes the listener, waits until all requests have finished or ctx
// ends, and then calls Close.
func (s *HTTPServer) Shutdown(ctx context.Context) {
	_ = s.server.Shutdown(ctx) // Close ends what is left
	s.Close()
}

// Close closes all connections at once and waits until no handler runs.
func (s *HTTPServer) Close() {
	s.cancel()
	_ = s.server.Close() // the error is that of closing the listener
	<-s.done
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.requests.Wait()
}

// begin counts a handler, and reports false if the server waits for the last
// ones. An HTTP/2 connection may still start one while it is being closed.
func (s *HTTPServer) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.requests.Add(1)
	return true
}

// CheckListen returns an error if the address is not a loopback address and
// there is no token, unless insecure is set.
func CheckListen(address string, hasToken, insecure bool) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return wire.Errorf(wire.CodeBadRequest, "listen address %q: want HOST:PORT, with a port of 0 to 65535", address)
	}
	if hasToken || insecure || host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return nil
	}
	return wire.Errorf(wire.CodeBadRequest, "refusing to listen on %q without a token: configure one, listen on loopback, or use --insecure", address)
}
