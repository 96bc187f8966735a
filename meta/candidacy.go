package meta

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"
	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/elector"
	"conclave/meta/metaclient"
	"conclave/wire"
	"conclave/wire/serve"
)

// Leaving and joining the election at an operator's request. Whether a meta
// observes is its own state, in its memory; whether it may become an observer
// is the leader's decision, so that of two metas that are asked at the same
// moment the last candidate is refused.
//
//	operator --quit--> meta --may I?--> leader: is another one a candidate?
//	                     |                 yes: recorded for the rest of the term
//	                     | <---- the term -+
//	                     v
//	            a higher term seen since: refused; otherwise it observes
//
// A grant is valid for one term. The next leader counts a meta as a candidate
// if its beat reports so, and a meta whose request is in progress reports that
// it is no candidate. So when a grant arrives late, either the new leader does
// not count its receiver, or the receiver has seen the new term and refuses the
// grant.

// candidacy makes this node an observer, a candidate again, or the owner of the
// lock, when an operator asks for it.
type candidacy struct {
	config     Config
	log        hclog.Logger
	address    string // of this node
	strategy   elector.Strategy
	elector    *elector.Elector
	client     *metaclient.Client
	fence      *wire.Fence
	events     *serve.Events
	leadership *leadership
	http       *http.Client
	token      func(address string) string // of this node

	quitting atomic.Int32 // requests to quit the election that are in progress
}

// competes reports whether this node is a candidate and does not want to quit.
func (c *candidacy) competes() bool { return !c.elector.Observing() && c.quitting.Load() == 0 }

// postElection makes this node an observer, a candidate again, or the owner of
// the lock.
func (c *candidacy) postElection(w http.ResponseWriter, r *http.Request) {
	opts, err := parseActOptions(r)
	if err != nil {
		serve.WriteError(w, err)
		return
	}
	var out any
	switch mux.Vars(r)["act"] {
	case "quit":
		out, err = c.quitElection(r.Context(), opts)
	case "join":
		out, err = c.joinElection(r.Context(), opts)
	case "force-refresh":
		out, err = c.forceRefresh(r.Context(), opts)
	}
	if err != nil {
		serve.WriteError(w, err)
		return
	}
	serve.WriteJSON(w, http.StatusOK, out)
}

// forced records a request that was forced.
func (c *candidacy) forced(e effect) func() {
	return func() {
		c.events.Add(wire.Event{Type: "act.forced", Term: c.fence.Highest(), Text: "forced: " + e.text})
	}
}

// observes returns the answer of a node that has become an observer, or is none.
func (c *candidacy) observes(yes bool) any {
	return map[string]any{"name": c.config.Node.Name, "observer": yes}
}

// quitElection makes this node an observer if the leader grants it. For a dry
// run it returns the effect instead.
func (c *candidacy) quitElection(ctx context.Context, opts actOptions) (any, error) {
	if !opts.dryRun {
		// Until the request has ended no beat reports that this node is a candidate.
		c.quitting.Add(1)
		defer c.client.Poke() // the leader shows the observers
		defer c.quitting.Add(-1)
	}
	var granted uint64
	leader, err := c.leaderAdmin()
	if err == nil {
		var options []metaclient.Option
		var shown metaclient.Effect
		if opts.force {
			options = append(options, metaclient.Force())
		}
		if opts.dryRun {
			options = append(options, metaclient.DryRun(&shown))
		}
		asking, cancel := context.WithTimeout(ctx, proxyLimit(c.config.NodeLease))
		granted, err = leader.GrantQuit(asking, c.config.Node, options...)
		cancel()
		if err == nil && opts.dryRun {
			return shown, nil
		}
	}
	switch code := wire.CodeOf(err); {
	case err == nil && granted < c.fence.Highest() && !opts.force:
		return nil, wire.Errorf(wire.CodeConflict, "the leader of term %d granted it, but term %d has been seen since: try again", granted, c.fence.Highest())
	case err == nil:
	case code != wire.CodeNoLeader && code != wire.CodeUnavailable && code != wire.CodeNotLeader:
		return nil, err
	default:
		e := unsafe(wire.CodeNoLeader, "no meta node leads at the moment: %s may be the last candidate, and none would lead until one joins the election", c.config.Node.Name)
		if shown, err := opts.decide(e, c.forced(e)); shown != nil || err != nil {
			return shown, err
		}
	}
	if err := c.elector.Quit(ctx); err != nil {
		c.revoke(ctx)
		return nil, wire.Errorf(wire.CodeUnavailable, "%v", err)
	}
	return c.observes(true), nil
}

// joinElection makes this node a candidate again.
func (c *candidacy) joinElection(ctx context.Context, opts actOptions) (any, error) {
	if opts.dryRun {
		return shownEffect(safe("%s is a candidate again", c.config.Node.Name)), nil
	}
	if err := c.elector.JoinElection(ctx); err != nil {
		return nil, wire.Errorf(wire.CodeUnavailable, "%v", err)
	}
	c.client.Poke()
	c.revoke(ctx)
	return c.observes(false), nil
}

// forceRefresher is a strategy with the original's tool for operators
// (termcas.Sofa).
type forceRefresher interface {
	ForceRefresh(ctx context.Context, owner conclave.NodeID, lease time.Duration) error
}

// forceRefresh writes this node and its lease into the lock, in the term as it
// is (forceRefresh in article 000). A node of Conclave leads only what it has
// won, so no node leads until the lock has expired. For a dry run it returns the
// effect instead.
func (c *candidacy) forceRefresh(ctx context.Context, opts actOptions) (any, error) {
	sofa, ok := c.strategy.(forceRefresher)
	if !ok {
		return nil, wire.Errorf(wire.CodeBadRequest, "force-refresh is only for the profile sofa, which has no resignation: it gives a term a second owner")
	}
	self := c.config.Node.Name
	e := unsafe(wire.CodeUnsafe, "%s would own the lock in the same term without leading: the leader stops, and no meta leads until the lock expires, %v to %v later",
		self, c.config.Lease+time.Second, c.config.Lease+2*time.Second)
	_, leads := c.elector.Leading()
	if leads {
		e = safe("%s leads already, and renews the lock itself", self)
	}
	if shown, err := opts.decide(e, c.forced(e)); shown != nil || err != nil {
		return shown, err
	}
	if !leads { // the statement asks for no owner: another node may lead when it arrives
		if err := sofa.ForceRefresh(ctx, c.config.Node, c.config.Lease); err != nil {
			return nil, wire.Errorf(wire.CodeUnavailable, "%v", err)
		}
	}
	return map[string]any{"name": self, "leaseMs": c.config.Lease.Milliseconds()}, nil
}

// revoke withdraws the grant of this node at the leader. If the leader cannot
// be reached, it counts one candidate less until its term ends.
func (c *candidacy) revoke(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.config.NodeLease)
	defer cancel()
	leader, err := c.leaderAdmin()
	if err == nil {
		err = leader.RevokeQuit(ctx, c.config.Node.Name)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		c.log.Info("cannot withdraw the grant to quit at the leader", "error", err)
	}
}

// leaderAdmin returns the admin API of the leader, which may be this node.
func (c *candidacy) leaderAdmin() (*metaclient.Admin, error) {
	address := c.address
	if _, err := c.leadership.asLeader(); err != nil {
		var refusal *wire.Error
		if !errors.As(err, &refusal) || refusal.Address == "" {
			return nil, err
		}
		address = refusal.Address
	}
	return metaclient.NewAdmin(metaclient.AdminConfig{Metas: []string{address}, HTTP: c.http, TokenFor: c.token}), nil
}

// otherCandidate reports whether a meta other than the named one may lead: its
// beats arrive and report that it competes, it is not on the blacklist, and it
// was not granted to quit.
func (a *arranger) otherCandidate(name string) bool {
	self := a.config.Node
	if name != self.Name && !a.black().Has(self.Name) && !a.quits[self] {
		return true
	}
	return slices.ContainsFunc(a.roster.following(), func(n rosterEntry) bool {
		id := n.member.Node
		return n.ready && id.Name != name && !a.black().Has(id.Name) && !a.quits[id] && time.Since(n.lastBeat) < a.config.NodeLease
	})
}

// putObserver grants a meta to quit the election, for the rest of this term.
func (l *leader) putObserver(r *http.Request) (any, error) {
	var in metaclient.ObserverRequest
	if err := readBody(r, &in); err != nil {
		return nil, err
	}
	name := mux.Vars(r)["name"]
	id := conclave.NodeID{Name: name, Incarnation: in.Incarnation}
	return l.act(r, func() (effect, error) {
		if known, found := l.meta(name); !found || known != id {
			return effect{}, wire.Errorf(wire.CodeConflict, "the leader %s does not know %s as a meta node", l.config.Node.Name, id)
		}
		return l.arranger.effectOfQuit(name), nil
	}, func(context.Context) (any, error) {
		l.arranger.quits[id] = true
		l.log.Info("a meta was granted to quit the election", "node", name)
		return metaclient.ObserverGrant{Name: name, Term: l.term.Number}, nil
	})
}

// deleteObserver withdraws a grant: the meta competes again, or never quit.
func (l *leader) deleteObserver(r *http.Request) (any, error) {
	name := mux.Vars(r)["name"]
	err := l.arranger.ask(r.Context(), func(context.Context) error {
		for id := range l.arranger.quits {
			if id.Name == name {
				delete(l.arranger.quits, id)
			}
		}
		return nil
	})
	return map[string]any{"name": name}, err
}

// meta returns the identity of the meta of that name, this one included.
func (l *leader) meta(name string) (conclave.NodeID, bool) {
	if name == l.config.Node.Name {
		return l.config.Node, true
	}
	for _, n := range l.roster.following() {
		if n.member.Node.Name == name {
			return n.member.Node, true
		}
	}
	return conclave.NodeID{}, false
}
