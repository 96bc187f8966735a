package meta

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave/elector"
	"conclave/internal/signal"
	"conclave/wire"
	"conclave/wire/serve"
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
	*tenure
	arranger  *arranger
	joins     *joins
	elections *elections
}

// leaders knows which meta leads, and leads the terms that this node wins.
type leaders struct {
	config     Config
	log        hclog.Logger
	address    string // of this node
	elector    *elector.Elector
	view       *wire.View
	fence      *wire.Fence
	events     *serve.Events
	calls      *calls
	configured func() []string // the metas that the client of this node knows
	rand       *rand.Rand      // source of the random streams of the arrangers; used by lead only
	background *group

	mu      sync.Mutex       // guards the rest
	leader  *leader          // while this node leads; nil otherwise
	changed signal.Broadcast // when leader changes
	metas   []string         // addresses of the metas that followed this node when it led
}

// lead is called by the elector with each term that this node wins. It returns
// when the term has ended and everything that it started has stopped.
func (s *leaders) lead(ctx context.Context, term elector.Term) error {
	s.fence.Saw(term.Number)
	ctx, cancel := context.WithCancel(wire.WithTerm(ctx, term.Number))
	t := &tenure{
		config: s.config, log: s.log.Named("leader"), address: s.address, term: term, began: time.Now(), ctx: ctx, elector: s.elector,
		view: s.view, events: s.events, knock: s.calls.peers.Knock, background: s.background,
		roster: newRoster(s.config.NodeLease, s.config.Beat/2, time.Now()), changed: signal.New(), loaded: make(chan struct{}),
	}
	t.beat.Store(term.Beat)
	announcer := &announcer{tenure: t, metas: s.knownMetas, call: s.calls.announce}
	l := &leader{tenure: t, joins: &joins{t}, elections: &elections{history: t.config.History}, arranger: newArranger(t, derive(s.rand), announcer, s.calls.fetchState)}
	l.event("leader.elected", nil, map[string]any{
		"leader": s.config.Node.Name, "cause": term.Cause, "previous": term.Previous.Name, "leaderlessMs": term.Leaderless.Milliseconds(),
	}, "%s leads term %d (%s)", s.config.Node.Name, term.Number, term.Cause)
	s.set(l)
	announcer.announce(announcer.targets())
	l.helpers.Go(l.runRounds)

	err := l.arranger.run(ctx)

	s.set(nil)
	what, why := "leader.lost", context.Cause(ctx)
	switch {
	case why == nil: // the arranger noticed the end first
		why = err
	case errors.Is(why, elector.ErrResigned):
		what = "leader.resigned"
	}
	cancel()
	l.helpers.close()
	l.event(what, nil, map[string]any{"leader": s.config.Node.Name, "why": why.Error()}, "%s no longer leads term %d: %v", s.config.Node.Name, term.Number, why)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// renewed is called by the elector with each renewal that the database has
// acknowledged. The beat is sent on every stream at once. It does not block.
func (s *leaders) renewed(t elector.Term) {
	if l, _ := s.leading(); l != nil && l.term.Number == t.Number {
		l.beat.Store(t.Beat)
		l.updates.Notify()
		l.changed.Set() // some decisions depend on time alone
	}
}

// knownMetas returns the addresses of all other metas that this node knows:
// configured, named by a leader, or following this node.
func (s *leaders) knownMetas() []string {
	all := s.configured()
	s.mu.Lock()
	defer s.mu.Unlock()
	more := s.metas
	if s.leader != nil {
		more = nil
		for _, m := range s.leader.roster.metaMembers() {
			more = append(more, m.Address)
		}
	}
	for _, a := range more {
		if a != s.address && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// set records that this node leads, or, with nil, that it does not.
func (s *leaders) set(l *leader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l == nil && s.leader != nil { // keep the metas to wake after a resignation
		s.metas = nil
		for _, m := range s.leader.roster.metaMembers() {
			s.metas = append(s.metas, m.Address)
		}
	}
	s.leader = l
	s.changed.Notify()
}

// leading returns the leader state while this node leads, or nil; changed is
// closed when that changes.
func (s *leaders) leading() (l *leader, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader, s.changed.Next()
}

// asLeader returns the leader state if this node leads with a valid lease,
// otherwise the refusal that names the current leader. A leader that is
// suspended because its connection to the database broke still answers; its
// writes wait (arranger.mayAct).
func (s *leaders) asLeader() (*leader, error) {
	if l, _ := s.leading(); l != nil && l.ctx.Err() == nil && s.elector.Remaining() > 0 {
		return l, nil
	}
	name, address := s.currentLeader()
	return nil, wire.NotLeader(name, address)
}

// currentLeader returns the other node that leads with a valid lease, as far as
// known. It may have this node's name, if two nodes were given the same one.
func (s *leaders) currentLeader() (name, address string) {
	t := s.elector.Current()
	if s.elector.Remaining() <= 0 || t.Leader == s.config.Node {
		return "", ""
	}
	return t.Leader.Name, t.Address
}
