package meta

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/elector"
	"conclave/internal/logging"
	"conclave/internal/node"
	"conclave/internal/signal"
	"conclave/internal/stage"
	"conclave/meta/metaclient"
	"conclave/wire"
	"conclave/wire/serve"
)

// Server is one meta node.
type Server struct {
	*node.Base
	cfg    Config
	log    hclog.Logger
	view   *wire.View
	fence  *wire.Fence
	events *serve.Events
	peers  *wire.Peers
	client *metaclient.Client
	nonces *rand.Rand // source of the random streams of the arrangers; used by lead only

	elector *elector.Elector // made by Run before Started is closed

	quitting atomic.Int32 // requests to quit the election that are in progress

	background group // what handlers start and Run joins

	changed signal.Broadcast // when leader changes

	mu     sync.Mutex // guards the rest
	leader *leader    // while this node leads; nil otherwise
	metas  []string   // addresses of the metas that followed this node when it led
}

// New returns a meta node that does nothing until Run, or an error if the
// configuration is invalid.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("meta: %w", err)
	}
	if cfg.Strategy == nil || cfg.Store == nil || cfg.History == nil {
		return nil, errors.New("meta: Strategy, Store and History are needed")
	}
	cfg.Rand = derive(cfg.Rand) // the caller may use its own at the same time
	cfg.Trace = cfg.Trace.Of(cfg.Node)
	nonces := derive(cfg.Rand)
	b := node.New(cfg.Config, conclave.RoleMeta)
	s := &Server{
		Base: b, cfg: cfg, log: b.Log, view: b.View(), fence: b.Fence, events: b.Events(), peers: b.Peers, client: b.Meta,
		nonces: nonces,
	}
	s.client.Report, s.client.Heard, s.client.Broke, s.client.Guess = s.report, s.observeBeat, s.suspectLeader, s.leaderFromStore
	return s, nil
}

// Elector returns this node's elector. It is valid once Started is closed.
func (s *Server) Elector() *elector.Elector { return s.elector }

// Run serves until Shutdown is complete (nil), until an error that retrying
// cannot resolve, or until ctx ends; see node.Base.Run.
func (s *Server) Run(ctx context.Context) error {
	defer s.background.close()
	return s.Base.Run(ctx, 50*time.Millisecond, s.assemble, s.elect)
}

// assemble makes the parts that need the address.
func (s *Server) assemble(address string) (http.Handler, error) {
	strategy, err := s.cfg.Strategy(s.askWitness)
	if err != nil {
		return nil, fmt.Errorf("make the election strategy: %w", err)
	}
	s.elector, err = elector.New(elector.Config{
		ID: s.cfg.Node, Address: address, Strategy: strategy, Lease: s.cfg.Lease, Beat: s.cfg.Beat, Observer: s.cfg.Observer,
		Lead: s.lead, OnBeat: s.renewed, WakePeers: s.wakePeers,
		Rand: s.NewRand(), Now: s.cfg.Now, Logger: logging.Slog(s.log.Named("elector")), Trace: TraceElection(s.cfg.Trace, s.cfg.Node),
	})
	if err != nil {
		return nil, fmt.Errorf("make the elector: %w", err)
	}
	s.exportMetrics()
	return s.routes(), nil
}

// elect takes part in the election until ctx ends. The listener is open before
// the elector runs, and closed after it has ended: a follower that acquired the
// leader's lock asks at this port. The loops beside the elector end after it.
func (s *Server) elect(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	beside, end := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	defer loops.Wait()
	defer end()
	loops.Go(func() {
		if err := s.runFollow(beside); beside.Err() == nil {
			fail(err)
		}
	})
	loops.Go(func() { s.runObserve(beside) })
	loops.Go(func() { s.runNotice(beside) })
	if err := s.elector.Run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("elector: %w", err)
	}
	<-ctx.Done() // the elector may have been shut down
	return context.Cause(ctx)
}

// Shutdown hands the leadership over, if this node has it, and then stops the
// node; Run returns nil afterwards. If ctx ends first, the node stops all the
// same, and the error names the step.
func (s *Server) Shutdown(ctx context.Context) error {
	return s.Base.Shutdown(ctx, func(ctx context.Context) error {
		return stage.Run(ctx, s.log, []stage.Stage{{Name: "resign", Do: s.elector.Shutdown}})
	})
}

// knownMetas returns the addresses of all other metas that this node knows:
// configured, named by a leader, or following this node.
func (s *Server) knownMetas() []string {
	all := s.client.Metas()
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
		if a != s.Address() && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// setLeader records that this node leads, or, with nil, that it does not.
func (s *Server) setLeader(l *leader) {
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
func (s *Server) leading() (l *leader, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader, s.changed.Next()
}

// asLeader returns the leader state if this node leads with a valid lease,
// otherwise the refusal that names the current leader. A leader that is
// suspended because its connection to the database broke still answers; its
// writes wait (arranger.mayAct).
func (s *Server) asLeader() (*leader, error) {
	if l, _ := s.leading(); l != nil && l.ctx.Err() == nil && s.elector.Remaining() > 0 {
		return l, nil
	}
	name, address := s.currentLeader()
	return nil, wire.NotLeader(name, address)
}

// currentLeader returns the other node that leads with a valid lease, as far as
// known. It may have this node's name, if two nodes were given the same one.
func (s *Server) currentLeader() (name, address string) {
	t := s.elector.Current()
	if s.elector.Remaining() <= 0 || t.Leader == s.cfg.Node {
		return "", ""
	}
	return t.Leader.Name, t.Address
}

// ready reports whether a leader with a valid lease is known.
func (s *Server) ready() (bool, []string) {
	if s.elector.Remaining() <= 0 {
		return false, []string{"no leader with a valid lease is known"}
	}
	if left, _ := s.view.Stopping(); left > 0 {
		return true, []string{fmt.Sprintf("the cluster stops: a node that stops within %v hands nothing over", left.Round(time.Second))}
	}
	return true, nil
}
