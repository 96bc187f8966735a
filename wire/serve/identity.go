package serve

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"github.com/gorilla/mux"

	"conclave"
	"conclave/internal/certs"
	"conclave/wire"
	"conclave/wire/rights"
	"conclave/wire/v1/wirev1connect"
)

// requireRight refuses requests whose token does not have the right that they
// need, and adds the identity to the context of the others.
func (c RouterConfig) requireRight() mux.MiddlewareFunc {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			need, token := routeOf(r), wire.TokenOf(r.Header)
			id, err := c.Identify(need.right, token)
			if err != nil {
				WriteError(w, err)
				return
			}
			ctx := rights.With(r.Context(), id)
			if token != "" && !c.Tokens.Open() && need.lasts {
				var release func()
				ctx, release = c.hold(ctx, w, token, id)
				defer release()
			}
			r = r.WithContext(ctx)
			c.audit(need, w, r, func(w http.ResponseWriter) { next.ServeHTTP(w, r) })
		})
	}
}

// Identify returns the identity of a request that needs a right, or why it is refused.
func (c RouterConfig) Identify(need rights.Right, token string) (rights.Identity, error) {
	id, valid := c.Tokens.Identify(token, c.Address)
	switch {
	case valid && id.May(need):
		return id, nil
	case valid:
		return id, wire.Errorf(wire.CodeForbidden, "this request needs the right %s; %s has the right %s", need, id.Name, id.Right)
	case need == rights.Open:
		return rights.Identity{}, nil
	case token != "":
		return id, wire.Errorf(wire.CodeUnauthorized, "the token of this request is not valid")
	case need == rights.Read && c.PublicReads:
		return rights.Identity{Right: rights.Read}, nil
	}
	return id, wire.Errorf(wire.CodeUnauthorized, "this request needs the header Authorization: Bearer TOKEN, with the right %s", need)
}

// hold ends the request when its token is revoked: its context ends, and what it
// reads fails. release must be called before the handler returns.
func (c RouterConfig) hold(ctx context.Context, w http.ResponseWriter, token string, id rights.Identity) (held context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	reading := &Deadline{Response: http.NewResponseController(w)}
	h := c.Tokens.Hold(token, c.Address, id, func() {
		cancel(wire.Errorf(wire.CodeUnauthorized, "the token was revoked"))
		reading.Abort()
	})
	return ctx, func() {
		h.Release()
		reading.End()
		cancel(nil)
	}
}

// rpcPrefix begins the path of every procedure.
const rpcPrefix = "/conclave.v1."

// refuseOtherRoles refuses what a process sends over TLS to a procedure that only
// nodes of other roles call, and a term from any node that is not a meta. Without
// TLS nothing is known of the caller, and nothing is refused.
func refuseOtherRoles() mux.MiddlewareFunc {
	writer := connect.NewErrorWriter()
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := checkCaller(r); err != nil {
				_ = writer.Write(w, r, wire.ToConnect(err)) // fails only if the caller has disconnected
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// checkCaller returns why the caller may not make this request, or nil.
func checkCaller(r *http.Request) error {
	if r.TLS == nil || !strings.HasPrefix(r.URL.Path, rpcPrefix) || strings.HasPrefix(r.URL.Path, "/"+wirev1connect.ClientServiceName+"/") {
		return nil
	}
	roles := routes[r.URL.Path].roles
	if wire.HasTerm(r.Header) {
		roles = slices.DeleteFunc(slices.Clone(roles), func(role conclave.Role) bool { return role != conclave.RoleMeta })
	}
	if certs.PeerHasRole(r.TLS, roles...) {
		return nil
	}
	return wire.Errorf(wire.CodeForbidden, "%s needs the certificate of a node with one of the roles %v", r.URL.Path, roles)
}

// Act is a request that changes something, for the audit log. What an operator
// asked of a meta that does not lead is an act at both, the second time from the
// address of the first.
type Act struct {
	Identity rights.Identity
	Request  string // method, path and query
	From     string // address
	Status   int    // of the answer; 0 for a stream, which has only started
}

// maxShown limits what of a request the audit log shows, in bytes.
const maxShown = 256

// audit calls handle, and reports an act.
func (c RouterConfig) audit(need route, w http.ResponseWriter, r *http.Request, handle func(http.ResponseWriter)) {
	if c.Audit == nil || need.right != rights.Operator && !need.acts {
		handle(w)
		return
	}
	id, _ := rights.Of(r.Context())
	request := r.Method + " " + r.URL.RequestURI()
	act := Act{Identity: id, Request: request[:min(len(request), maxShown)], From: r.RemoteAddr}
	if need.lasts {
		c.Audit(act)
		handle(w)
		return
	}
	act.Status = http.StatusOK
	handle(StatusWriter{w, func(status int) int {
		act.Status = status
		return status
	}})
	c.Audit(act)
}

// StatusWriter sends the status that Of returns instead of that of an answer.
type StatusWriter struct {
	http.ResponseWriter
	Of func(status int) int
}

// WriteHeader implements http.ResponseWriter.
func (w StatusWriter) WriteHeader(status int) { w.ResponseWriter.WriteHeader(w.Of(status)) }

// Unwrap is for http.ResponseController.
func (w StatusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// refuseBrowsers refuses what a web page of another origin makes a browser send:
// requests that change something (http.CrossOriginProtection), and any request
// under a host name that is not the node's. The page of an attacker whose name
// was made to resolve to the node's address (DNS rebinding) has the same origin
// as the node, but sends its own name as the host.
//
// Without TLS browsers speak HTTP/1.1 only, so the host of calls over HTTP/2,
// such as those of nodes and clients, is not checked: they may use any name. With
// TLS, a browser connects to no node under a name that its certificate lacks.
func (c RouterConfig) refuseBrowsers() mux.MiddlewareFunc {
	return func(next http.Handler) http.Handler {
		return RefuseForeignPages(next, append(slices.Clone(c.Hosts), c.Node.Name)...)
	}
}

// RefuseForeignPages refuses the same for another server that has these names.
func RefuseForeignPages(next http.Handler, names ...string) http.Handler {
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		WriteError(w, wire.Errorf(wire.CodeForbidden, "a web page of another origin may not send this request"))
	}))
	checked := origins.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && !ownHost(r.Host, names) {
			WriteError(w, wire.Errorf(wire.CodeForbidden, "host %.128q is not a name of this node: use its address, or configure the name with --host", r.Host))
			return
		}
		checked.ServeHTTP(w, r)
	})
}

// ownHost reports whether a request with this Host header addresses the server: by
// an IP address, as localhost, or by one of its names.
func ownHost(host string, names []string) bool {
	host = strings.Trim(strings.TrimSuffix(HostOf(host), "."), "[]")
	return host == "" || net.ParseIP(host) != nil || strings.EqualFold(host, "localhost") ||
		slices.ContainsFunc(names, func(h string) bool { return strings.EqualFold(h, host) })
}

// Caller is who has sent a request.
type Caller struct {
	Identity string // of its token
	Address  string
	Name     string // as operators are shown
}

// CallerOf returns the caller of a request whose right was checked.
func CallerOf(r *http.Request) Caller {
	identity, _ := rights.Of(r.Context())
	return Caller{Identity: identity.Name, Address: r.RemoteAddr, Name: r.UserAgent()}
}

// Host returns the host of the caller. Its port means nothing.
func (c Caller) Host() string { return HostOf(c.Address) }

// Client names all that sends requests with one identity from one host.
func (c Caller) Client() string { return c.Identity + "@" + c.Host() }
