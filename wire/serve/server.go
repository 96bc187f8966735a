package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"conclave"
	"conclave/internal/contain"
	"conclave/internal/join"
	"conclave/wire"
	"conclave/wire/rights"
)

// HTTPServer serves a node's only port: Connect services, admin API, metrics
// and events, over HTTP/1.1 and HTTP/2, with TLS if its listener has it.
type HTTPServer struct {
	server   *http.Server
	listener net.Listener
	cancel   context.CancelFunc // ends the contexts of all requests
	done     chan struct{}      // closed by Serve when it returns
	requests join.Group         // running handlers; none starts while Close waits for them

	mu        sync.Mutex                 // guards the rest
	answering map[net.Conn]chan struct{} // of HTTP/1.1; closed when the answer was sent completely
}

// connKey is the context key of a request's connection.
type connKey struct{}

// endLimit is how long Shutdown waits for answers to be complete whose requests it has ended.
const endLimit = time.Second

// NewHTTPServer returns a server of handler on ln; Serve starts it. pings is the
// limit of the time that the answer to an HTTP/2 ping may take; see
// wire.PingTimeout.
func NewHTTPServer(ln net.Listener, handler http.Handler, pings time.Duration) *HTTPServer {
	ctx, cancel := context.WithCancel(context.Background())
	s := &HTTPServer{listener: ln, cancel: cancel, done: make(chan struct{}), answering: map[net.Conn]chan struct{}{}}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !s.requests.Begin() {
				return // the connection is being closed: one of HTTP/2 may still start a handler
			}
			defer s.requests.Done()
			if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok && r.ProtoMajor == 1 {
				s.mu.Lock()
				s.answering[conn] = make(chan struct{})
				s.mu.Unlock()
			}
			handler.ServeHTTP(w, r)
		}),
		Protocols:         protocols,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // the services report broken and frozen peers themselves
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
		ConnState: s.changed,
		HTTP2:     wire.HTTP2(pings),
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

// changed is called by net/http when a connection has another state.
func (s *HTTPServer) changed(conn net.Conn, now http.ConnState) {
	if now == http.StateActive {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent, ok := s.answering[conn]; ok {
		close(sent)
		delete(s.answering, conn)
	}
}

// Shutdown closes the listener, waits until all requests have finished or ctx
// ends, and then calls Close. Requests of HTTP/1.1 that are left, as one that waits or a
// stream of events, are answered completely when their contexts have ended, so that their
// clients take the answer for what it is, and not for one that broke off. One of HTTP/2 that
// is left may break off: a client with the SDK goes on elsewhere without an answer, and a
// second Shutdown of net/http would wait for the connections of such clients until endLimit.
func (s *HTTPServer) Shutdown(ctx context.Context) {
	_ = s.server.Shutdown(ctx) // Close ends what is left
	s.cancel()
	s.mu.Lock()
	left := slices.Collect(maps.Values(s.answering))
	s.mu.Unlock()
	limit := time.NewTimer(endLimit)
	defer limit.Stop()
	for _, sent := range left {
		select {
		case <-sent:
		case <-limit.C:
			limit.Reset(0)
		}
	}
	s.Close()
}

// Close closes all connections at once and waits until no handler runs.
func (s *HTTPServer) Close() {
	s.cancel()
	_ = s.server.Close() // the error is that of closing the listener
	<-s.done
	s.requests.Close()
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

// RouterConfig configures what every role serves besides its own paths.
type RouterConfig struct {
	Node    conclave.NodeID
	Role    conclave.Role
	Version string
	// Tokens are those that requests need; nil: every request may do everything.
	Tokens *rights.Tokens
	// Address is the one that the node advertises, to which tokens may be bound.
	Address string
	// PublicReads makes what needs the right read need no token.
	PublicReads bool
	// Audit is called with each act that was allowed; nil: it is not.
	Audit   func(Act)
	Hosts   []string             // host names, besides addresses and localhost, under which a browser may address the node
	Metrics *prometheus.Registry // served at /metrics
	Events  *Events              // served at /v1/events
	// Ready reports whether the node serves, and the reasons why it does not or
	// only in part.
	Ready func() (bool, []string)
}

// scrapesAtOnce is how many requests for metrics, which need no token, are answered at
// a time. Others get 503.
const scrapesAtOnce = 4

// NewRouter returns the router with the paths that all roles share. Each role
// adds its own paths and mounts its Connect services on it.
func NewRouter(c RouterConfig) *mux.Router {
	r := mux.NewRouter().SkipClean(true) // a path that is not clean is not found: a redirect would make a GET of a PUT
	r.Use(c.refuseBrowsers(), refuseOtherRoles(), limitBodyTime, c.requireRight(), limitBody, limitReads())
	r.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		WriteJSON(w, http.StatusOK, map[string]any{"name": c.Node.Name, "role": c.Role, "incarnation": c.Node.Incarnation})
	}).Methods(http.MethodGet)
	r.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready, reasons := c.Ready()
		if reasons == nil {
			reasons = []string{}
		}
		status := http.StatusOK
		if !ready {
			status = http.StatusServiceUnavailable
		}
		WriteJSON(w, status, map[string]any{"reasons": reasons})
	}).Methods(http.MethodGet)
	r.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		WriteJSON(w, http.StatusOK, map[string]any{"version": c.Version})
	}).Methods(http.MethodGet)
	r.Handle("/metrics", promhttp.HandlerFor(c.Metrics, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesAtOnce})).Methods(http.MethodGet)
	r.Handle("/v1/events", c.Events).Methods(http.MethodGet)
	r.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		WriteError(w, wire.Errorf(wire.CodeNotFound, "no such path: %s", q.URL.Path))
	})
	r.MethodNotAllowedHandler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		allowed := strings.Join(methodsAt(r, q), ", ")
		w.Header().Set("Allow", allowed)
		e := wire.Errorf(wire.CodeBadRequest, "method %s is not allowed at %s: want %s", q.Method, q.URL.Path, allowed)
		writeErrorStatus(w, http.StatusMethodNotAllowed, e, nil)
	})
	return r
}

// methodsAt returns the methods that the router has for the path of a request.
func methodsAt(r *mux.Router, q *http.Request) (out []string) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete} {
		other, match := *q, mux.RouteMatch{}
		other.Method = method
		if r.Match(&other, &match) && match.MatchErr == nil {
			out = append(out, method)
		}
	}
	return out
}

// Mount adds a Connect service, as returned by its generated constructor, to
// the router.
func Mount(r *mux.Router, path string, h http.Handler) {
	r.PathPrefix(path).Handler(h)
}

// HandlerOptions returns the options of the Connect services between roles. The
// size limit is several times that of a client's request, so that a node can
// always pass on what it has accepted.
func HandlerOptions(i *wire.Interceptor) connect.HandlerOption {
	return handlerOptions(i, 4*conclave.MaxRequest)
}

// ClientHandlerOptions returns the options of the service for clients. Clients
// are not peers, so terms and tables in their
// headers are ignored, and their messages are counted before they are read.
func ClientHandlerOptions() connect.HandlerOption {
	return connect.WithHandlerOptions(
		handlerOptions(&wire.Interceptor{}, conclave.MaxRequest),
		connect.WithCodec(clientCodec{}), connect.WithCodec(clientJSON{}),
	)
}

func handlerOptions(i *wire.Interceptor, limit int) connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithInterceptors(i),
		connect.WithReadMaxBytes(limit),
		connect.WithCompression("gzip", nil, nil), // no node compresses: ADR 0002
		connect.WithRecover(func(ctx context.Context, _ connect.Spec, _ http.Header, v any) error {
			return wire.ToConnect(wire.Errorf(wire.CodeInternal, "%v", contain.Reported(ctx, v)))
		}),
	)
}

// WriteJSON sends body as the response.
func WriteJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(body) // an error means that the client has disconnected
}
