package serve

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"conclave/wire"
)

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
