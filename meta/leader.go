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
	"conclave/internal/sleep"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// leader is all that exists only while this node leads one term: it is made when
// the term is won, and nothing of it outlives the term.
//
//	beats up                                     commands (admin, Drain, Leave)
//	   |                                                 |
//	   v          woken by news                          v
//	roster  ---------------------------------------> arranger ----> SQL, under the term
//	   ^                                                 |
//	   |   who lives, what they report                   | written
//	   +-------------------------------------------------+
//	                                                     v
//	beats down <---- bell: something to send <------- wire.View
type leader struct {
	s    *Server
	log  hclog.Logger
	term elector.Term
	ctx  context.Context // ends with the leadership; its calls carry the term

	roster   *roster
	arranger *arranger
	evidence evidence
	beat     atomic.Uint64 // the newest that the database acknowledged
	bell     *bell         // rung when there is something to send: a beat, or a change
	loaded   chan struct{} // closed once the stored state was read
	warm     atomic.Bool   // this term has written: nobody can hold more than was published
	spread   spread
	helpers  group     // short errands: announcing, looking at suspects
	reached  time.Time // when a session or data node was last heard, or need not have been; the arranger's
}

// lead is what the elector calls with each term that this node wins. It returns
// when the term ends, and by then nothing of it runs any more.
func (s *Server) lead(ctx context.Context, term elector.Term) error {
	s.fence.Saw(term.Number)
	ctx, cancel := context.WithCancel(wire.WithTerm(ctx, term.Number))
	l := &leader{
		s: s, log: s.log.Named("leader"), term: term, ctx: ctx,
		roster: newRoster(s.cfg.NodeLease), bell: newBell(), loaded: make(chan struct{}), reached: time.Now(),
	}
	l.arranger = newArranger(l)
	l.beat.Store(term.Beat)
	s.event("leader.elected", term.Number, nil, map[string]any{
		"leader": s.cfg.Node.Name, "cause": term.Cause, "previous": term.Previous.Name, "leaderlessMs": term.Leaderless.Milliseconds(),
	}, "%s leads term %d (%s)", s.cfg.Node.Name, term.Number, term.Cause)
	s.setLeader(l)
	l.announce(l.everybody())

	err := l.arranger.run(ctx)

	s.setLeader(nil)
	what, why := "leader.lost", context.Cause(ctx)
	switch {
	case why == nil: // the arranger saw the end first
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

// beaten is called by the elector with each renewal that the database has
// acknowledged: the beat goes down every stream at once. It does not block.
func (s *Server) beaten(t elector.Term) {
	if l, _ := s.leading(); l != nil && l.term.Number == t.Number {
		l.beat.Store(t.Beat)
		l.bell.ring()
		l.arranger.wake() // a tick for what only time brings about
	}
}

// everybody are all who should hear of a new leader: the members that this node
// knew of as a follower, and all metas.
func (l *leader) everybody() []wire.Member {
	list := append([]wire.Member(nil), l.s.view.State().Members.List...)
	for _, address := range l.s.knownMetas() {
		list = append(list, wire.Member{Address: address, Role: conclave.RoleMeta})
	}
	return list
}

// announce tells members, all at once and in the background, who leads now.
// What they answer is evidence: a refusal of our term as too low says the
// highest seen; two refused dials, 100 ms apart, say that a member whom an
// earlier leader could dial is dead.
func (l *leader) announce(to []wire.Member) {
	for _, m := range to {
		l.helpers.Go(func() {
			for refused := 0; refused < 2; refused++ {
				err := l.announceTo(m.Address)
				if err == nil || !wire.Refused(err) {
					return
				}
				if refused == 1 && m.Dialable && l.roster.dead(m.Node) {
					l.arranger.wake()
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
	err := l.s.callAnnounce(ctx, address, &wirev1.AnnounceRequest{Term: l.term.Number, Leader: wire.NodeOut(l.s.cfg.Node), Address: l.s.address})
	var refusal *wire.Error
	if errors.As(err, &refusal) && refusal.Code == wire.CodeStaleEpoch {
		l.log.Warn("our term is refused as too low", "term", l.term.Number, "seen", refusal.Epoch.Term, "by", address)
		l.outranked(refusal.Epoch.Term)
	}
	return err
}

// metas are the metas that are known to run, this one first.
func (l *leader) metas() []*wirev1.Member {
	out := []*wirev1.Member{wire.MemberOut(wire.Member{Node: l.s.cfg.Node, Role: conclave.RoleMeta, Address: l.s.address})}
	for _, m := range l.roster.metaMembers() {
		out = append(out, wire.MemberOut(m))
	}
	return out
}

// event notes what happened.
func (s *Server) event(what string, term uint64, epoch *conclave.Epoch, data map[string]any, format string, args ...any) {
	s.events.Add(wire.Event{Type: what, Term: term, Epoch: epoch, Text: fmt.Sprintf(format, args...), Data: data})
}

// evidence is what the beats of a warm-up say about a table that the database
// does not have, because it was restored from a backup.
type evidence struct {
	mu      sync.Mutex     // guards the rest
	table   conclave.Epoch // the highest held by any node
	address string         // where
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

// forget drops what was seen; it may be seen again.
func (e *evidence) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.table, e.address = conclave.Epoch{}, ""
}
