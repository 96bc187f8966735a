package meta

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/elector"
	"conclave/internal/join"
	"conclave/internal/logging"
	"conclave/internal/node"
	"conclave/internal/stage"
	"conclave/meta/metaclient"
	"conclave/wire"
	"conclave/wire/serve"
	"conclave/wire/v1/wirev1connect"
)

// Server is one meta node.
type Server struct {
	*node.Base
	config Config
	log    hclog.Logger
	view   *wire.View
	client *metaclient.Client
	nonces *rand.Rand

	// The parts, which do not know the server. They are made by Run before Started
	// is closed, because they need the address.
	elector    *elector.Elector
	leadership *leadership
	follower   *follower
	candidacy  *candidacy

	background join.Group // what handlers start and Run joins
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
	return &Server{Base: b, config: cfg, log: b.Log, view: b.View(), client: b.Meta, nonces: nonces}, nil
}

// Elector returns this node's elector. It is valid once Started is closed.
func (s *Server) Elector() *elector.Elector { return s.elector }

// Run serves until Shutdown is complete (nil), until an error that retrying
// cannot resolve, or until ctx ends; see node.Base.Run.
func (s *Server) Run(ctx context.Context) error {
	defer s.background.Close()
	return s.Base.Run(ctx, 50*time.Millisecond, s.assemble, s.elect)
}

// assemble makes the parts and gives each what it needs.
func (s *Server) assemble(address string) (http.Handler, error) {
	calls := &calls{peers: s.Peers, network: s.config.Network, log: s.log}
	strategy, err := s.config.Strategy(calls.askWitness)
	if err != nil {
		return nil, fmt.Errorf("make the election strategy: %w", err)
	}
	s.leadership = &leadership{
		config: s.config, log: s.log, address: address, view: s.view, fence: s.Fence, events: s.Events(), calls: calls,
		configured: s.client.Metas, rand: s.nonces, background: &s.background,
	}
	s.elector, err = elector.New(elector.Config{
		ID: s.config.Node, Address: address, Strategy: strategy, Lease: s.config.Lease, Beat: s.config.Beat, Observer: s.config.Observer, HandOver: elector.NoHandOver,
		Lead: s.leadership.lead, OnBeat: s.leadership.renewed,
		WakePeers: func(ctx context.Context, resigned elector.Term) {
			calls.wakePeers(ctx, s.leadership.knownMetas(), resigned)
		},
		Rand: s.NewRand(), Now: s.config.Now, Logger: logging.Slog(s.log.Named("elector")), Trace: TraceElection(s.config.Trace, s.config.Node),
	})
	if err != nil {
		return nil, fmt.Errorf("make the elector: %w", err)
	}
	s.leadership.elector = s.elector
	s.candidacy = &candidacy{
		config: s.config, log: s.log, address: address, strategy: strategy, elector: s.elector, client: s.client, fence: s.Fence, events: s.Events(),
		leadership: s.leadership, http: s.Peers.HTTP(), token: s.TokenFor,
	}
	f := &follower{
		self: s.config.Node, log: s.log, elector: s.elector, client: s.client, view: s.view, leadership: s.leadership, competes: s.candidacy.competes,
	}
	s.follower = f
	s.client.Report, s.client.OnMessage, s.client.Broke, s.client.Guess = f.report, f.observeBeat, f.suspectLeader, f.leaderFromStore
	exportMetrics(s.Metrics, s.elector, s.view, s.leadership, s.config.Database)
	return s.routes(address), nil
}

// elect takes part in the election until ctx ends. The listener is open before
// the elector runs, and closed after it has ended: a follower that acquired the
// leader's lock asks at this port. The loops beside the elector end after it.
func (s *Server) elect(ctx context.Context) error {
	s.Events().Add(wire.Event{Type: "meta.started", Term: s.Fence.Highest(), Text: fmt.Sprintf("meta %s started", s.config.Node)})
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	beside, end := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	defer loops.Wait()
	defer end()
	loops.Go(func() {
		if err := s.follower.runFollow(beside); beside.Err() == nil {
			fail(err)
		}
	})
	loops.Go(func() { s.follower.runObserve(beside) })
	loops.Go(func() { s.follower.runNotice(beside) })
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

// routes returns the handler of this node's port: the paths of all roles, the
// admin API, and the Connect services.
//
// Every other node forwards to the leader what only the leader answers. Of the
// paths added here, only /leaderz and /v1/election are about the node that is asked.
func (s *Server) routes(address string) http.Handler {
	announced := func(term uint64, leader conclave.NodeID, address string) {
		s.elector.Seen(term) // ends this node's leadership if its term is lower
		s.client.Announced(term, leader, address)
	}
	r := s.Router(s.ready, announced)
	p := &proxy{config: s.config, leadership: s.leadership, http: s.Peers.HTTP(), forwards: s.Forward}
	get := func(path string, h func(*leader, *http.Request) (any, error)) {
		r.Handle(path, p.byLeader(h)).Methods(http.MethodGet)
	}
	r.Handle("/v1/leader", p.byTerm((*leader).getLeader)).Methods(http.MethodGet)
	get("/v1/elections", (*leader).getElections)
	get("/v1/slots", (*leader).getSlots)
	get("/v1/nodes", (*leader).getNodes)
	get("/v1/blacklist", (*leader).getBlacklist)
	get("/v1/switches", (*leader).getSwitches)
	get("/v1/config", (*leader).getConfig)
	r.Handle("/v1/config/{id}", p.byLeader((*leader).putConfig)).Methods(http.MethodPut)
	r.Handle("/v1/config/{id}", p.byLeader((*leader).deleteConfig)).Methods(http.MethodDelete)
	get("/v1/stopping", (*leader).getStopping)
	r.Handle("/v1/stopping", p.byLeader((*leader).postStopping)).Methods(http.MethodPost)
	r.Handle("/v1/stopping", p.byLeader((*leader).deleteStopping)).Methods(http.MethodDelete)
	r.Handle("/v1/blacklist/{name}", p.byLeader((*leader).putBlacklist)).Methods(http.MethodPut)
	r.Handle("/v1/blacklist/{name}", p.byLeader((*leader).deleteBlacklist)).Methods(http.MethodDelete)
	r.Handle("/v1/switches/{key}", p.byLeader((*leader).putSwitch)).Methods(http.MethodPut)
	r.Handle("/v1/protection", p.byLeader((*leader).deleteProtection)).Methods(http.MethodDelete)
	r.Handle("/v1/leader/resign", p.byLeader((*leader).postResign)).Methods(http.MethodPost)
	r.Handle("/v1/observers/{name}", p.byLeader((*leader).putObserver)).Methods(http.MethodPut)
	r.Handle("/v1/observers/{name}", p.byLeader((*leader).deleteObserver)).Methods(http.MethodDelete)
	r.HandleFunc("/leaderz", p.getLeaderz).Methods(http.MethodGet)
	r.HandleFunc("/v1/election/{act:quit|join|force-refresh}", s.candidacy.postElection).Methods(http.MethodPost)

	path, h := wirev1connect.NewMetaServiceHandler(&service{config: s.config, address: address, elector: s.elector, leadership: s.leadership}, s.HandlerOptions())
	serve.Mount(r, path, h)
	return r
}
