package meta

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/singleflight"

	"conclave"
	"conclave/blacklist"
	"conclave/elector"
	"conclave/meta/metaclient"
	"conclave/wire"
	"conclave/wire/serve"
)

func (l *leader) getLeader(*http.Request) (any, error) {
	t := l.elector.Current()
	if t.Number != l.term.Number {
		return nil, wire.NotLeader("", "")
	}
	return metaclient.LeaderInfo{
		Leader: l.config.Node.Name, Address: l.address, Term: l.term.Number, Beat: l.beat.Load(),
		LeaseRemainingMs: max(0, l.elector.Remaining().Milliseconds()), Since: shown(t.Since), Cause: string(l.term.Cause),
	}, nil
}

// electionsShown is how many elections are returned by default.
const electionsShown = 200

func (l *leader) getElections(r *http.Request) (any, error) {
	page, after, err := serve.NumberedPageOf(r)
	if err != nil {
		return nil, err
	}
	limit, before := cmp.Or(page.Limit, electionsShown), uint64(math.MaxInt64)
	if page.After != "" {
		before = min(after, before)
	}
	list, err := l.elections.read(r.Context(), before, limit)
	if err != nil {
		return nil, err
	}
	out := paged{body: list}
	if len(list) == limit && list[limit-1].Term > 1 {
		out.next = strconv.FormatUint(list[limit-1].Term, 10)
	}
	return out, nil
}

// getSlots returns the slot table and whether the cluster is protected
// (getSlotTableStatus in the articles).
func (l *leader) getSlots(r *http.Request) (any, error) {
	page, after, err := serve.NumberedPageOf(r)
	if err != nil {
		return nil, err
	}
	state := l.view.State()
	var open []conclave.NodeID
	for _, n := range l.roster.live() {
		if !state.Blacklist.Entries.Has(n.Name) {
			open = append(open, n)
		}
	}
	t := state.Table
	out := metaclient.SlotsInfo{
		Epoch: t.Epoch, Stable: len(t.Slots) > 0 && t.StableAll(), Even: len(t.Slots) > 0 && t.Even(open),
		Protected: state.Freeze.Frozen, Reason: state.Freeze.Reason,
		Behind: l.roster.behind(t.Epoch), SpreadMs: l.propagation.took(time.Now()).Milliseconds(), Slots: []metaclient.SlotInfo{},
	}
	next := ""
	for _, s := range t.Slots {
		if page.After != "" && uint64(s.ID) <= after {
			continue
		}
		if n := len(out.Slots); page.Limit > 0 && n == page.Limit {
			next = strconv.Itoa(out.Slots[n-1].ID)
			break
		}
		followers := make([]string, len(s.Followers))
		for j, f := range s.Followers {
			followers[j] = f.Name
		}
		out.Slots = append(out.Slots, metaclient.SlotInfo{
			ID: s.ID, Leader: s.Leader.Name, LeaderEpoch: s.LeaderEpoch, Followers: followers, State: string(s.Phase),
			Successor: s.Successor.Name, Source: s.Source.Name,
		})
	}
	return paged{out, next}, nil
}

func (l *leader) getNodes(r *http.Request) (any, error) {
	role := conclave.Role(r.URL.Query().Get("role"))
	if role != "" {
		if _, err := conclave.ParseRole(string(role)); err != nil {
			return nil, wire.Errorf(wire.CodeBadRequest, "%v", err)
		}
	}
	black := map[string]blacklist.Entry{}
	for _, e := range l.view.State().Blacklist.Entries {
		black[e.Name] = e
	}
	nodes, remaining, metas := l.roster.known(time.Now())
	list := []metaclient.NodeInfo{}
	add := func(n rosterEntry, remaining time.Duration) *metaclient.NodeInfo {
		entry, forbidden := black[n.member.Node.Name]
		list = append(list, metaclient.NodeInfo{
			Name: n.member.Node.Name, Role: n.member.Role, Address: n.member.Address, Incarnation: n.member.Node.Incarnation,
			State: nodeState(n, entry, forbidden), LeaseRemainingMs: remaining.Milliseconds(), Load: n.load,
		})
		return &list[len(list)-1]
	}
	if role == "" || role == conclave.RoleMeta {
		self := rosterEntry{member: wire.Member{Node: l.config.Node, Role: conclave.RoleMeta, Address: l.address}, stream: &stream{}}
		info := add(self, l.elector.Remaining())
		info.Leading, info.Observer = true, l.elector.Observing()
		for _, n := range metas {
			add(n, 0).Observer = !n.ready
		}
	}
	for i, n := range nodes {
		if role == "" || role == n.member.Role {
			info := add(n, remaining[i])
			info.Last = n.member.Role == conclave.RoleSession && info.State != metaclient.NodeUp && info.State != metaclient.NodeSuspect && n.ready
		}
	}
	slices.SortFunc(list, func(a, b metaclient.NodeInfo) int { return strings.Compare(a.Name, b.Name) })
	return cut(r, list, func(n metaclient.NodeInfo) string { return n.Name })
}

// nodeState returns the state that /v1/nodes shows for a node.
func nodeState(n rosterEntry, e blacklist.Entry, forbidden bool) metaclient.NodeState {
	switch {
	case n.stream == nil:
		return metaclient.NodeSuspect
	case forbidden && !e.Own():
		return metaclient.NodeBlacklisted
	case forbidden || n.draining:
		return metaclient.NodeDraining
	}
	return metaclient.NodeUp
}

func (l *leader) getBlacklist(r *http.Request) (any, error) {
	list := []metaclient.BlacklistInfo{}
	for _, e := range l.view.State().Blacklist.Entries {
		list = append(list, blacklistInfo(e))
	}
	return cut(r, list, func(b metaclient.BlacklistInfo) string { return b.Name })
}

func blacklistInfo(e blacklist.Entry) metaclient.BlacklistInfo {
	return metaclient.BlacklistInfo{Name: e.Name, Role: e.Role, Reason: e.Reason, Since: shown(e.Since), By: e.By}
}

// operator is the author of a request that names none.
const operator = "operator"

// putBlacklist puts a node of any role on the blacklist (addToBlacklist in the
// articles).
func (l *leader) putBlacklist(r *http.Request) (any, error) {
	var in metaclient.ForbidRequest
	if err := readBody(r, &in); err != nil {
		return nil, err
	}
	name := mux.Vars(r)["name"]
	m, err := l.member(r.Context(), name)
	if err != nil {
		return nil, err
	}
	if in.By == "" || in.By == name { // a node adds its own entry through Drain
		in.By = operator
	}
	in.Reason = cmp.Or(in.Reason, "asked for by "+in.By)
	entry := blacklist.Entry{
		Name: name, Role: m.Role, Reason: in.Reason, By: in.By, Incarnation: m.Node.Incarnation, Since: l.config.Now().UTC(),
	}
	return l.act(r, func() (effect, error) { return l.arranger.effectOfForbid(entry) }, func(ctx context.Context) (any, error) {
		return blacklistInfo(entry), l.arranger.forbid(ctx, entry)
	})
}

// member returns the node of a name, this one included. For the first beat of a term
// it waits for a node that it does not know: nodes join a new leader one after the
// other, and a command may come before the node that it is about.
func (l *leader) member(ctx context.Context, name string) (wire.Member, error) {
	if name == l.config.Node.Name {
		return wire.Member{Node: l.config.Node, Role: conclave.RoleMeta}, nil
	}
	joining := time.NewTimer(time.Until(l.began.Add(l.config.Beat)))
	defer joining.Stop()
	for last := false; ; {
		arrived := l.roster.arrived.Next()
		m, found := l.roster.find(name)
		switch {
		case found:
			return m, nil
		case last:
			return m, wire.Errorf(wire.CodeNotFound, "unknown node %q", name)
		}
		select {
		case <-arrived:
		case <-joining.C:
			last = true
		case <-l.ctx.Done():
			return m, wire.NotLeader("", "")
		case <-ctx.Done():
			return m, ctx.Err()
		}
	}
}

// deleteBlacklist removes a name from the blacklist (removeFromBlacklist in the
// articles).
func (l *leader) deleteBlacklist(r *http.Request) (any, error) {
	name := mux.Vars(r)["name"]
	return l.act(r, func() (effect, error) {
		if !l.arranger.black().Has(name) {
			return effect{}, wire.Errorf(wire.CodeNotFound, "%s is not on the blacklist", name)
		}
		return safe("%s is given work again", name), nil
	}, func(ctx context.Context) (any, error) {
		return map[string]any{"name": name}, l.arranger.allow(ctx, name)
	})
}

// getConfig returns all values, with empty list if there is none.
func (l *leader) getConfig(r *http.Request) (any, error) {
	return cut(r, append([]wire.ConfigValue{}, l.view.State().Config.List...), func(v wire.ConfigValue) string { return v.ID })
}

func (l *leader) putConfig(r *http.Request) (any, error) {
	var in metaclient.ConfigRequest
	if err := readBody(r, &in); err != nil {
		return nil, err
	}
	id := mux.Vars(r)["id"]
	return l.act(r, func() (effect, error) {
		if in.Value == nil {
			return effect{}, wire.Errorf(wire.CodeBadRequest, "the body has no value")
		}
		if err := checkConfig(l.arranger.state.Config, id, *in.Value); err != nil {
			return effect{}, err
		}
		return safe("clients that watch %s are sent the value", id), nil
	}, func(ctx context.Context) (any, error) {
		return l.arranger.setConfig(ctx, id, *in.Value)
	})
}

func (l *leader) deleteConfig(r *http.Request) (any, error) {
	id := mux.Vars(r)["id"]
	return l.act(r, func() (effect, error) {
		if _, found := l.arranger.state.Config.Find(id); !found {
			return effect{}, wire.Errorf(wire.CodeNotFound, "there is no configuration value %.150q", id)
		}
		return safe("clients that watch %s are sent that it has no value", id), nil
	}, func(ctx context.Context) (any, error) {
		return map[string]any{"id": id}, l.arranger.removeConfig(ctx, id)
	})
}

func (l *leader) getSwitches(r *http.Request) (any, error) {
	return cut(r, switches(l.view.State().Switches), func(s wire.Switch) string { return s.Key })
}

func (l *leader) putSwitch(r *http.Request) (any, error) {
	var in metaclient.SwitchRequest
	if err := readBody(r, &in); err != nil {
		return nil, err
	}
	key := mux.Vars(r)["key"]
	return l.act(r, func() (effect, error) {
		if err := checkSwitch(key, in.Value); err != nil {
			return effect{}, err
		}
		return l.arranger.effectOfSwitch(key, in.Value), nil
	}, func(ctx context.Context) (any, error) {
		return l.arranger.setSwitch(ctx, key, in.Value)
	})
}

func (l *leader) deleteProtection(r *http.Request) (any, error) {
	return l.act(r, func() (effect, error) {
		if !l.arranger.state.Freeze.Frozen {
			return safe("the cluster is not protected"), nil
		}
		return safe("slots move again, with the data nodes that there are"), nil
	}, func(ctx context.Context) (any, error) {
		if l.arranger.state.Freeze.Frozen {
			if err := l.arranger.thaw(ctx, "ended by hand"); err != nil {
				return nil, err
			}
		}
		return map[string]any{"protected": false}, nil
	})
}

// postResign hands the leadership over, and answers when that is done. This
// node counts as no candidate from the moment at which it is granted. A forced
// resignation needs no grant, so it works while the arranger waits for the
// database.
func (l *leader) postResign(r *http.Request) (any, error) {
	opts, err := parseActOptions(r)
	if err != nil {
		return nil, err
	}
	if opts.force && !opts.dryRun {
		l.event(hclog.Warn, "act.forced", conclave.Epoch{}, map[string]any{"path": r.URL.Path}, "forced: %s resigns", l.config.Node.Name)
	} else {
		var granted bool
		out, err := l.act(r, func() (effect, error) { return l.arranger.effectOfResign(), nil }, func(context.Context) (any, error) {
			l.arranger.quits[l.config.Node], granted = true, true
			return nil, nil
		})
		if err != nil || !granted {
			return out, err
		}
	}
	err = l.elector.Resign(r.Context())
	if errors.Is(err, elector.ErrNotLeading) {
		return nil, wire.NotLeader("", "")
	}
	if err != nil {
		return nil, wire.Errorf(wire.CodeUnavailable, "%v", err)
	}
	return map[string]any{"resigned": l.config.Node.Name, "term": l.term.Number}, nil
}

// actOptions are the options of an operator's request.
type actOptions struct{ force, dryRun bool }

// parseActOptions reads ?force= and ?dryRun=.
func parseActOptions(r *http.Request) (actOptions, error) {
	var m actOptions
	for key, set := range map[string]*bool{"force": &m.force, "dryRun": &m.dryRun} {
		for _, v := range r.URL.Query()[key] {
			switch v {
			case "true":
				*set = true
			case "false":
			default:
				return m, wire.Errorf(wire.CodeBadRequest, "%s=%q: want true or false", key, v)
			}
		}
	}
	return m, nil
}

// decide returns what answers a request instead of doing it: its effect, for a dry
// run, or the refusal, unless the request is forced, which forced records. It returns
// nil and nil if the request is to be done.
func (o actOptions) decide(e effect, forced func()) (any, error) {
	switch {
	case o.dryRun:
		return shownEffect(e), nil
	case e.refusal == nil:
	case !o.force:
		return nil, e.refusal
	default:
		forced()
	}
	return nil, nil
}

// act checks an operator's request and does it. It refuses it if the cluster
// would not serve afterwards and the request is not forced; for a dry run it
// only returns the effect.
func (l *leader) act(r *http.Request, check func() (effect, error), do func(context.Context) (any, error)) (any, error) {
	opts, err := parseActOptions(r)
	if err != nil {
		return nil, err
	}
	var out any // written by the arranger; not read here unless the command has finished
	err = l.arranger.ask(r.Context(), func(ctx context.Context) error {
		e, err := check()
		if err != nil {
			return err
		}
		out, err = opts.decide(e, func() {
			l.event(hclog.Warn, "act.forced", conclave.Epoch{}, map[string]any{"path": r.URL.Path}, "forced: %s", e.text)
		})
		if err == nil && out == nil {
			out, err = do(ctx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// shownEffect returns the answer to a dry run.
func shownEffect(e effect) metaclient.Effect {
	out := metaclient.Effect{DryRun: true, Effect: e.text}
	if e.refusal != nil {
		out.Refused, out.Code = true, e.refusal.Code
	}
	return out
}

// maxBody limits the body of a request, in which a character of a value may take
// six bytes.
const maxBody = 256 << 10

// readBody reads a JSON document; an empty body reads as an empty document.
// Unknown fields are refused.
func readBody(r *http.Request, into any) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return wire.Errorf(wire.CodeBadRequest, "read the body: %v", err)
	}
	if len(body) > maxBody {
		return wire.Errorf(wire.CodeTooLarge, "the body is larger than %d bytes", maxBody)
	}
	if len(body) == 0 {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		why := err.Error() // it may quote a key of the body
		if len(why) > 128 {
			why = strings.ToValidUTF8(why[:128], "") + "..."
		}
		return wire.Errorf(wire.CodeBadRequest, "invalid body for %.128s: %s", r.URL.Path, why)
	}
	return nil
}

// electionsFresh is how long an answer is used again.
const electionsFresh = 20 * time.Millisecond

// elections lists the elections for any number of readers: those that ask for as
// many share a query. The queries have one connection of their own, and so delay no
// statement of the election.
type elections struct {
	history History
	reading singleflight.Group
	last    atomic.Pointer[electionsRead]
}

// electionsRead is an answer of the database, which is not changed any more.
type electionsRead struct {
	before uint64
	limit  int
	at     time.Time
	list   []metaclient.Election
}

// read returns at most limit elections before a term, the latest first. The query continues when
// the reader that began it has gone: others may wait for it.
func (e *elections) read(ctx context.Context, before uint64, limit int) ([]metaclient.Election, error) {
	if last := e.last.Load(); last != nil && last.before == before && last.limit == limit && time.Since(last.at) < electionsFresh {
		return last.list, nil
	}
	list, err, _ := e.reading.Do(fmt.Sprint(before, limit), func() (any, error) {
		history, err := e.history.Before(context.WithoutCancel(ctx), before, limit)
		if err != nil {
			return nil, wire.Errorf(wire.CodeUnavailable, "%v", err)
		}
		list := make([]metaclient.Election, len(history))
		for i, x := range history {
			list[i] = metaclient.Election{
				Term: x.Term, Owner: nameOf(x.Owner), Previous: nameOf(x.Previous), Cause: x.Cause,
				LeaderlessMs: x.Leaderless.Milliseconds(), At: shown(x.At),
			}
		}
		e.last.Store(&electionsRead{before: before, limit: limit, at: time.Now(), list: list})
		return list, nil
	})
	if err != nil {
		return nil, err
	}
	return list.([]metaclient.Election), nil
}

// shown returns a time in the precision and zone of the API.
func shown(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// nameOf returns the name in a stored owner.
func nameOf(owner string) string {
	if id, err := conclave.ParseNodeID(owner); err == nil {
		return id.Name
	}
	return owner
}
