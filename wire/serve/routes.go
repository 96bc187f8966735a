package serve

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"conclave"
	"conclave/wire"
	"conclave/wire/rights"
	"conclave/wire/v1/wirev1connect"
)

// route is what there is to know of one path and method, or of one procedure.
type route struct {
	right rights.Right
	roles []conclave.Role // of a procedure of nodes: those that call it. Over TLS a caller must have the certificate of one of them
	lasts bool            // the request lasts: it ends when its token is revoked
	acts  bool            // it is an act for the audit log, as whatever needs the right of an operator: of the others there are thousands each second
	small bool            // its body has two numbers at most; that of a request that needs no right, too
}

const meta, session, data = conclave.RoleMeta, conclave.RoleSession, conclave.RoleData

var anyNode = []conclave.Role{meta, session, data}

// routes are all requests that a node answers: "METHOD path" as the router has it, or
// the procedure of a Connect service. A node whose router has a path without an entry
// does not start (CheckRoutes); a procedure without one needs the right of an operator,
// so that nodes are refused.
//
// What needs no token carries no values and changes nothing: probes, metrics, the
// version, and the identity of a node, which a leader asks for at an address that
// the node itself has named. A node leaves and returns by itself (Drain, Restore);
// what an operator does to a node is an entry in the blacklist.
var routes = map[string]route{
	"GET /healthz": {right: rights.Open},
	"GET /readyz":  {right: rights.Open},
	"GET /version": {right: rights.Open},
	"GET /metrics": {right: rights.Open},
	"GET /leaderz": {right: rights.Open},

	"GET /v1/openapi.json": {right: rights.Open},

	// Clients of SOFARegistry ask for the addresses of sessions, without a token.
	"GET /api/servers/query":           {right: rights.Open},
	"GET /api/servers/queryWithWeight": {right: rights.Open},
	"GET /api/servers/query.json":      {right: rights.Open},

	wirev1connect.NodeServiceHelloProcedure: {right: rights.Open, roles: anyNode},

	"GET /v1/events":      {right: rights.Read, lasts: true},
	"GET /v1/stopping":    {right: rights.Read},
	"GET /v1/leader":      {right: rights.Read},
	"GET /v1/elections":   {right: rights.Read},
	"GET /v1/slots":       {right: rights.Read},
	"GET /v1/nodes":       {right: rights.Read},
	"GET /v1/blacklist":   {right: rights.Read},
	"GET /v1/switches":    {right: rights.Read},
	"GET /v1/config":      {right: rights.Read},
	"GET /v1/datums":      {right: rights.Read},
	"GET /v1/clients":     {right: rights.Read},
	"GET /v1/publishers":  {right: rights.Read},
	"GET /v1/subscribers": {right: rights.Read},

	"PUT /v1/services/{dataId}/registrations/{id}":        {right: rights.Publish},
	"DELETE /v1/services/{dataId}/registrations/{id}":     {right: rights.Publish},
	"POST /v1/services/{dataId}/registrations/{id}/renew": {right: rights.Publish, small: true},
	"GET /v1/services/{dataId}/events":                    {right: rights.Read, lasts: true},
	"GET /v1/services":                                    {right: rights.Read},
	"GET /v1/services/{dataId}":                           {right: rights.Read, lasts: true}, // it may wait for a version

	// The listener for clients of Consul. Its lists may wait for a change.
	"GET /v1/agent/self":                                        {right: rights.Read},
	"GET /v1/agent/services":                                    {right: rights.Read},
	"GET /v1/agent/checks":                                      {right: rights.Read},
	"GET /v1/health/service/{name}":                             {right: rights.Read, lasts: true},
	"GET /v1/health/state/{name}":                               {right: rights.Read, lasts: true},
	"GET /v1/catalog/services":                                  {right: rights.Read, lasts: true},
	"GET /v1/catalog/service/{name}":                            {right: rights.Read, lasts: true},
	"GET /v1/catalog/nodes":                                     {right: rights.Read, lasts: true},
	"GET /v1/catalog/datacenters":                               {right: rights.Read},
	"GET /v1/status/leader":                                     {right: rights.Read},
	"GET /v1/status/peers":                                      {right: rights.Read},
	"PUT /v1/agent/service/register":                            {right: rights.Publish, small: true},
	"PUT /v1/agent/service/deregister/{name:.+}":                {right: rights.Publish, small: true},
	"PUT /v1/agent/service/maintenance/{name:.+}":               {right: rights.Publish, small: true},
	"PUT /v1/agent/check/{act:pass|warn|fail|update}/{name:.+}": {right: rights.Publish, small: true},

	wirev1connect.ClientServiceConnectProcedure: {right: rights.Read, lasts: true}, // registering on it needs publish: see package session
	wirev1connect.ClientServicePingProcedure:    {right: rights.Read, small: true},

	"PUT /v1/observers/{name}":    {right: rights.Node, acts: true}, // a meta asks the leader
	"DELETE /v1/observers/{name}": {right: rights.Node, acts: true},

	wirev1connect.NodeServiceAnnounceProcedure:   {right: rights.Node, roles: []conclave.Role{meta}, acts: true},
	wirev1connect.NodeServiceFetchStateProcedure: {right: rights.Node, roles: anyNode},
	wirev1connect.MetaServiceJoinProcedure:       {right: rights.Node, roles: anyNode, acts: true, lasts: true},
	wirev1connect.MetaServiceLeaveProcedure:      {right: rights.Node, roles: anyNode, acts: true},
	wirev1connect.MetaServiceDrainProcedure:      {right: rights.Node, roles: anyNode, acts: true},
	wirev1connect.MetaServiceRestoreProcedure:    {right: rights.Node, roles: anyNode, acts: true},
	wirev1connect.MetaServiceGetLeaderProcedure:  {right: rights.Node, roles: anyNode},
	wirev1connect.MetaServiceWitnessProcedure:    {right: rights.Node, roles: []conclave.Role{meta}, acts: true},
	wirev1connect.MetaServiceWakeProcedure:       {right: rights.Node, roles: []conclave.Role{meta}, acts: true},
	wirev1connect.DataServiceWriteProcedure:      {right: rights.Node, roles: []conclave.Role{session}},
	wirev1connect.DataServiceWritesProcedure:     {right: rights.Node, roles: []conclave.Role{session}, lasts: true},
	wirev1connect.DataServiceFetchProcedure:      {right: rights.Node, roles: []conclave.Role{session}},
	wirev1connect.DataServiceWatchProcedure:      {right: rights.Node, roles: []conclave.Role{session}, lasts: true},
	wirev1connect.DataServiceReplicateProcedure:  {right: rights.Node, roles: []conclave.Role{data}, lasts: true},
	wirev1connect.DataServiceCollectProcedure:    {right: rights.Node, roles: []conclave.Role{data}, lasts: true},
	wirev1connect.DataServiceFinishProcedure:     {right: rights.Node, roles: []conclave.Role{data}, acts: true},
	wirev1connect.SessionServiceDiffProcedure:    {right: rights.Node, roles: []conclave.Role{data}},

	"POST /v1/stopping":           {right: rights.Operator},
	"DELETE /v1/stopping":         {right: rights.Operator},
	"PUT /v1/config/{id}":         {right: rights.Operator},
	"DELETE /v1/config/{id}":      {right: rights.Operator},
	"PUT /v1/blacklist/{name}":    {right: rights.Operator},
	"DELETE /v1/blacklist/{name}": {right: rights.Operator},
	"PUT /v1/switches/{key}":      {right: rights.Operator},
	"DELETE /v1/protection":       {right: rights.Operator},
	"POST /v1/leader/resign":      {right: rights.Operator},
	"GET /debug/pprof/":           {right: rights.Operator},

	"POST /v1/election/{act:quit|join|force-refresh}": {right: rights.Operator},
}

// CheckRoutes returns an error that names the first path of a node's handler that
// is missing in the table.
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
		if err != nil { // a service: its procedures are not known here
			for key := range routes {
				if strings.HasPrefix(key, template) {
					return nil
				}
			}
			return fmt.Errorf("no right is set for the service %s: add its procedures to the table", template)
		}
		for _, m := range methods {
			if _, ok := routes[methodOf(m)+" "+template]; !ok {
				return fmt.Errorf("no right is set for %s %s: add it to the table", m, template)
			}
		}
		return nil
	})
}

// Procedures returns the procedures that have a right, sorted.
func Procedures() (out []string) {
	for key := range routes {
		if strings.HasPrefix(key, "/") {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// Paths returns the requests below a path that have a right, "METHOD path", sorted.
func Paths(below string) (out []string) {
	for key := range routes {
		if _, path, ok := strings.Cut(key, " "); ok && strings.HasPrefix(path, below) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// routeOf returns what a request needs: the right of an operator if it is not in the
// table.
func routeOf(r *http.Request) route {
	if x, ok := routes[keyOf(r)]; ok {
		return x
	}
	return route{right: rights.Operator}
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
	return methodOf(r.Method) + " " + template
}

// methodOf returns the method under which a request is in the table: HEAD is a GET whose
// answer has no body.
func methodOf(method string) string {
	if method == http.MethodHead {
		return http.MethodGet
	}
	return method
}

// Segment returns a part of the path of a request, by its name in the route of a router
// that uses encoded paths, as it was before it was escaped.
func Segment(r *http.Request, name string) (string, error) {
	text, err := url.PathUnescape(mux.Vars(r)[name])
	if err != nil {
		return "", wire.Errorf(wire.CodeBadRequest, "%s in the path: %v", name, err)
	}
	return text, nil
}
