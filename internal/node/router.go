package node

import (
	"net"
	"net/http"
	"net/http/pprof"
	"slices"

	"connectrpc.com/connect"
	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/wire"
	"conclave/wire/rights"
	"conclave/wire/serve"
	"conclave/wire/v1/wirev1connect"
)

// Router returns the router with the paths and services that every role
// answers; the role adds its own. ready is what /readyz returns. announced is
// called with every leader that announces itself and whose term is not refused;
// it must not block.
func (b *Base) Router(ready func() (bool, []string), announced func(term uint64, leader conclave.NodeID, address string)) *mux.Router {
	r := b.PlainRouter(ready)
	if b.config.Pprof {
		r.PathPrefix(profilePath).Handler(profiles()).Methods(http.MethodGet)
	}
	if b.role != conclave.RoleMeta { // a meta answers for the whole cluster
		r.Handle("/v1/stopping", b.Stopping).Methods(http.MethodGet, http.MethodPost, http.MethodDelete)
	}
	service := metaclient.NewNodeService(b.config.Node, b.role, b.view, b.Fence, announced)
	path, h := wirev1connect.NewNodeServiceHandler(service, b.HandlerOptions())
	serve.Mount(r, path, h)
	return r
}

// PlainRouter returns a router that has only what any port answers: it checks tokens,
// names and bodies, and answers probes. It is for ports beside the node's own.
func (b *Base) PlainRouter(ready func() (bool, []string)) *mux.Router {
	return serve.NewRouter(b.routerConfig(ready))
}

func (b *Base) routerConfig(ready func() (bool, []string)) serve.RouterConfig {
	return serve.RouterConfig{
		Node: b.config.Node, Role: b.role, Version: b.config.Version, Tokens: b.tokens, Address: b.address, PublicReads: b.config.PublicReads, Audit: b.logAct, Hosts: b.hosts(),
		Metrics: b.Metrics.registry, Events: b.events, Ready: ready,
	}
}

// Identify returns the identity of a token that came on a connection without requests, ""
// for none, or why it does not have a right. Until release is called, end is called when
// the token is revoked; it must not block.
func (b *Base) Identify(need rights.Right, token string, end func()) (identity rights.Identity, release func(), err error) {
	identity, err = b.routerConfig(nil).Identify(need, token)
	if err != nil || token == "" {
		return identity, func() {}, err
	}
	return identity, b.tokens.Hold(token, b.address, identity, end).Release, nil
}

// logAct writes a line of the audit log.
func (b *Base) logAct(a serve.Act) {
	b.Log.Named("audit").Info("act", "identity", a.Identity.Name, "right", a.Identity.Right, "request", a.Request, "from", a.From, "status", a.Status)
}

// hosts returns the names under which HTTP/1.1 clients may address the node.
func (b *Base) hosts() []string {
	host, _, err := net.SplitHostPort(b.config.Advertise)
	if err != nil {
		return b.config.Hosts
	}
	return append(slices.Clone(b.config.Hosts), host)
}

// HandlerOptions returns the options of the services that other nodes call.
func (b *Base) HandlerOptions() connect.HandlerOption { return serve.HandlerOptions(b.interceptor) }

// profilePath is the prefix of the paths at which a node with Config.Pprof answers
// `go tool pprof`.
const profilePath = "/debug/pprof/"

// profiles returns the handler of profilePath. It answers only requests from a
// loopback address: a profile costs time, and shows what the process does. The
// command line, which may have a secret, is not shown.
func profiles() http.Handler {
	paths := http.NewServeMux()
	paths.HandleFunc(profilePath, pprof.Index)
	paths.HandleFunc(profilePath+"profile", pprof.Profile)
	paths.HandleFunc(profilePath+"trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if ip := net.ParseIP(host); err != nil || !ip.IsLoopback() {
			serve.WriteError(w, wire.Errorf(wire.CodeForbidden, "profiles are for requests from this machine, not from %s", r.RemoteAddr))
			return
		}
		paths.ServeHTTP(w, r)
	})
}

// Metrics is what a node exports at /metrics. Most values are read when they
// are collected.
type Metrics struct{ registry *prometheus.Registry }

func newMetrics() *Metrics { return &Metrics{prometheus.NewRegistry()} }

// Add exports collectors that the role updates itself.
func (m *Metrics) Add(all ...prometheus.Collector) { m.registry.MustRegister(all...) }

// Gauge exports a value that is read when it is collected.
func (m *Metrics) Gauge(name, help string, read func() float64) {
	m.LabelledGauge(name, help, nil, read)
}

// LabelledGauge exports one of several values with the same name.
func (m *Metrics) LabelledGauge(name, help string, labels prometheus.Labels, read func() float64) {
	m.Add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, read))
}

// Counter exports a count that is read when it is collected.
func (m *Metrics) Counter(name, help string, read func() uint64) {
	m.Add(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(read()) }))
}
