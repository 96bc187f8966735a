package meta

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/elector"
	"conclave/internal/signal"
	"conclave/internal/sleep"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// leader is all that exists only while this node leads one term: it is made
// when the term is won and dropped when the term ends.
//
//	beats up                                     commands (admin, Drain, Leave)
//	   |                                                 |
//	   v             something is new                    v
//	roster  ---------------------------------------> arranger ----> SQL, under the term
//	   ^                                                 |
//	   |   live nodes and their reports                  | written
//	   +-------------------------------------------------+
//	                                                     v
//	beats down <-- updates: something to send <----- wire.View
type leader struct {
	s    *Server
	log  hclog.Logger
	term elector.Term
	ctx  context.Context // ends with the leadership; its calls carry the term

	roster      *roster
	arranger    *arranger
	evidence    evidence
	beat        atomic.Uint64    // the last that the database acknowledged
	updates     signal.Broadcast // notified when there is something to send: a beat, or a change
	loaded      chan struct{}    // closed once the stored state has been read
	warm        atomic.Bool      // this term has written: no node can hold more than was published
	propagation propagation
	helpers     group     // short tasks: announcing, examining suspects
	lastContact time.Time // when a session or data node last sent a beat, or did not need to; used by the arranger only
}

// lead is called by the elector with each term that this node wins. It returns
// when the term has ended and everything that it started has stopped.
func (s *Server) lead(ctx context.Context, term elector.Term) error {
	s.fence.Saw(term.Number)
	ctx, cancel := context.WithCancel(wire.WithTerm(ctx, term.Number))
	l := &leader{
		s: s, log: s.log.Named("leader"), term: term, ctx: ctx,
		roster: newRoster(s.cfg.NodeLease), loaded: make(chan struct{}), lastContact: time.Now(),
	}
	l.arranger = newArranger(l)
	l.beat.Store(term.Beat)
	s.event("leader.elected", term.Number, nil, map[string]any{
		"leader": s.cfg.Node.Name, "cause": term.Cause, "previous": term.Previous.Name, "leaderlessMs": term.Leaderless.Milliseconds(),
	}, "%s leads term %d (%s)", s.cfg.Node.Name, term.Number, term.Cause)
	s.setLeader(l)
	l.announce(l.announceTargets())

	err := l.arranger.run(ctx)

	s.setLeader(nil)
	what, why := "leader.lost", context.Cause(ctx)
	switch {
	case why == nil: // the arranger noticed the end first
		why = err
	case errors.Is(why, elector.ErrResigned):
		what = "leader.resigned"
	}
	cancel()
	l.helpers.close()
	s.event(what, term.Number, nil, map[string]any{"leader": s.cfg.Node.Name, "why": why.Error()}, "%s no longer leads term %d: %v", s.cfg.Node.Name, term.Number, why)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// renewed is called by the elector with each renewal that the database has
// acknowledged. The beat is sent on every stream at once. It does not block.
func (s *Server) renewed(t elector.Term) {
	if l, _ := s.leading(); l != nil && l.term.Number == t.Number {
		l.beat.Store(t.Beat)
		l.updates.Notify()
		l.arranger.changed.Set() // some decisions depend on time alone
	}
}

// announceTargets returns all nodes to which a new leader announces itself: the
// members that this node knew as a follower, and all metas.
func (l *leader) announceTargets() []wire.Member {
	list := append([]wire.Member(nil), l.s.view.State().Members.List...)
	for _, address := range l.s.knownMetas() {
		list = append(list, wire.Member{Address: address, Role: conclave.RoleMeta})
	}
	return list
}

// announce announces this leader to members, all at once and in the background.
// Their answers are evidence: a refusal of the term as too low carries the
// highest term seen; two refused dials, 100 ms apart, show that a member that
// an earlier leader could dial is dead.
func (l *leader) announce(to []wire.Member) {
	for _, m := range to {
		l.helpers.Go(func() {
			for refused := 0; refused < 2; refused++ {
				err := l.announceTo(m.Address)
				if err == nil || !wire.Refused(err) {
					return
				}
				if refused == 1 && m.Dialable && l.roster.markDead(m.Node) {
					l.arranger.changed.Set()
				}
				if sleep.For(l.ctx, 100*time.Millisecond) != nil {
					return
				}
			}
		})
	}
}

func (l *leader) announceTo(address string) error {
	ctx, cancel := context.WithTimeout(l.ctx, l.s.cfg.NodeLease/2)
	defer cancel()
	err := l.s.callAnnounce(ctx, address, &wirev1.AnnounceRequest{Term: l.term.Number, Leader: wire.NodeOut(l.s.cfg.Node), Address: l.s.Address()})
	var refusal *wire.Error
	if errors.As(err, &refusal) && refusal.Code == wire.CodeStaleEpoch {
		l.log.Warn("this term was refused: a higher one has been seen", "term", l.term.Number, "seen", refusal.Epoch.Term, "by", address)
		l.outranked(refusal.Epoch.Term)
	}
	return err
}

// metas returns the metas that are known to run, this one first.
func (l *leader) metas() []*wirev1.Member {
	out := []*wirev1.Member{wire.MemberOut(wire.Member{Node: l.s.cfg.Node, Role: conclave.RoleMeta, Address: l.s.Address()})}
	for _, m := range l.roster.metaMembers() {
		out = append(out, wire.MemberOut(m))
	}
	return out
}

// event records an event.
func (s *Server) event(what string, term uint64, epoch *conclave.Epoch, data map[string]any, format string, args ...any) {
	s.events.Add(wire.Event{Type: what, Term: term, Epoch: epoch, Text: fmt.Sprintf(format, args...), Data: data})
}

// evidence is what the beats of a warm-up report about a slot table that the
// database does not have, because it was restored from a backup.
type evidence struct {
	mu      sync.Mutex     // guards the rest
	table   conclave.Epoch // the highest that any node holds
	address string         // of the node that holds it
}

func (e *evidence) see(table conclave.Epoch, address string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.table.Less(table) {
		e.table, e.address = table, address
	}
}

func (e *evidence) highest() (conclave.Epoch, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.table, e.address
}

// forget drops the evidence; later beats may report it again.
func (e *evidence) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.table, e.address = conclave.Epoch{}, ""
}
