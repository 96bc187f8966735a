package consul

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gorilla/mux"

	"conclave/internal/sleep"
	"conclave/wire"
	"conclave/wire/admit"
	"conclave/wire/serve"
)

// agents are the services that programs have registered at this session, by agent. An
// entry is an index of registrations and what may register one again; the lease of a
// registration is the session's.
//
//	          an update within the time to live
//	             +--------+
//	             v        |
//	(none) --> kept ------+---- deregistered --------------------> (none)
//	             |   ^                                               ^
//	             |   | an update registers it again                  |
//	             v   |                                               |
//	           lapsed: not in any list, critical for its agent ------+ after forget
type agents struct {
	Config
	lists *lists
	turns *admit.Budget // one act at a time on each service: each goes on from what the one before has left

	mu sync.Mutex                   // guards the rest
	of map[string]map[string]*entry // by Caller.Client and id
}

// turn waits until it is the turn of an act on a service.
func (a *agents) turn(ctx context.Context, c serve.Caller, id string) (*admit.Turn, error) {
	return a.turns.Wait(ctx, c.Client()+"\x00"+id, 1)
}

// entry is a service of an agent. It does not change.
type entry struct {
	Instance
	caller  serve.Caller
	ttl     time.Duration
	forget  time.Duration // after the end of its time to live
	bytes   int           // that it takes, about
	version int64
	until   time.Time // the end of its time to live
}

// Limits of what an agent registers.
const (
	ttlLeast   = time.Second
	ttlMost    = 5 * time.Minute
	forgetTime = 10 * time.Minute // unless the service asks for it, or more than lapsedMost has lapsed
	lapsedMost = 64 << 20         // bytes of all agents
	nameMost   = 255              // bytes of an id
	outputMost = 4 << 10          // bytes of what a check puts out, as in Consul
)

// registration is the body of a request that registers.
type registration struct {
	ID, Name, Address                                      string
	Port                                                   int
	Tags                                                   []string
	Meta                                                   map[string]string
	TaggedAddresses                                        map[string]address
	Weights                                                *weights
	Check                                                  *checkIn
	Checks                                                 []checkIn
	Kind, Proxy, Connect, Namespace, Partition, SocketPath absent
}

// checkIn is a check in it. The fields that must be absent are of other kinds.
type checkIn struct {
	CheckID, Name, TTL, Status, DeregisterCriticalServiceAfter                                                    string
	HTTP, TCP, UDP, GRPC, H2PING, Script, Args, ScriptArgs, DockerContainerID, AliasNode, AliasService, OSService absent
}

// absent is a field of what is not here. Some clients send it empty.
type absent struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (absent) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "null", "false", `""`, "[]", "{}":
		return nil
	}
	return fmt.Errorf("%.60s is in a field that is not supported: there is no service mesh (Kind, Proxy, Connect), there are no namespaces, partitions and "+
		"sockets (Namespace, Partition, SocketPath), and only TTL checks, since this cluster executes none: update one by PUT /v1/agent/check/pass/ID", text)
}

// decode reads the body of a request, whose size the router has limited.
func decode(r *http.Request, into any) error {
	err := json.NewDecoder(r.Body).Decode(into)
	if err != nil && wire.CodeOf(err) == "" {
		return wire.Errorf(wire.CodeBadRequest, "request decode failed: %v", err)
	}
	return err
}

// entry returns the entry that a registration asks for, or why it is refused.
func (in registration) entry(c serve.Caller) (*entry, error) {
	refuse := func(format string, args ...any) (*entry, error) {
		return nil, wire.Errorf(wire.CodeBadRequest, format, args...)
	}
	if in.Check != nil {
		in.Checks = append(in.Checks, *in.Check)
	}
	host, id := cmp.Or(in.Address, c.Host()), cmp.Or(in.ID, in.Name)
	switch err := checkName(in.Name); {
	case err != nil:
		return nil, err
	case len(id) > nameMost || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl):
		return refuse("service id %.20q: want 1 to %d bytes of UTF-8 without control characters", id, nameMost)
	case in.Port < 0 || in.Port > 65535:
		return refuse("port %d: want 0 to 65535", in.Port)
	case net.ParseIP(host) == nil && (len(host) > nameMost || strings.ContainsAny(host, " :/\\?#@[]") || strings.ContainsFunc(host, unicode.IsControl)):
		return refuse("address %.60q: want an IP address or the name of a host", host)
	case len(in.Checks) != 1:
		return refuse(`%d checks: want one with a TTL, such as "Check": {"TTL": "15s"}: a registration is a lease here, which the check renews`, len(in.Checks))
	}
	check := in.Checks[0]
	ttl, err := time.ParseDuration(check.TTL)
	if err != nil || ttl < ttlLeast || ttl > ttlMost {
		return refuse("TTL %.20q: want %s to %s", check.TTL, ttlLeast, ttlMost)
	}
	forget, err := time.ParseDuration(cmp.Or(check.DeregisterCriticalServiceAfter, forgetTime.String()))
	if err != nil || forget < 0 {
		return refuse("DeregisterCriticalServiceAfter %.20q: want a duration", check.DeregisterCriticalServiceAfter)
	}
	status, err := statusOf(cmp.Or(check.Status, critical))
	if err != nil {
		return nil, err
	}
	return &entry{ttl: ttl, forget: min(forget, forgetTime), Instance: Instance{
		Service: in.Name, Host: host, Port: in.Port, ID: id, Tags: in.Tags, Meta: in.Meta, Addresses: in.TaggedAddresses, Weights: in.Weights,
		CheckID: check.CheckID, CheckName: check.Name, Status: status,
	}}, nil
}

// register registers a service. Until its first update it is critical, unless the request
// has another status, or it is registered again: here, or after its session has died.
func (a *agents) register(r *http.Request, c serve.Caller, _ query) (any, uint64, error) {
	var in registration
	if err := decode(r, &in); err != nil {
		return nil, 0, err
	}
	e, err := in.entry(c)
	if err != nil {
		return nil, 0, err
	}
	turn, err := a.turn(r.Context(), c, e.ID)
	if err != nil {
		return nil, 0, err
	}
	defer turn.Leave()
	old, before := "", []Instance{}
	for _, x := range a.all(c) {
		switch {
		case x.ID == e.ID:
			if old = x.Service; time.Now().Before(x.until) {
				before = append(before, x.Instance)
			}
		case x.checkID() == e.checkID():
			return nil, 0, wire.Errorf(wire.CodeBadRequest, "service %.128q of this agent has the check ID %.128q: give the check another one", x.ID, e.checkID())
		}
	}
	if old == "" {
		if before, err = a.lists.same(r.Context(), c, e.Instance); err != nil {
			return nil, 0, err
		}
	}
	for _, x := range before {
		e.Status, e.Output, e.Maintenance = x.Status, x.Output, x.Maintenance
	}
	if err = a.put(r.Context(), c, e); !e.until.IsZero() && old != "" && old != e.Service { // it has moved, also if its client did not wait
		limited, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), a.ReadWait)
		defer cancel()
		_, gone := a.Cluster.Deregister(limited, c, old, e.registrationID())
		err = cmp.Or(err, gone)
	}
	return nil, 0, err
}

// isTaken reports whether the session has what it was asked for, also if the client did not
// wait until the data nodes have it.
func isTaken(ctx context.Context, version int64, err error) bool {
	return err == nil || version != 0 && ctx.Err() != nil
}

// put registers the service of an entry, or renews it, and keeps the entry, also if the
// session has taken it and its client did not wait for the answer: otherwise the version
// whose lease is prolonged would be another one than the session has.
func (a *agents) put(ctx context.Context, c serve.Caller, e *entry) (err error) {
	value := e.Value()
	e.caller, e.bytes = c, 1024+2*len(value)
	e.version, err = a.Cluster.Register(ctx, c, e.Service, e.registrationID(), value, min(e.ttl, a.Lease))
	if !isTaken(ctx, e.version, err) {
		return err
	}
	e.until = time.Now().Add(e.ttl)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[c.Client()] == nil {
		a.of[c.Client()] = map[string]*entry{}
	}
	a.of[c.Client()][e.ID] = e
	return err
}

// registrationID is unique among all that the identity registers under the service.
func (e *entry) registrationID() string { return "consul/" + e.caller.Host() + "/" + e.ID }

// all returns the services of an agent.
func (a *agents) all(c serve.Caller) []*entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.of[c.Client()]))
}

// act calls do with a copy of the service of an agent that has the id in the path, or whose
// check has it, once it is its turn.
func (a *agents) act(r *http.Request, c serve.Caller, what string, idOf func(*entry) string, do func(entry) error) error {
	id, err := serve.Segment(r, "id")
	if err != nil {
		return err
	}
	find := func() *entry {
		a.mu.Lock()
		defer a.mu.Unlock()
		all := a.of[c.Client()]
		if e := all[strings.TrimPrefix(id, "service:")]; e != nil && idOf(e) == id { // the usual case, among thousands
			return e
		}
		for _, e := range all {
			if idOf(e) == id {
				return e
			}
		}
		return nil
	}
	if e := find(); e != nil {
		turn, err := a.turn(r.Context(), c, e.ID)
		if err != nil {
			return err
		}
		defer turn.Leave()
		if e = find(); e != nil {
			return do(*e)
		}
	}
	return wire.Errorf(wire.CodeNotFound, "Unknown %s ID %.128q. Ensure that the %s ID is passed, not the %s name. This session has no such %s of this token and address: register it here", what, id, what, what, what)
}

func (a *agents) deregister(r *http.Request, c serve.Caller, _ query) (any, uint64, error) {
	return nil, 0, a.act(r, c, "service", serviceID, func(e entry) error {
		version, err := a.Cluster.Deregister(r.Context(), c, e.Service, e.registrationID())
		if isTaken(r.Context(), version, err) {
			a.mu.Lock()
			defer a.mu.Unlock()
			delete(a.of[c.Client()], e.ID)
		}
		return err
	})
}

func serviceID(e *entry) string { return e.ID }

// check updates the check in the path: .../pass/ID?note=, warn, fail, or update/ID with
// a body.
func (a *agents) check(r *http.Request, c serve.Caller, _ query) (any, uint64, error) {
	in := struct{ Status, Output string }{mux.Vars(r)["act"], r.URL.Query().Get("note")}
	if in.Status == "update" {
		in.Status = ""
		if err := decode(r, &in); err != nil {
			return nil, 0, err
		}
	}
	status, err := statusOf(in.Status)
	if err != nil {
		return nil, 0, err
	}
	return nil, 0, a.act(r, c, "check", func(e *entry) string { return e.checkID() }, func(e entry) error {
		if status != e.Status { // another output alone makes no version
			e.Status, e.Output = status, cut(in.Output)
		}
		if status == passing {
			e.Output = ""
		}
		return a.put(r.Context(), c, &e)
	})
}

// cut returns as much of an output as is kept.
func cut(output string) string {
	return strings.ToValidUTF8(output[:min(len(output), outputMost)], "")
}

// maintain begins or ends the maintenance of a service.
func (a *agents) maintain(r *http.Request, c serve.Caller, _ query) (any, uint64, error) {
	enable, reason := r.URL.Query().Get("enable"), ""
	switch enable {
	case "true":
		reason = cmp.Or(cut(r.URL.Query().Get("reason")), "Maintenance mode is enabled for this service, but no reason was provided. This is a default message.")
	case "false":
	default:
		return nil, 0, wire.Errorf(wire.CodeBadRequest, "enable %.20q: want true or false", enable)
	}
	return nil, 0, a.act(r, c, "service", serviceID, func(e entry) error {
		e.Maintenance = reason
		return a.put(r.Context(), c, &e)
	})
}

func (a *agents) getServices(_ *http.Request, c serve.Caller, _ query) (any, uint64, error) {
	out := object{}
	for _, e := range a.all(c) {
		out[e.ID] = e.service(a.DataCenter, uint64(e.version))
	}
	return out, 0, nil
}

func (a *agents) getChecks(_ *http.Request, c serve.Caller, _ query) (any, uint64, error) {
	out := object{}
	for _, e := range a.all(c) {
		in := e.Instance
		if !time.Now().Before(e.until) {
			in.Status, in.Output = critical, "TTL expired"
		}
		for _, check := range in.checks(uint64(e.version)) {
			out[check["CheckID"].(string)] = check
		}
	}
	return out, 0, nil
}

// run prolongs the leases of services whose time to live is longer than a lease, so that
// they end with it, and forgets those that have lapsed for long.
func (a *agents) run(ctx context.Context) {
	for sleep.For(ctx, a.RenewEvery) == nil {
		for _, e := range a.due(time.Now()) {
			a.Cluster.Prolong(e.caller, e.Service, e.registrationID(), e.version, e.until)
		}
	}
}

// due forgets what is to be forgotten, and returns the services whose leases are to be
// prolonged.
func (a *agents) due(now time.Time) (out []*entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	lapsed := 0
	for of, all := range a.of {
		maps.DeleteFunc(all, func(_ string, e *entry) bool {
			left := e.until.Sub(now)
			if left > 0 {
				if e.ttl > a.Lease {
					out = append(out, e)
				}
				return false
			}
			lapsed += e.bytes
			return left < -e.forget || lapsed > lapsedMost
		})
		if len(all) == 0 {
			delete(a.of, of)
		}
	}
	return out
}
