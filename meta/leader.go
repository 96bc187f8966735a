package meta

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/elector"
	"conclave/internal/join"
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

// leadership knows which meta leads, and leads the terms that this node wins.
type leadership struct {
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
	background *join.Group

	mu      sync.Mutex       // guards the rest
	own     *leader          // while this node leads; nil otherwise
	changed signal.Broadcast // when own changes
	metas   []string         // addresses of the metas that followed this node when it led
}

// lead is called by the elector with each term that this node wins. It returns
// when the term has ended and everything that it started has stopped.
func (ls *leadership) lead(ctx context.Context, term elector.Term) error {
	ls.fence.Saw(term.Number)
	ctx, cancel := context.WithCancel(wire.WithTerm(ctx, term.Number))
	t := &tenure{
		config:     ls.config,
		log:        ls.log.Named("leader"),
		address:    ls.address,
		term:       term,
		began:      time.Now(),
		ctx:        ctx,
		elector:    ls.elector,
		view:       ls.view,
		events:     ls.events,
		calls:      ls.calls,
		background: ls.background,
		roster:     newRoster(ls.config.NodeLease, ls.config.Beat/2, time.Now()),
		changed:    signal.New(),
		loaded:     make(chan struct{}),
		knownMetas: ls.knownMetas,
	}
	t.beat.Store(term.Beat)
	l := &leader{
		tenure:    t,
		arranger:  newArranger(t, derive(ls.rand)),
		joins:     &joins{tenure: t},
		elections: &elections{history: ls.config.History},
	}
	l.event(hclog.Debug, "leader.elected", conclave.Epoch{}, map[string]any{
		"leader": ls.config.Node.Name, "cause": term.Cause, "previous": term.Previous.Name, "leaderlessMs": term.Leaderless.Milliseconds(),
	}, "%s leads term %d (%s)", ls.config.Node.Name, term.Number, term.Cause)
	ls.set(l)
	l.announce(l.targets())
	l.helpers.Go(l.runRounds)

	err := l.arranger.run(ctx)

	ls.set(nil)
	what, why := "leader.lost", context.Cause(ctx)
	switch {
	case why == nil: // the arranger noticed the end first
		why = err
	case errors.Is(why, elector.ErrResigned):
		what = "leader.resigned"
	}
	cancel()
	l.helpers.Close()
	l.event(hclog.Debug, what, conclave.Epoch{}, map[string]any{"leader": ls.config.Node.Name, "why": why.Error()}, "%s no longer leads term %d: %v", ls.config.Node.Name, term.Number, why)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// renewed is called by the elector with each renewal that the database has
// acknowledged. The beat is sent to the metas at once. It does not block.
func (ls *leadership) renewed(t elector.Term) {
	if l, _ := ls.current(); l != nil && l.term.Number == t.Number {
		l.beat.Store(t.Beat)
		l.renewals.Notify()
		l.changed.Set() // some decisions depend on time alone
	}
}

// knownMetas returns the addresses of all other metas that this node knows:
// configured, named by a leader, or following this node.
func (ls *leadership) knownMetas() []string {
	all := ls.configured()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.own != nil {
		ls.metas = ls.own.roster.metaAddresses()
	}
	for _, a := range ls.metas {
		if a != ls.address && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// set records that this node leads, or, with nil, that it does not.
func (ls *leadership) set(l *leader) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.own != nil { // keep the metas to wake after a resignation
		ls.metas = ls.own.roster.metaAddresses()
	}
	ls.own = l
	ls.changed.Notify()
}

// current returns the leader that this node is now, or nil; changed is closed when
// that changes.
func (ls *leadership) current() (own *leader, changed <-chan struct{}) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.own, ls.changed.Next()
}

// asLeader returns the leader that this node is, if its lease is valid, otherwise
// the refusal that names the other leader. A leader that is suspended because its
// connection to the database broke still answers; its writes wait
// (arranger.awaitRight).
func (ls *leadership) asLeader() (*leader, error) {
	if l, _ := ls.current(); l != nil && l.ctx.Err() == nil && ls.elector.Remaining() > 0 {
		return l, nil
	}
	name, address := ls.otherLeader()
	return nil, wire.NotLeader(name, address)
}

// otherLeader returns the other node that leads with a valid lease, as far as
// known. It may have this node's name, if two nodes were given the same one.
func (ls *leadership) otherLeader() (name, address string) {
	t := ls.elector.Current()
	if ls.elector.Remaining() <= 0 || t.Leader == ls.config.Node {
		return "", ""
	}
	return t.Leader.Name, t.Address
}
