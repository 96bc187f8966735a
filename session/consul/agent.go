package consul

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gorilla/mux"

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
	turns *admit.Budget // one act at a time on each service

	mu     sync.Mutex                   // guards the rest
	of     map[string]map[string]*entry // by Caller.Client and id
	looked time.Time                    // when forget has looked at all of them
}

// entry is a service of an agent. It does not change.
type entry struct {
	Instance
	ttl    time.Duration
	forget time.Duration // after the end of its time to live
	bytes  int           // that it takes, about
	until  time.Time     // the end of its time to live
}

// Limits of what an agent registers.
const (
	ttlLeast    = time.Second
	ttlMost     = 5 * time.Minute
	forgetEvery = 3 * time.Second
	forgetTime  = 10 * time.Minute // unless the service asks for it, or more than lapsedMost has lapsed
	lapsedMost  = 64 << 20         // bytes of all agents
	outputMost  = 4 << 10          // bytes of what a check puts out, as in Consul
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
	if in.Check != nil {
		in.Checks = append(in.Checks, *in.Check)
	}
	if len(in.Checks) != 1 {
		return nil, wire.Errorf(wire.CodeBadRequest, `%d checks: want one with a TTL, such as "Check": {"TTL": "15s"}: a registration is a lease here, which the check renews`, len(in.Checks))
	}
	check := in.Checks[0]
	ttl, ttlErr := time.ParseDuration(check.TTL)
	forget, forgetErr := time.ParseDuration(cmp.Or(check.DeregisterCriticalServiceAfter, forgetTime.String()))
	status, statusErr := statusOf(cmp.Or(check.Status, critical))
	e := &entry{ttl: ttl, forget: min(forget, forgetTime), Instance: Instance{
		Service: in.Name, Host: cmp.Or(in.Address, c.Host()), Port: in.Port, ID: cmp.Or(in.ID, in.Name), Tags: in.Tags, Meta: in.Meta, Addresses: in.TaggedAddresses,
		Weights: in.Weights, CheckID: check.CheckID, CheckName: check.Name, Status: status,
	}}
	err := cmp.Or(checkName(in.Name), statusErr)
	switch {
	case err != nil:
	case len(e.ID) > nameMost || !utf8.ValidString(e.ID) || strings.ContainsFunc(e.ID, unicode.IsControl):
		err = wire.Errorf(wire.CodeBadRequest, "service id %.20q: want 1 to %d bytes of UTF-8 without control characters", e.ID, nameMost)
	case !isHost(e.Host) || e.Port < 0 || e.Port > math.MaxUint16:
		err = wire.Errorf(wire.CodeBadRequest, "address %.60q, port %d: want an IP address or the name of a host, and 0 to 65535", e.Host, e.Port)
	case ttlErr != nil || ttl < ttlLeast || ttl > ttlMost:
		err = wire.Errorf(wire.CodeBadRequest, "TTL %.20q: want %s to %s", check.TTL, ttlLeast, ttlMost)
	case forgetErr != nil || forget < 0:
		err = wire.Errorf(wire.CodeBadRequest, "DeregisterCriticalServiceAfter %.20q: want a duration", check.DeregisterCriticalServiceAfter)
	}
	return e, err
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
	return nil, 0, a.act(r.Context(), c, "service", e.ID, func(old *entry) (err error) {
		if other := a.find(c, "check", e.checkID()); other != nil && other.ID != e.ID {
			return wire.Errorf(wire.CodeBadRequest, "service %.128q of this agent has the check ID %.128q: give the check another one", other.ID, e.checkID())
		}
		var before []Instance
		switch {
		case old == nil:
			before, _, err = a.lists.instances(r.Context(), c, query{name: e.Service, at: e.address()})
		case time.Now().Before(old.until):
			before = []Instance{old.Instance}
		}
		for _, x := range before {
			if x.ID == e.ID {
				e.Status, e.Output, e.Maintenance = x.Status, x.Output, x.Maintenance
			}
		}
		if err != nil {
			return err
		}
		return a.put(r.Context(), c, old, e)
	})
}

// act calls do with the service of an agent that has an id, or nil, when it is its turn: each
// act on a service goes on from what the one before has left.
func (a *agents) act(ctx context.Context, c serve.Caller, kind, id string, do func(old *entry) error) error {
	service := id
	if e := a.find(c, kind, id); e != nil {
		service = e.ID
	}
	turn, err := a.turns.Wait(ctx, c.Client()+"\x00"+service, 1)
	if err != nil {
		return err
	}
	defer turn.Leave()
	return do(a.find(c, kind, id))
}

// put registers the service of an entry in the place of an older one, or renews it, and keeps
// the entry. Without a time to live it is withdrawn, as what the older one has under another
// name is, also if its client does not wait.
func (a *agents) put(ctx context.Context, c serve.Caller, old, e *entry) error {
	id, value := "consul/"+c.Host()+"/"+e.ID, e.Value() // unique among all that the identity registers under the service
	err := a.Cluster.Put(ctx, c, e.Service, id, value, e.ttl)
	if err != nil {
		return err
	}
	e.bytes, e.until = 1024+2*len(value), time.Now().Add(e.ttl)
	if old != nil && old.Service != e.Service {
		err = a.Cluster.Put(context.WithoutCancel(ctx), c, old.Service, id, "", 0)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[c.Client()] == nil {
		a.of[c.Client()] = map[string]*entry{}
	}
	if a.of[c.Client()][e.ID] = e; e.ttl == 0 {
		delete(a.of[c.Client()], e.ID)
	}
	return err
}

// find returns the service of an agent that has an id, or whose check has it, as the kind
// of the id says, or nil.
func (a *agents) find(c serve.Caller, kind, id string) *entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(time.Now())
	all := a.of[c.Client()]
	if kind == "service" {
		return all[id]
	}
	if e := all[strings.TrimPrefix(id, "service:")]; e != nil && e.checkID() == id { // the usual case, among thousands
		return e
	}
	for _, e := range all {
		if e.CheckID == id {
			return e
		}
	}
	return nil
}

// forget forgets the services that have lapsed for long, of all agents, now and then. mu is
// held.
func (a *agents) forget(now time.Time) {
	if now.Sub(a.looked) < forgetEvery {
		return
	}
	a.looked = now
	lapsed := 0
	maps.DeleteFunc(a.of, func(_ string, all map[string]*entry) bool {
		maps.DeleteFunc(all, func(_ string, e *entry) bool {
			left := e.until.Sub(now)
			if left > 0 {
				return false
			}
			lapsed += e.bytes
			return left < -e.forget || lapsed > lapsedMost
		})
		return len(all) == 0
	})
}

// change changes the service of an agent that has the id in the path, or whose check has it,
// and renews it.
func (a *agents) change(r *http.Request, c serve.Caller, kind string, q query, change func(*entry)) (any, uint64, error) {
	return nil, 0, a.act(r.Context(), c, kind, q.name, func(old *entry) error {
		if old == nil {
			return wire.Errorf(wire.CodeNotFound, "Unknown %s ID %.128q. Ensure that the %s ID is passed, not the %s name. This session has no such %s of this token and address: register it here", kind, q.name, kind, kind, kind)
		}
		next := *old
		change(&next)
		return a.put(r.Context(), c, old, &next)
	})
}

func (a *agents) deregister(r *http.Request, c serve.Caller, q query) (any, uint64, error) {
	return a.change(r, c, "service", q, func(e *entry) { e.ttl = 0 })
}

// check updates the check in the path: .../pass/ID?note=, warn, fail, or update/ID with
// a body.
func (a *agents) check(r *http.Request, c serve.Caller, q query) (any, uint64, error) {
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
	return a.change(r, c, "check", q, func(e *entry) {
		if status != e.Status { // another output alone makes no version
			e.Status, e.Output = status, cut(in.Output)
		}
		if status == passing {
			e.Output = ""
		}
	})
}

// cut returns as much of an output as is kept.
func cut(output string) string {
	return strings.ToValidUTF8(output[:min(len(output), outputMost)], "")
}

// maintain begins or ends the maintenance of a service.
func (a *agents) maintain(r *http.Request, c serve.Caller, q query) (any, uint64, error) {
	v, reason := r.URL.Query(), ""
	enable, err := strconv.ParseBool(v.Get("enable"))
	if err != nil {
		return nil, 0, wire.Errorf(wire.CodeBadRequest, "enable %.20q: want true or false", v.Get("enable"))
	}
	if enable {
		reason = cmp.Or(cut(v.Get("reason")), "Maintenance mode is enabled for this service, but no reason was provided. This is a default message.")
	}
	return a.change(r, c, "service", q, func(e *entry) { e.Maintenance = reason })
}

// showing returns a handler that shows the services of an agent. Those that have lapsed are
// critical.
func (a *agents) showing(add func(out object, in Instance)) handler {
	return func(_ *http.Request, c serve.Caller, _ query) (any, uint64, error) {
		now, out := time.Now(), object{}
		a.mu.Lock()
		a.forget(now)
		all := slices.Collect(maps.Values(a.of[c.Client()]))
		a.mu.Unlock()
		for _, e := range all {
			in := e.Instance
			if !now.Before(e.until) {
				in.Status, in.Output = critical, "TTL expired"
			}
			add(out, in)
		}
		return out, 0, nil
	}
}

func (a *agents) addService(out object, in Instance) { out[in.ID] = in.service(a.DataCenter, 0) }

func (a *agents) addChecks(out object, in Instance) {
	for _, check := range in.checks(0) {
		out[check["CheckID"].(string)] = check
	}
}
