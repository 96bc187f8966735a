package serve

import (
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"github.com/gorilla/mux"

	"conclave"
	"conclave/internal/certs"
	"conclave/wire"
	"conclave/wire/v1/wirev1connect"
)

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
