package consul

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
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
	"golang.org/x/sync/semaphore"

	"conclave/wire"
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

	// The acts on one service follow one another, over all that they wait for: each
	// goes on from what the one before has left. Services share the turns by hash.
	turns [256]*semaphore.Weighted

	mu sync.Mutex // guards the rest
	of map[agent]map[string]*entry
}

func newAgents(c Config, l *lists) *agents {
	a := &agents{Config: c, lists: l, of: map[agent]map[string]*entry{}}
	for i := range a.turns {
		a.turns[i] = semaphore.NewWeighted(1)
	}
	return a
}

// turn waits until it is the turn of an act on a service, which ends with leave.
func (a *agents) turn(ctx context.Context, c Caller, id string) (leave func(), err error) {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(c.Identity + "\x00" + c.host() + "\x00" + id))
	turn := a.turns[sum.Sum32()%uint32(len(a.turns))]
	return func() { turn.Release(1) }, turn.Acquire(ctx, 1)
}

// agent is what is an agent for Consul: all that has one identity and comes from one host.
type agent struct{ identity, host string }

func (c Caller) agent() agent { return agent{c.Identity, c.host()} }

// entry is a service of an agent. Only its times and its version change.
type entry struct {
	Instance
	caller  Caller
	ttl     time.Duration
	forget  time.Duration // after the end of its time to live
	bytes   int           // that it takes, about
	version int64
	until   time.Time // the end of its time to live
	renewed time.Time // when its lease was renewed last
}

// Limits of what an agent registers.
const (
	ttlLeast   = time.Second
	ttlMost    = 5 * time.Minute
	forgetTime = 10 * time.Minute // unless the service asks for it
	nameMost   = 255              // bytes of an id
	outputMost = 4 << 10          // bytes of what a check puts out, as in Consul
	agentBytes = 256 << 20
	keepRound  = time.Second
	renewals   = 3 // of a lease, while it runs
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
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		if wire.CodeOf(err) != "" {
			return err
		}
		return wire.Errorf(wire.CodeBadRequest, "request decode failed: %v", err)
	}
	return nil
}

// entry returns the entry that a registration asks for, or why it is refused.
func (in registration) entry(c Caller) (*entry, error) {
	refuse := func(format string, args ...any) (*entry, error) {
		return nil, wire.Errorf(wire.CodeBadRequest, format, args...)
	}
	if in.Check != nil {
		in.Checks = append(in.Checks, *in.Check)
	}
	host, id := cmp.Or(in.Address, c.host()), cmp.Or(in.ID, in.Name)
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
	e := &entry{ttl: ttl, forget: min(forget, forgetTime), Instance: Instance{
		Service: in.Name, Host: host, Port: in.Port, ID: id, Tags: in.Tags, Meta: in.Meta, Addresses: in.TaggedAddresses,
		CheckName: check.Name, Status: status,
	}}
	if in.Weights != nil && *in.Weights != e.weights() {
		e.Weights = in.Weights
	}
	if check.CheckID != e.checkID() {
		e.CheckID = check.CheckID
	}
	return e, nil
}

// register registers a service. Until its first update it is critical, unless the request
// has another status, or it is registered again: here, or after its session has died.
func (a *agents) register(r *http.Request, c Caller, _ query) (any, uint64, error) {
	var in registration
	if err := decode(r, &in); err != nil {
		return nil, 0, err
	}
	e, err := in.entry(c)
	if err != nil {
		return nil, 0, err
	}
	leave, err := a.turn(r.Context(), c, e.ID)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	if other, has := a.first(c, func(x *entry) bool { return x.ID != e.ID && x.checkID() == e.checkID() }); has {
		return nil, 0, wire.Errorf(wire.CodeBadRequest, "service %.128q of this agent has the check ID %.128q: give the check another one", other.ID, e.checkID())
	}
	old, kept := a.first(c, func(x *entry) bool { return x.ID == e.ID })
	before := []Instance{old.Instance}
	switch {
	case !kept:
		before, _, err = a.lists.instances(r.Context(), c, e.Service, query{})
	case !time.Now().Before(old.until):
		before = nil
	}
	if err != nil {
		return nil, 0, err
	}
	for _, x := range before {
		if x.ID == e.ID && (kept || x.Host == e.Host && x.Port == e.Port) {
			e.Status, e.Output, e.Maintenance = x.Status, x.Output, x.Maintenance
		}
	}
	if err := a.put(r.Context(), c, e); err != nil || !kept || old.Service == e.Service {
		return nil, 0, err
	}
	return nil, 0, a.Cluster.Deregister(r.Context(), c, old.Service, old.registrationID())
}

// put registers the service of an entry, and keeps the entry if it is the newest.
func (a *agents) put(ctx context.Context, c Caller, e *entry) (err error) {
	e.caller, e.bytes = c, 1024+2*len(e.Value())
	if a.bytes(c)+e.bytes > agentBytes {
		return wire.Errorf(wire.CodeLimitReached, "the services of this agent take too much memory")
	}
	if e.version, err = a.Cluster.Register(ctx, c, e.Service, e.registrationID(), e.Value(), min(e.ttl, a.Lease)); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.of[c.agent()]
	if all == nil {
		all = map[string]*entry{}
		a.of[c.agent()] = all
	}
	if old := all[e.ID]; old == nil || old.version <= e.version || old.Service != e.Service {
		all[e.ID] = e
	}
	all[e.ID].renew()
	return nil
}

// renew begins the time to live. mu is held.
func (e *entry) renew() {
	e.renewed = time.Now()
	e.until = e.renewed.Add(e.ttl)
}

// bytes returns what the services of an agent take, about.
func (a *agents) bytes(c Caller) (sum int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.of[c.agent()] {
		sum += e.bytes
	}
	return sum
}

// registrationID is unique among all that the identity registers under the service.
func (e *entry) registrationID() string { return "consul/" + e.caller.host() + "/" + e.ID }

// all returns copies of the services of an agent, by id.
func (a *agents) all(c Caller) (out []entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(a.of[c.agent()])) {
		out = append(out, *a.of[c.agent()][id])
	}
	return out
}

// first returns a copy of a service of an agent that is what is sought.
func (a *agents) first(c Caller, is func(*entry) bool) (e entry, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.of[c.agent()] {
		if is(e) {
			return *e, true
		}
	}
	return e, false
}

// acting returns a copy of the service of an agent that has the id in the path, or the check
// with it, once it is the turn of an act on it, which ends with leave.
func (a *agents) acting(r *http.Request, c Caller, what string, idOf func(*entry) string) (e entry, leave func(), err error) {
	id, err := segment(r, "id")
	if err != nil {
		return e, nil, err
	}
	is := func(x *entry) bool { return idOf(x) == id }
	e, found := a.first(c, is)
	if found {
		if leave, err = a.turn(r.Context(), c, e.ID); err != nil {
			return e, nil, err
		}
		if e, found = a.first(c, is); found {
			return e, leave, nil
		}
		leave()
	}
	return e, nil, wire.Errorf(wire.CodeNotFound, "Unknown %s ID %.128q. Ensure that the %s ID is passed, not the %s name. This session has no such %s of this token and address: register it here", what, id, what, what, what)
}

// cut returns as much of an output as is kept.
func cut(output string) string {
	return strings.ToValidUTF8(output[:min(len(output), outputMost)], "")
}

func serviceID(e *entry) string { return e.ID }

func (a *agents) deregister(r *http.Request, c Caller, _ query) (any, uint64, error) {
	e, leave, err := a.acting(r, c, "service", serviceID)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	if err = a.Cluster.Deregister(r.Context(), c, e.Service, e.registrationID()); err != nil {
		return nil, 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of[c.agent()], e.ID)
	return nil, 0, nil
}

// check updates the check in the path: .../pass/ID?note=, warn, fail, or update/ID with
// a body.
func (a *agents) check(r *http.Request, c Caller, _ query) (any, uint64, error) {
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
	e, leave, err := a.acting(r, c, "check", func(e *entry) string { return e.checkID() })
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	if status == e.Status { // another output alone makes no version
		return nil, 0, a.renew(r.Context(), c, &e)
	}
	if e.Status, e.Output = status, cut(in.Output); status == passing {
		e.Output = ""
	}
	return nil, 0, a.put(r.Context(), c, &e)
}

// renew renews the lease of a service, and registers it again if that has ended, or if
// it was registered at another session meanwhile.
func (a *agents) renew(ctx context.Context, c Caller, e *entry) error {
	err := a.Cluster.Renew(ctx, c, e.Service, e.registrationID(), e.version)
	switch wire.CodeOf(err) {
	case wire.CodeNotFound, wire.CodeConflict:
		return a.put(ctx, c, e)
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if kept := a.of[c.agent()][e.ID]; kept != nil {
		kept.renew()
	}
	return nil
}

// maintain begins or ends the maintenance of a service.
func (a *agents) maintain(r *http.Request, c Caller, _ query) (any, uint64, error) {
	q := r.URL.Query()
	enable := q.Get("enable")
	if enable != "true" && enable != "false" {
		return nil, 0, wire.Errorf(wire.CodeBadRequest, "enable %.20q: want true or false", enable)
	}
	e, leave, err := a.acting(r, c, "service", serviceID)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	if e.Maintenance = ""; enable == "true" {
		e.Maintenance = cmp.Or(cut(q.Get("reason")), "Maintenance mode is enabled for this service, but no reason was provided. This is a default message.")
	}
	return nil, 0, a.put(r.Context(), c, &e)
}

func (a *agents) getServices(_ *http.Request, c Caller, _ query) (any, uint64, error) {
	out := object{}
	for _, e := range a.all(c) {
		out[e.ID] = e.service(a.DataCenter, uint64(e.version))
	}
	return out, 0, nil
}

func (a *agents) getChecks(_ *http.Request, c Caller, _ query) (any, uint64, error) {
	out := object{}
	for _, e := range a.all(c) {
		if !time.Now().Before(e.until) {
			e.Status, e.Output = critical, "TTL expired"
		}
		for _, check := range e.checks(uint64(e.version)) {
			out[check["CheckID"].(string)] = check
		}
	}
	return out, 0, nil
}

// run prolongs the leases of services whose time to live is longer than a lease, so that
// they end with it, and forgets those that have lapsed for long.
func (a *agents) run(ctx context.Context) {
	tick := time.NewTicker(keepRound)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, e := range a.due(now) {
				if a.Cluster.Prolong(e.caller, e.Service, e.registrationID(), e.version) {
					a.prolonged(e, now)
				}
			}
		}
	}
}

// prolonged records that the lease of a service was renewed.
func (a *agents) prolonged(e entry, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if kept := a.of[e.caller.agent()][e.ID]; kept != nil && kept.version == e.version && kept.renewed.Before(now) {
		kept.renewed = now
	}
}

// due returns copies of the services whose lease is to be prolonged.
func (a *agents) due(now time.Time) (out []entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for of, all := range a.of {
		for id, e := range all {
			left := e.until.Sub(now)
			ends := e.renewed.Add(a.Lease).Before(e.until) // the lease, before the time to live
			switch {
			case left < -e.forget:
				delete(all, id)
			case left > 0 && ends && (left <= a.Lease || now.Sub(e.renewed) >= a.Lease/renewals):
				out = append(out, *e)
			}
		}
		if len(all) == 0 {
			delete(a.of, of)
		}
	}
	return out
}
