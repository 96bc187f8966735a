package consul

import (
	"cmp"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/gorilla/mux"

	"conclave/wire"
	"conclave/wire/admit"
	"conclave/wire/serve"
)

// Server answers the requests.
type Server struct {
	Config
	agents  *agents
	lists   *lists
	catalog *catalog
}

// New returns a server.
func New(c Config) *Server {
	l := &lists{Config: c, known: map[string]List{}}
	a := &agents{Config: c, lists: l, turns: admit.New(0, 1), of: map[string]map[string]*entry{}}
	return &Server{c, a, l, &catalog{Config: c, turns: admit.New(0, 1), last: &snapshot{}}}
}

// DNS returns a handler of questions. Anyone who can send one may read.
func (s *Server) DNS() *DNS { return &DNS{s.Config, s.lists, admit.New(dnsAtOnce, dnsEach)} }

// Add adds the paths to a router, which has checked the rights before.
func (s *Server) Add(r *mux.Router) {
	r.UseEncodedPath()
	for route, answer := range map[string]handler{
		"GET /v1/agent/self":             simple(s.self),
		"GET /v1/agent/services":         s.agents.showing(s.agents.addService),
		"GET /v1/agent/checks":           s.agents.showing(s.agents.addChecks),
		"GET /v1/health/service/{name}":  s.lists.list(Instance.inHealth),
		"GET /v1/health/state/{name}":    s.catalog.getState,
		"GET /v1/catalog/services":       s.catalog.getServices,
		"GET /v1/catalog/service/{name}": s.lists.list(Instance.inCatalog),
		"GET /v1/catalog/nodes":          s.catalog.getNodes,
		"GET /v1/catalog/datacenters":    simple(func() any { return []string{s.DataCenter} }),
		"GET /v1/status/leader":          simple(func() any { return s.Leader() }),
		"GET /v1/status/peers":           simple(func() any { return append([]string{}, s.Metas()...) }),

		"PUT /v1/agent/service/register":                            s.agents.register,
		"PUT /v1/agent/service/deregister/{name:.+}":                s.agents.deregister,
		"PUT /v1/agent/service/maintenance/{name:.+}":               s.agents.maintain,
		"PUT /v1/agent/check/{act:pass|warn|fail|update}/{name:.+}": s.agents.check,
	} {
		method, path, _ := strings.Cut(route, " ")
		r.Handle(path, s.answering(answer)).Methods(method)
	}
	r.NotFoundHandler = s.Answering(func(_ http.ResponseWriter, r *http.Request) error {
		return wire.Errorf(wire.CodeNotFound, "%.128s is not in the part of Consul's API that Conclave has: docs/consul.md lists it", r.URL.Path)
	})
}

// Handler returns next for clients of Consul, which send their token in headers or a
// parameter of their own, and take the status 403 for any token that is refused.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := r.Header.Get("X-Consul-Token")
		if token == "" && r.Header.Get("Authorization") == "" {
			token = r.URL.Query().Get("token")
		}
		wire.SetToken(r.Header, token)
		next.ServeHTTP(serve.StatusWriter{ResponseWriter: w, Of: func(status int) int {
			if status == http.StatusUnauthorized {
				return http.StatusForbidden
			}
			return status
		}}, r)
	})
}

// handler answers a request: with a body, nil for none, and an index, 0 for none.
type handler func(*http.Request, serve.Caller, query) (body any, index uint64, err error)

// answering sends what answer returns.
func (s *Server) answering(answer handler) http.Handler {
	return s.Answering(func(w http.ResponseWriter, r *http.Request) error {
		q, err := queryOf(r, s.DataCenter)
		if err != nil {
			return err
		}
		body, index, err := answer(r, serve.CallerOf(r), q)
		if err != nil {
			return err
		}
		var text []byte
		if body != nil {
			text, _ = json.Marshal(body) // of strings and numbers
		}
		turn, err := s.Sending(w, r, len(text))
		if err != nil {
			return err
		}
		defer turn.Leave()
		if index > 0 {
			w.Header().Set("X-Consul-Index", strconv.FormatUint(index, 10))
			w.Header().Set("X-Consul-KnownLeader", strconv.FormatBool(s.Leader() != ""))
			w.Header().Set("X-Consul-LastContact", "0")
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // an error means that the client has disconnected
		return nil
	})
}

// self shows this session as an agent.
func (s *Server) self() any {
	host, port, _ := net.SplitHostPort(s.Address()) // "" before this session listens
	return object{
		"Config": object{"Datacenter": s.DataCenter, "NodeName": s.Node.Name, "NodeID": s.Node.Incarnation, "Server": true, "Revision": "", "Version": "conclave " + s.Version},
		"Member": object{"Name": s.Node.Name, "Addr": host, "Port": json.Number(cmp.Or(port, "0")), "Status": 1, "Tags": object{"role": "conclave-session", "dc": s.DataCenter}},
		"Meta":   object{},
	}
}

// simple returns a handler of what needs no request.
func simple(value func() any) handler {
	return func(*http.Request, serve.Caller, query) (any, uint64, error) { return value(), 0, nil }
}
