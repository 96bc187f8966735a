package meta

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/gorilla/mux"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/wire"
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
	self := a.config.Node
	if name != self.Name && !a.black().Has(self.Name) && !a.quits[self] {
		return true
	}
	now := time.Now()
	_, _, metas := a.roster.known(now)
	return slices.ContainsFunc(metas, func(n rosterEntry) bool {
		id := n.member.Node
		return n.ready && id.Name != name && !a.black().Has(id.Name) && !a.quits[id] && now.Sub(n.lastBeat) < a.config.NodeLease
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
	for _, m := range l.roster.metaMembers() {
		if m.Node.Name == name {
			return m.Node, true
		}
	}
	return conclave.NodeID{}, false
}
