package serve

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"conclave/wire"
	"conclave/wire/rights"
	"conclave/wire/v1/wirev1connect"
)

// required is what each request needs: "METHOD path" as the router has it, or the
// procedure of a Connect service. A request that is not in it is refused, and a
// node whose router has such a path does not start (CheckRoutes).
//
// What needs no token carries no values and changes nothing: probes, metrics, the
// version, and the identity of a node, which a leader asks for at an address that
// the node itself has named. A node leaves and returns by itself (Drain, Restore);
// what an operator does to a node is an entry in the blacklist.
var required = map[string]rights.Right{
	"GET /healthz": rights.Open,
	"GET /readyz":  rights.Open,
	"GET /version": rights.Open,
	"GET /metrics": rights.Open,
	"GET /leaderz": rights.Open,

	wirev1connect.NodeServiceHelloProcedure: rights.Open,

	"GET /v1/events":      rights.Read,
	"GET /v1/stopping":    rights.Read,
	"GET /v1/leader":      rights.Read,
	"GET /v1/elections":   rights.Read,
	"GET /v1/slots":       rights.Read,
	"GET /v1/nodes":       rights.Read,
	"GET /v1/blacklist":   rights.Read,
	"GET /v1/switches":    rights.Read,
	"GET /v1/config":      rights.Read,
	"GET /v1/datums":      rights.Read,
	"GET /v1/clients":     rights.Read,
	"GET /v1/publishers":  rights.Read,
	"GET /v1/subscribers": rights.Read,

	wirev1connect.ClientServiceConnectProcedure: rights.Read, // registering on it needs publish: see package session
	wirev1connect.ClientServicePingProcedure:    rights.Read,

	"PUT /v1/observers/{name}":    rights.Node, // a meta asks the leader
	"DELETE /v1/observers/{name}": rights.Node,

	wirev1connect.NodeServiceAnnounceProcedure:   rights.Node,
	wirev1connect.NodeServiceFetchStateProcedure: rights.Node,
	wirev1connect.MetaServiceJoinProcedure:       rights.Node,
	wirev1connect.MetaServiceLeaveProcedure:      rights.Node,
	wirev1connect.MetaServiceDrainProcedure:      rights.Node,
	wirev1connect.MetaServiceRestoreProcedure:    rights.Node,
	wirev1connect.MetaServiceGetLeaderProcedure:  rights.Node,
	wirev1connect.MetaServiceWitnessProcedure:    rights.Node,
	wirev1connect.MetaServiceWakeProcedure:       rights.Node,
	wirev1connect.DataServiceWriteProcedure:      rights.Node,
	wirev1connect.DataServiceFetchProcedure:      rights.Node,
	wirev1connect.DataServiceWatchProcedure:      rights.Node,
	wirev1connect.DataServiceReplicateProcedure:  rights.Node,
	wirev1connect.DataServiceFinishProcedure:     rights.Node,
	wirev1connect.DataServiceCollectProcedure:    rights.Node,
	wirev1connect.DataServiceValuesProcedure:     rights.Node,
	wirev1connect.SessionServiceDiffProcedure:    rights.Node,

	"POST /v1/stopping":           rights.Operator,
	"DELETE /v1/stopping":         rights.Operator,
	"PUT /v1/config/{id}":         rights.Operator,
	"DELETE /v1/config/{id}":      rights.Operator,
	"PUT /v1/blacklist/{name}":    rights.Operator,
	"DELETE /v1/blacklist/{name}": rights.Operator,
	"PUT /v1/switches/{key}":      rights.Operator,
	"DELETE /v1/protection":       rights.Operator,
	"POST /v1/leader/resign":      rights.Operator,
	"GET /debug/pprof/":           rights.Operator,

	"POST /v1/election/{act:quit|join|force-refresh}": rights.Operator,
}

// lasting are the requests that last: they end when their token is revoked.
var lasting = []string{
	wirev1connect.ClientServiceConnectProcedure, wirev1connect.MetaServiceJoinProcedure, wirev1connect.DataServiceWatchProcedure,
	wirev1connect.DataServiceReplicateProcedure, wirev1connect.DataServiceCollectProcedure, "GET /v1/events",
}

// CheckRoutes returns an error that names the first path of a node's handler that
// is missing in the table of required rights.
func CheckRoutes(h http.Handler) error {
	r, ok := h.(*mux.Router)
	if !ok {
		return fmt.Errorf("the handler is a %T: want a router of NewRouter", h)
	}
	return r.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		template, err := route.GetPathTemplate()
		if err != nil {
			return err
		}
		methods, err := route.GetMethods()
		if err != nil { // a service: what has no entry is refused
			for key := range required {
				if strings.HasPrefix(key, template) {
					return nil
				}
			}
			return fmt.Errorf("no right is set for the service %s: add its procedures to the table", template)
		}
		for _, m := range methods {
			if _, ok := required[m+" "+template]; !ok {
				return fmt.Errorf("no right is set for %s %s: add it to the table", m, template)
			}
		}
		return nil
	})
}

// Procedures returns the procedures that have a right, sorted.
func Procedures() (out []string) {
	for key := range required {
		if strings.HasPrefix(key, "/") {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// keyOf returns the key of a request in the table.
func keyOf(r *http.Request) string {
	route := mux.CurrentRoute(r)
	if _, err := route.GetMethods(); err != nil {
		return r.URL.Path
	}
	template, err := route.GetPathTemplate()
	if err != nil {
		return ""
	}
	return r.Method + " " + template
}

// requireRight refuses requests whose token does not have the right that they
// need, and adds the identity to the context of the others.
func (c RouterConfig) requireRight() mux.MiddlewareFunc {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			key, token := keyOf(r), wire.TokenOf(r.Header)
			id, err := c.identify(key, token)
			if err != nil {
				WriteError(w, err)
				return
			}
			ctx := rights.With(r.Context(), id)
			if token != "" && !c.Tokens.Open() && slices.Contains(lasting, key) {
				var release func()
				ctx, release = c.hold(ctx, w, token, id)
				defer release()
			}
			r = r.WithContext(ctx)
			c.audit(key, w, r, func(w http.ResponseWriter) { next.ServeHTTP(w, r) })
		})
	}
}

// identify returns the identity of a request, or why it is refused.
func (c RouterConfig) identify(key, token string) (rights.Identity, error) {
	need, ok := required[key]
	if !ok {
		need = rights.Operator
	}
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
	response := http.NewResponseController(w)
	var mu sync.Mutex // guards ended; held while the deadline is set, which waits for no peer
	ended := false
	h := c.Tokens.Hold(token, c.Address, id, func() {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			cancel(wire.Errorf(wire.CodeUnauthorized, "the token was revoked"))
			_ = response.SetReadDeadline(time.Unix(1, 0)) // fails only when the request has ended
		}
	})
	return ctx, func() {
		h.Release()
		mu.Lock()
		ended = true
		mu.Unlock()
		cancel(nil)
	}
}
