package metaclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"conclave"
	"conclave/internal/sleep"
	"conclave/wire"
)

// AdminConfig configures an Admin.
type AdminConfig struct {
	Metas []string     // addresses, tried in turn: any meta answers for the leader
	HTTP  *http.Client // for instance Peers.HTTP(); nil: one that uses no proxy
	// TokenFor returns what is sent to an address, as rights.TokenFor does; nil if
	// the cluster has no token.
	TokenFor func(address string) string
}

// Admin is the typed client of the metas' HTTP API, for operators and their
// tools. Every method's error is a *wire.Error if a node answered with one;
// wire.CodeUnavailable means that no meta could be reached, wire.CodeNoLeader
// that one was, but no node leads.
type Admin struct{ AdminConfig }

// direct uses no proxy of the environment: requests carry tokens.
var direct = &http.Client{Transport: &http.Transport{}}

// NewAdmin returns a client that has sent nothing yet.
func NewAdmin(c AdminConfig) *Admin {
	if c.HTTP == nil {
		c.HTTP = direct
	}
	return &Admin{c}
}

// Leader returns the current leader.
func (a *Admin) Leader(ctx context.Context) (LeaderInfo, error) {
	return get[LeaderInfo](ctx, a, "/v1/leader")
}

// Elections lists the terms that were won, the latest first.
func (a *Admin) Elections(ctx context.Context) ([]Election, error) {
	return get[[]Election](ctx, a, "/v1/elections")
}

// Slots returns the slot table as the leader has written it.
func (a *Admin) Slots(ctx context.Context) (SlotsInfo, error) {
	return get[SlotsInfo](ctx, a, "/v1/slots")
}

// Nodes lists the nodes of a role, or all of them for "", sorted by name.
func (a *Admin) Nodes(ctx context.Context, role conclave.Role) ([]NodeInfo, error) {
	path := "/v1/nodes"
	if role != "" {
		path += "?role=" + url.QueryEscape(string(role))
	}
	return get[[]NodeInfo](ctx, a, path)
}

// Blacklist lists the blacklist, sorted by name.
func (a *Admin) Blacklist(ctx context.Context) ([]BlacklistInfo, error) {
	return get[[]BlacklistInfo](ctx, a, "/v1/blacklist")
}

// Forbid puts a node on the blacklist; by is the author of the request.
func (a *Admin) Forbid(ctx context.Context, name, reason, by string, options ...Option) error {
	return act(ctx, a.any, http.MethodPut, "/v1/blacklist/"+url.PathEscape(name), ForbidRequest{Reason: reason, By: by}, nil, options)
}

// Allow removes a node from the blacklist, also if the node added itself.
func (a *Admin) Allow(ctx context.Context, name string, options ...Option) error {
	return act(ctx, a.any, http.MethodDelete, "/v1/blacklist/"+url.PathEscape(name), nil, nil, options)
}

// Switches lists the switches, sorted by key.
func (a *Admin) Switches(ctx context.Context) ([]wire.Switch, error) {
	return get[[]wire.Switch](ctx, a, "/v1/switches")
}

// SetSwitch changes a switch and returns it as written.
func (a *Admin) SetSwitch(ctx context.Context, key, value string, options ...Option) (wire.Switch, error) {
	var out wire.Switch
	err := act(ctx, a.any, http.MethodPut, "/v1/switches/"+url.PathEscape(key), SwitchRequest{Value: value}, &out, options)
	return out, err
}

// Config lists the configuration values that are published to clients, sorted by
// id.
func (a *Admin) Config(ctx context.Context) ([]wire.ConfigValue, error) {
	return get[[]wire.ConfigValue](ctx, a, "/v1/config")
}

// SetConfig sets a configuration value and returns it as written.
func (a *Admin) SetConfig(ctx context.Context, id, value string, options ...Option) (wire.ConfigValue, error) {
	var out wire.ConfigValue
	err := act(ctx, a.any, http.MethodPut, "/v1/config/"+url.PathEscape(id), ConfigRequest{Value: &value}, &out, options)
	return out, err
}

// RemoveConfig removes a configuration value.
func (a *Admin) RemoveConfig(ctx context.Context, id string, options ...Option) error {
	return act(ctx, a.any, http.MethodDelete, "/v1/config/"+url.PathEscape(id), nil, nil, options)
}

// EndProtection ends protection by hand.
func (a *Admin) EndProtection(ctx context.Context) error {
	return a.any(ctx, http.MethodDelete, "/v1/protection", nil, nil)
}

// Resign makes the leader hand over; it has given up its term when Resign
// returns.
func (a *Admin) Resign(ctx context.Context, options ...Option) error {
	return act(ctx, a.any, http.MethodPost, "/v1/leader/resign", nil, nil, options)
}

// Quit makes the named meta an observer: it resigns if it leads, and does not
// compete until Rejoin. The meta asks the leader, which refuses the last
// candidate.
func (a *Admin) Quit(ctx context.Context, name string, options ...Option) error {
	return a.election(ctx, name, "quit", options)
}

// Rejoin makes the named meta a candidate again.
func (a *Admin) Rejoin(ctx context.Context, name string, options ...Option) error {
	return a.election(ctx, name, "join", options)
}

// ForceRefresh makes the named meta the owner of the lock without an election
// (forceRefresh in article 000). It is refused outside of the profile sofa.
func (a *Admin) ForceRefresh(ctx context.Context, name string, options ...Option) error {
	return a.election(ctx, name, "force-refresh", options)
}

// GrantQuit asks the leader whether a meta may quit the election; metas call
// it. It returns the term for which that is granted.
func (a *Admin) GrantQuit(ctx context.Context, meta conclave.NodeID, options ...Option) (term uint64, err error) {
	var out ObserverGrant
	err = act(ctx, a.any, http.MethodPut, "/v1/observers/"+url.PathEscape(meta.Name), ObserverRequest{Incarnation: meta.Incarnation}, &out, options)
	return out.Term, err
}

// RevokeQuit withdraws a grant: the meta competes.
func (a *Admin) RevokeQuit(ctx context.Context, name string) error {
	return a.any(ctx, http.MethodDelete, "/v1/observers/"+url.PathEscape(name), nil, nil)
}

// election sends the request to the named meta itself, because it changes that
// meta's own part in the election. It looks for the meta among the given addresses, which
// needs no leader, then among those that the leader knows.
func (a *Admin) election(ctx context.Context, name, what string, options []Option) error {
	at := func(address string) error {
		return act(ctx, func(ctx context.Context, method, path string, in, out any) error {
			return a.one(ctx, address, method, path, in, out)
		}, http.MethodPost, "/v1/election/"+what, nil, nil, options)
	}
	for _, address := range a.Metas {
		var health struct {
			Name string `json:"name"`
		}
		if a.one(ctx, address, http.MethodGet, "/healthz", nil, &health) == nil && health.Name == name {
			return at(address)
		}
	}
	nodes, err := a.Nodes(ctx, conclave.RoleMeta)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.Name == name {
			return at(n.Address)
		}
	}
	return wire.Errorf(wire.CodeNotFound, "unknown meta node %q", name)
}

// get returns the answer of any meta to a GET.
func get[T any](ctx context.Context, a *Admin, path string) (out T, err error) {
	err = a.any(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

// any asks the metas in turn until one answers. A refusal of a meta that knows
// the leader is final; after no_leader or a failed connection the next one is
// asked.
func (a *Admin) any(ctx context.Context, method, path string, in, out any) error {
	if len(a.Metas) == 0 {
		return wire.Errorf(wire.CodeBadRequest, "no address of a meta node was given")
	}
	var noLeader, unreachable error
	for _, address := range a.Metas {
		err := a.one(ctx, address, method, path, in, out)
		switch wire.CodeOf(err) {
		case wire.CodeNoLeader:
			noLeader = err
		case wire.CodeUnavailable:
			if method == http.MethodPost && !wire.Refused(err) {
				return err // it may have been done, and a second try could reach the next leader
			}
			unreachable = err
		default:
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if noLeader != nil {
		return noLeader
	}
	return unreachable
}

// checkPath returns an error if a name in a path would lead to another path: a
// router removes dots, and answers the request of a path with a slash elsewhere.
func checkPath(path string) error {
	path, _, _ = strings.Cut(path, "?")
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		name, err := url.PathUnescape(part)
		if err != nil || name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
			return wire.Errorf(wire.CodeBadRequest, "%q cannot be a name", name)
		}
	}
	return nil
}

// one sends a request to the node at address.
func (a *Admin) one(ctx context.Context, address, method, path string, in, out any) error {
	if err := checkPath(path); err != nil {
		return err
	}
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, body)
	if err != nil {
		return wire.Errorf(wire.CodeBadRequest, "meta address %q: %v", address, err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.TokenFor != nil {
		wire.SetToken(req.Header, a.TokenFor(address))
	}
	res, err := a.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", wire.Errorf(wire.CodeUnavailable, "cannot reach the meta node at %s", address), errors.Unwrap(err))
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err != nil {
		return wire.Errorf(wire.CodeUnavailable, "read the answer of %s: %v", address, err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		return refusal(address, res.StatusCode, answer)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return wire.Errorf(wire.CodeInternal, "decode the answer of %s to %s as %T: %v", address, path, out, err)
	}
	return nil
}

// refusal decodes {error:{code, message, details}}.
func refusal(address string, status int, body []byte) error {
	var e struct {
		Error struct {
			Code    wire.Code `json:"code"`
			Message string    `json:"message"`
			Details struct {
				Leader  string         `json:"leader"`
				Address string         `json:"address"`
				Epoch   conclave.Epoch `json:"epoch"`
			} `json:"details"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &e); err != nil || e.Error.Code == "" {
		return wire.Errorf(wire.CodeInternal, "%s answered %d without an error document: is it a meta node?", address, status)
	}
	d := e.Error.Details
	return &wire.Error{Code: e.Error.Code, Message: e.Error.Message, Leader: d.Leader, Address: d.Address, Epoch: d.Epoch}
}

// Option changes how an operator's request is done.
type Option func(*options)

type options struct {
	force  bool
	effect *Effect
}

// Force makes a request succeed although the cluster would not serve
// afterwards, which is otherwise refused with wire.CodeNoSuccessor or
// wire.CodeUnsafe.
func Force() Option { return func(o *options) { o.force = true } }

// DryRun changes nothing, and stores in into what the request would do.
func DryRun(into *Effect) Option { return func(o *options) { o.effect = into } }

// act sends a changing request with its options as the query. The answer to a
// dry run goes to its effect, not to out.
func act(ctx context.Context, send func(ctx context.Context, method, path string, in, out any) error, method, path string, in, out any, opts []Option) error {
	var o options
	for _, f := range opts {
		f(&o)
	}
	query := url.Values{}
	if o.force {
		query.Set("force", "true")
	}
	if o.effect != nil {
		query.Set("dryRun", "true")
		out = o.effect
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return send(ctx, method, path, in, out)
}

// How long announcing a stop may take: until the leader has recorded it, and
// until the nodes show it.
const (
	recordLimit = time.Second
	reachLimit  = time.Second
)

// AnnounceStop announces that the whole cluster is about to stop: through the
// leader, which records it for all nodes and for the given time; and to each
// node that does not show it in time, because there is no leader or the node is
// cut off, for that node's incarnation. A node that cannot be reached drains
// when it stops.
func (a *Admin) AnnounceStop(ctx context.Context, nodes []string, lasts time.Duration, by string) {
	recorded := a.recordStop(ctx, lasts, by) == nil
	ctx, cancel := context.WithTimeout(ctx, 2*reachLimit)
	defer cancel()
	var all sync.WaitGroup
	for _, address := range nodes {
		all.Go(func() {
			if !recorded || !a.waitForStop(ctx, address) {
				_ = a.AnnounceStopTo(ctx, address, by) // if that fails, the node drains
			}
		})
	}
	all.Wait()
}

// StopAnnounced returns what the leader has recorded.
func (a *Admin) StopAnnounced(ctx context.Context) (StoppingInfo, error) {
	return get[StoppingInfo](ctx, a, "/v1/stopping")
}

// TakeBackStop withdraws the announcement.
func (a *Admin) TakeBackStop(ctx context.Context) error {
	return a.any(ctx, http.MethodDelete, "/v1/stopping", nil, nil)
}

// recordStop asks every meta at once, since one may hang: each forwards the
// request to the leader, and a second recording only extends the first.
func (a *Admin) recordStop(ctx context.Context, lasts time.Duration, by string) error {
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel() // one answer is enough
	answers := make(chan error, len(a.Metas))
	for _, address := range a.Metas {
		asking.Go(func() {
			answers <- a.one(ctx, address, http.MethodPost, "/v1/stopping", StoppingRequest{ForMs: wire.Ms(lasts), By: by}, nil)
		})
	}
	var err error = wire.NotLeader("", "")
	for range a.Metas {
		if got := <-answers; got == nil || wire.CodeOf(err) == wire.CodeNoLeader {
			err = got
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// waitForStop waits until the node at address shows the announcement, and
// reports whether it did in time.
func (a *Admin) waitForStop(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	for {
		var info StoppingInfo
		if err := a.one(ctx, address, http.MethodGet, "/v1/stopping", nil, &info); err == nil && info.Stopping {
			return true
		}
		if sleep.For(ctx, 5*time.Millisecond) != nil {
			return false
		}
	}
}

// AnnounceStopTo announces the stop to the session or data node at the address
// alone, for the incarnation that answers there, or, if a meta node answers, to
// the leader. It is in force for NodeStopping.
func (a *Admin) AnnounceStopTo(ctx context.Context, address, by string) error {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	var health struct {
		Role        conclave.Role `json:"role"`
		Incarnation string        `json:"incarnation"`
	}
	if err := a.one(ctx, address, http.MethodGet, "/healthz", nil, &health); err != nil {
		return err
	}
	if health.Role == conclave.RoleMeta {
		return a.one(ctx, address, http.MethodPost, "/v1/stopping", StoppingRequest{By: by}, nil)
	}
	return a.one(ctx, address, http.MethodPost, "/v1/stopping", StoppingRequest{Incarnation: health.Incarnation, By: by}, nil)
}

// PartialSlots returns how many slots the data node at the address serves without
// a session that it could not reach.
func (a *Admin) PartialSlots(ctx context.Context, address string) (n int, err error) {
	var body struct {
		Slots []struct {
			Partial []conclave.NodeID `json:"partial"`
		} `json:"slots"`
	}
	err = a.one(ctx, address, http.MethodGet, "/v1/slots", nil, &body)
	for _, s := range body.Slots {
		n += min(1, len(s.Partial))
	}
	return n, err
}

// The bodies of the metas' HTTP API, written by package meta and read by Admin.
// Durations are milliseconds, times are UTC with milliseconds.

// LeaderInfo answers /v1/leader.
type LeaderInfo struct {
	Leader           string    `json:"leader"` // name
	Address          string    `json:"address"`
	Term             uint64    `json:"term"`
	Beat             uint64    `json:"beat"` // renewals within the term
	LeaseRemainingMs int64     `json:"leaseRemainingMs"`
	Since            time.Time `json:"since"`
	Cause            string    `json:"cause"`
}

// Election is one term that was won. LeaderlessMs counts from the previous
// leader's last valid moment (its resignation, the breaking of its connection,
// or the end of its lease) to the new one's first fenced write.
type Election struct {
	Term         uint64    `json:"term"`
	Owner        string    `json:"owner"`
	Previous     string    `json:"previous"`
	Cause        string    `json:"cause"` // first, resigned, killed, expired, restored
	LeaderlessMs int64     `json:"leaderlessMs"`
	At           time.Time `json:"at"`
}

// SlotsInfo answers /v1/slots.
type SlotsInfo struct {
	Epoch     conclave.Epoch `json:"epoch"`
	Stable    bool           `json:"stable"`    // no slot is being moved
	Even      bool           `json:"even"`      // over the nodes that may lead
	Protected bool           `json:"protected"` // no slot leaves the nodes of its row: too many nodes were lost at once
	Reason    string         `json:"reason,omitempty"`
	Behind    []string       `json:"behind,omitempty"` // members that hold an older table
	SpreadMs  int64          `json:"spreadMs"`         // how long the newest table took to reach every member
	Slots     []SlotInfo     `json:"slots"`
}

// SlotInfo is one slot; nodes by name.
type SlotInfo struct {
	ID          int            `json:"id"`
	Leader      string         `json:"leader"`
	LeaderEpoch conclave.Epoch `json:"leaderEpoch"`
	Followers   []string       `json:"followers"`
	State       string         `json:"state"` // the phase: stable, preparing, switching, crash
	Successor   string         `json:"successor,omitempty"`
	Source      string         `json:"source,omitempty"`
}

// NodeInfo is one node of any role.
type NodeInfo struct {
	Name             string        `json:"name"`
	Role             conclave.Role `json:"role"`
	Address          string        `json:"address"`
	Incarnation      string        `json:"incarnation"`
	State            NodeState     `json:"state"`
	LeaseRemainingMs int64         `json:"leaseRemainingMs"`
	Load             uint32        `json:"load"` // session: client connections; data: publishers
	Leading          bool          `json:"leading,omitempty"`
	Observer         bool          `json:"observer,omitempty"` // a meta that does not compete
	Last             bool          `json:"last,omitempty"`     // a session that should drain and still serves, because no other one takes clients
}

// NodeState is the state of a node as the leader sees it.
type NodeState string

// The states of a node.
const (
	NodeUp          NodeState = "up"          // holds its stream
	NodeSuspect     NodeState = "suspect"     // its stream broke, its lease still runs
	NodeDraining    NodeState = "draining"    // it hands over what it has, to stop
	NodeBlacklisted NodeState = "blacklisted" // put on the blacklist by an operator
)

// BlacklistInfo is one entry of the blacklist.
type BlacklistInfo struct {
	Name   string        `json:"name"`
	Role   conclave.Role `json:"role"`
	Reason string        `json:"reason"`
	Since  time.Time     `json:"since"`
	By     string        `json:"by"`
}

// ForbidRequest is the body of PUT /v1/blacklist/{name}; it may be left out.
type ForbidRequest struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// SwitchRequest is the body of PUT /v1/switches/{key}.
type SwitchRequest struct {
	Value string `json:"value"`
}

// ConfigRequest is the body of PUT /v1/config/{id}.
type ConfigRequest struct {
	Value *string `json:"value"` // required
}

// Effect answers a changing request with ?dryRun=true: what the request would
// do.
type Effect struct {
	DryRun  bool      `json:"dryRun"` // true
	Effect  string    `json:"effect"`
	Refused bool      `json:"refused,omitempty"` // it would be refused unless forced
	Code    wire.Code `json:"code,omitempty"`    // of that refusal
}

// ObserverRequest is the body of PUT /v1/observers/{name}, by which a meta asks
// the leader whether it may quit the election.
type ObserverRequest struct {
	Incarnation string `json:"incarnation"`
}

// ObserverGrant answers it.
type ObserverGrant struct {
	Name string `json:"name"`
	Term uint64 `json:"term"` // of the leader that grants it; void once a higher one has been seen
}
