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
)

// Leaving and joining the election by an operator's word. Being an observer is a
// meta's own state, in its memory; whether it may become one is the leader's
// decision, so that of two metas that are asked at the same moment the last
// candidate is refused.
//
//	operator --quit--> meta --may I?--> leader: is another one a candidate?
//	                     |                 yes: noted for the rest of the term
//	                     | <---- the term -+
//	                     v
//	            a higher term seen since: refused; otherwise it observes
//
// A grant is of one term. The next leader counts a meta as a candidate by a beat
// that reports it, and a meta whose request is in progress reports that it is no
// candidate. So when a grant arrives late, either the new leader does not count
// its receiver, or the receiver has seen the new term and refuses the grant.

// otherCandidate reports whether a meta besides the named one may lead: it is
// heard, reports that it competes, is not forbidden, and was not granted to quit.
func (a *arranger) otherCandidate(name string) bool {
	self := a.l.s.cfg.Node
	if name != self.Name && !a.black.Has(self.Name) && !a.quits[self] {
		return true
	}
	now := time.Now()
	_, _, metas := a.l.roster.known(now)
	return slices.ContainsFunc(metas, func(n node) bool {
		id := n.member.Node
		return n.ready && id.Name != name && !a.black.Has(id.Name) && !a.quits[id] && now.Sub(n.spoke) < a.l.s.cfg.NodeLease
	})
}

// putObserver lets a meta quit the election, for the rest of this term.
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
		return l.arranger.quitting(name), nil
	}, func(context.Context) (any, error) {
		l.arranger.quits[id] = true
		l.log.Info("a meta was granted to quit the election", "node", name)
		return metaclient.ObserverGrant{Name: name, Term: l.term.Number}, nil
	})
}

// deleteObserver takes a grant back: the meta competes again, or never quit.
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

// meta is the identity of a meta of that name, this one included.
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

// postElection makes this very node an observer, or a candidate again.
func (s *Server) postElection(w http.ResponseWriter, r *http.Request) {
	how, err := mannerOf(r)
	if err != nil {
		wire.WriteError(w, err)
		return
	}
	quit := mux.Vars(r)["act"] == "quit"
	var out any = map[string]any{"name": s.cfg.Node.Name, "observer": quit}
	switch {
	case quit:
		var shown *metaclient.Effect
		if shown, err = s.quitElection(r.Context(), how); shown != nil {
			out = shown
		}
	case how.dryRun:
		out = shownEffect(fine("%s is a candidate again", s.cfg.Node.Name))
	default:
		err = s.joinElection(r.Context())
	}
	if err != nil {
		wire.WriteError(w, err)
		return
	}
	wire.WriteJSON(w, http.StatusOK, out)
}

// quitElection makes this node an observer if the leader grants it. It returns
// the effect instead when only that is asked for.
func (s *Server) quitElection(ctx context.Context, how manner) (*metaclient.Effect, error) {
	if !how.dryRun {
		// Until the request has ended no beat reports that this node is a candidate.
		s.quitting.Add(1)
		defer s.client.Poke() // the leader shows who observes
		defer s.quitting.Add(-1)
	}
	var granted uint64
	leader, err := s.leaderAdmin()
	if err == nil {
		var options []metaclient.Option
		var shown metaclient.Effect
		if how.force {
			options = append(options, metaclient.Force())
		}
		if how.dryRun {
			options = append(options, metaclient.DryRun(&shown))
		}
		asking, cancel := context.WithTimeout(ctx, s.proxyLimit())
		granted, err = leader.GrantQuit(asking, s.cfg.Node, options...)
		cancel()
		if err == nil && how.dryRun {
			return &shown, nil
		}
	}
	switch code := wire.CodeOf(err); {
	case err == nil && granted < s.fence.Highest() && !how.force:
		return nil, wire.Errorf(wire.CodeConflict, "the leader of term %d has granted it, and term %d was seen since: ask again", granted, s.fence.Highest())
	case err == nil:
	case code != wire.CodeNoLeader && code != wire.CodeUnavailable && code != wire.CodeNotLeader:
		return nil, err
	case how.dryRun:
		e := shownEffect(s.quitsAlone())
		return &e, nil
	case !how.force:
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

// quitsAlone is the effect of quitting where no leader can be asked.
func (s *Server) quitsAlone() effect {
	return unsafe(wire.CodeNoLeader, "no meta node leads just now: %s may be the last candidate, and none would lead until one joins the election", s.cfg.Node.Name)
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

// revoke makes the leader forget that it let this node quit. If it cannot be
// reached it goes on counting one candidate less, until its term ends.
func (s *Server) revoke(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.NodeLease)
	defer cancel()
	leader, err := s.leaderAdmin()
	if err == nil {
		err = leader.RevokeQuit(ctx, s.cfg.Node.Name)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		s.log.Info("the leader could not be asked to count this node as a candidate again", "error", err)
	}
}

// leaderAdmin is the admin API of the leader, which may be this node.
func (s *Server) leaderAdmin() (*metaclient.Admin, error) {
	address := s.address
	if _, err := s.asLeader(); err != nil {
		var who *wire.Error
		if !errors.As(err, &who) || who.Address == "" {
			return nil, err
		}
		address = who.Address
	}
	return metaclient.NewAdmin(metaclient.AdminConfig{Metas: []string{address}, HTTP: s.peers.HTTP(), Token: s.cfg.Token}), nil
}
