package meta

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/gorilla/mux"

	"conclave"
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

// otherCandidate reports whether a meta other than the named one may lead: its
// beats arrive and report that it competes, it is not on the blacklist, and it
// was not granted to quit.
func (a *arranger) otherCandidate(name string) bool {
	self := a.l.s.cfg.Node
	if name != self.Name && !a.black.Has(self.Name) && !a.quits[self] {
		return true
	}
	now := time.Now()
	_, _, metas := a.l.roster.known(now)
	return slices.ContainsFunc(metas, func(n rosterEntry) bool {
		id := n.member.Node
		return n.ready && id.Name != name && !a.black.Has(id.Name) && !a.quits[id] && now.Sub(n.lastBeat) < a.l.s.cfg.NodeLease
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
			return effect{}, wire.Errorf(wire.CodeConflict, "the leader %s does not know %s as a meta node", l.s.cfg.Node.Name, id)
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
	err := l.ask(r.Context(), func(context.Context) error {
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
	if name == l.s.cfg.Node.Name {
		return l.s.cfg.Node, true
	}
	for _, m := range l.roster.metaMembers() {
		if m.Node.Name == name {
			return m.Node, true
		}
	}
	return conclave.NodeID{}, false
}

// postElection makes this node an observer, or a candidate again.
func (s *Server) postElection(w http.ResponseWriter, r *http.Request) {
	opts, err := parseActOptions(r)
	if err != nil {
		serve.WriteError(w, err)
		return
	}
	quit := mux.Vars(r)["act"] == "quit"
	var out any = map[string]any{"name": s.cfg.Node.Name, "observer": quit}
	switch {
	case quit:
		var shown *metaclient.Effect
		if shown, err = s.quitElection(r.Context(), opts); shown != nil {
			out = shown
		}
	case opts.dryRun:
		out = shownEffect(safe("%s is a candidate again", s.cfg.Node.Name))
	default:
		err = s.joinElection(r.Context())
	}
	if err != nil {
		serve.WriteError(w, err)
		return
	}
	serve.WriteJSON(w, http.StatusOK, out)
}

// quitElection makes this node an observer if the leader grants it. For a dry
// run it returns the effect instead.
func (s *Server) quitElection(ctx context.Context, opts actOptions) (*metaclient.Effect, error) {
	if !opts.dryRun {
		// Until the request has ended no beat reports that this node is a candidate.
		s.quitting.Add(1)
		defer s.client.Poke() // the leader shows the observers
		defer s.quitting.Add(-1)
	}
	var granted uint64
	leader, err := s.leaderAdmin()
	if err == nil {
		var options []metaclient.Option
		var shown metaclient.Effect
		if opts.force {
			options = append(options, metaclient.Force())
		}
		if opts.dryRun {
			options = append(options, metaclient.DryRun(&shown))
		}
		asking, cancel := context.WithTimeout(ctx, s.proxyLimit())
		granted, err = leader.GrantQuit(asking, s.cfg.Node, options...)
		cancel()
		if err == nil && opts.dryRun {
			return &shown, nil
		}
	}
	switch code := wire.CodeOf(err); {
	case err == nil && granted < s.fence.Highest() && !opts.force:
		return nil, wire.Errorf(wire.CodeConflict, "the leader of term %d granted it, but term %d has been seen since: try again", granted, s.fence.Highest())
	case err == nil:
	case code != wire.CodeNoLeader && code != wire.CodeUnavailable && code != wire.CodeNotLeader:
		return nil, err
	case opts.dryRun:
		e := shownEffect(s.quitsAlone())
		return &e, nil
	case !opts.force:
		return nil, s.quitsAlone().refusal
	default:
		s.event("act.forced", s.fence.Highest(), nil, nil, "forced: %s", s.quitsAlone().text)
	}
	if err := s.elector.Quit(ctx); err != nil {
		s.revoke(ctx)
		return nil, wire.Errorf(wire.CodeUnavailable, "%v", err)
	}
	return nil, nil
}

// quitsAlone returns the effect of quitting when no leader can be asked.
func (s *Server) quitsAlone() effect {
	return unsafe(wire.CodeNoLeader, "no meta node leads at the moment: %s may be the last candidate, and none would lead until one joins the election", s.cfg.Node.Name)
}

// joinElection makes this node a candidate again.
func (s *Server) joinElection(ctx context.Context) error {
	if err := s.elector.JoinElection(ctx); err != nil {
		return wire.Errorf(wire.CodeUnavailable, "%v", err)
	}
	s.client.Poke()
	s.revoke(ctx)
	return nil
}

// revoke withdraws the grant of this node at the leader. If the leader cannot
// be reached, it counts one candidate less until its term ends.
func (s *Server) revoke(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.NodeLease)
	defer cancel()
	leader, err := s.leaderAdmin()
	if err == nil {
		err = leader.RevokeQuit(ctx, s.cfg.Node.Name)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		s.log.Info("cannot withdraw the grant to quit at the leader", "error", err)
	}
}

// leaderAdmin returns the admin API of the leader, which may be this node.
func (s *Server) leaderAdmin() (*metaclient.Admin, error) {
	address := s.Address()
	if _, err := s.asLeader(); err != nil {
		var refusal *wire.Error
		if !errors.As(err, &refusal) || refusal.Address == "" {
			return nil, err
		}
		address = refusal.Address
	}
	return metaclient.NewAdmin(metaclient.AdminConfig{Metas: []string{address}, HTTP: s.peers.HTTP(), Token: s.cfg.Token}), nil
}
