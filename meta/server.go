package meta

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"conclave"
	"conclave/elector"
	"conclave/internal/logging"
	"conclave/internal/stage"
	"conclave/meta/metaclient"
	"conclave/wire"
	"conclave/wire/serve"
)

// Server is one meta node.
type Server struct {
	cfg    Config
	log    hclog.Logger
	view   *wire.View
	fence  *wire.Fence
	events *serve.Events
	seeds  *rand.Rand // source of the random streams of the loops; used by New and Run only
	nonces *rand.Rand // source of those of the arrangers; used by Lead only

	started chan struct{} // closed by Run once the listener is open
	stop    chan struct{} // closed by Shutdown once the leadership is handed over
	ended   chan struct{} // closed by Run at its end
	once    sync.Once     // closes stop

	// Set by Run before started is closed, and never changed.
	address     string
	interceptor *wire.Interceptor
	peers       *wire.Peers
	elector     *elector.Elector
	client      *metaclient.Client
	metrics     *prometheus.Registry

	quitting atomic.Int32 // requests to quit the election that are in progress

	background group // what handlers start and Run joins

	mu      sync.Mutex    // guards the rest
	leader  *leader       // while this node leads; nil otherwise
	changed chan struct{} // closed, and replaced, when leader changes
	metas   []string      // addresses of the metas that followed this node when it led
}

// New returns a meta node that does nothing until Run, or an error if the
// configuration is invalid.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Strategy == nil || cfg.Store == nil || cfg.History == nil {
		return nil, errors.New("meta: Strategy, Store and History are needed")
	}
	cfg = cfg.withDefaults()
	seeds := derive(cfg.Rand)
	cfg.Trace = cfg.Trace.Of(cfg.Node)
	s := &Server{
		cfg: cfg, log: cfg.Logger, seeds: seeds, nonces: derive(seeds),
		view: wire.NewView(), fence: &wire.Fence{}, events: serve.NewEvents(cfg.Node.Name, cfg.Now),
		started: make(chan struct{}), stop: make(chan struct{}), ended: make(chan struct{}),
		changed: make(chan struct{}),
	}
	s.view.Trace, s.fence.Trace = cfg.Trace, cfg.Trace
	return s, nil
}

// Started returns a channel that is closed once the listener is open.
func (s *Server) Started() <-chan struct{} { return s.started }

// Address returns the advertised address. It is valid once Started is closed.
func (s *Server) Address() string { return s.address }

// Events returns what happened at this node.
func (s *Server) Events() *serve.Events { return s.events }

// View returns what this node knows of the cluster's state.
func (s *Server) View() *wire.View { return s.view }

// Elector returns this node's elector. It is valid once Started is closed.
func (s *Server) Elector() *elector.Elector { return s.elector }

// Fence returns the fence, which keeps the highest term seen and counts what it
// refused.
func (s *Server) Fence() *wire.Fence { return s.fence }

// Run serves until ctx ends or Shutdown is called, and joins all that it
// started. If ctx ends, Run behaves like a crash: it notifies no other node and
// returns ctx's error. After Shutdown it returns nil. Any other error ends the
// node: the port is taken, or a living process has its name. It may be called
// once.
func (s *Server) Run(ctx context.Context) error {
	defer close(s.ended)
	ln, err := s.cfg.Network.Listen(ctx, "tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.cfg.Listen, err)
	}
	if err := s.assemble(ln); err != nil {
		ln.Close()
		return err
	}
	server := serve.NewHTTPServer(ln, s.routes())
	loops, endLoops := context.WithCancel(context.Background())
	defer endLoops()
	electing, endElecting := context.WithCancel(context.Background())
	defer endElecting()
	fatal := make(chan error, 4) // at most one from each goroutine below
	var serving, running, inElection sync.WaitGroup

	// The listener is open before the elector runs, and closed after it has
	// ended: a follower that acquired the leader's lock asks at this port.
	serving.Go(func() { fatal <- server.Serve() })
	inElection.Go(func() {
		if err := s.elector.Run(electing); err != nil && electing.Err() == nil {
			fatal <- fmt.Errorf("elector: %w", err)
		}
	})
	running.Go(func() {
		if err := s.runFollow(loops); err != nil && loops.Err() == nil {
			fatal <- err
		}
	})
	running.Go(func() { s.runObserve(loops) })
	running.Go(func() { s.runNotice(loops) })
	s.log.Info("started", "node", s.cfg.Node.Name, "incarnation", s.cfg.Node.Incarnation, "address", s.address)
	close(s.started)

	select {
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.stop:
		err = nil
	case err = <-fatal:
	}

	endElecting()
	inElection.Wait()
	endLoops()
	running.Wait()
	if err == nil {
		brief, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		server.Shutdown(brief) // lets answers in progress finish
		cancel()
	} else {
		server.Close()
	}
	serving.Wait()
	s.background.close()
	s.peers.Close()
	return err
}

// assemble makes the parts that need the address.
func (s *Server) assemble(ln net.Listener) error {
	s.address = s.cfg.Advertise
	if s.address == "" {
		s.address = ln.Addr().String()
	}
	s.interceptor = &wire.Interceptor{Address: s.address, View: s.view, Fence: s.fence, Token: s.cfg.Token}
	s.peers = wire.NewPeers(s.cfg.Network, s.interceptor)
	s.client = metaclient.New(metaclient.Config{
		Self:       wire.Member{Node: s.cfg.Node, Role: conclave.RoleMeta, Address: s.address},
		DataCenter: s.cfg.DataCenter, Metas: s.otherMetas(), Peers: s.peers, View: s.view, Fence: s.fence,
		Logger: s.log.Named("client"), Rand: derive(s.seeds), Beat: s.cfg.Beat,
		Report: s.report, Heard: s.observeBeat, Broke: s.suspectLeader, Guess: s.leaderFromStore,
	})
	s.interceptor.Behind = s.client.Behind
	strategy, err := s.cfg.Strategy(s.askWitness)
	if err != nil {
		return fmt.Errorf("make the election strategy: %w", err)
	}
	s.elector, err = elector.New(elector.Config{
		ID: s.cfg.Node, Address: s.address, Strategy: strategy, Lease: s.cfg.Lease, Beat: s.cfg.Beat, Observer: s.cfg.Observer,
		Lead: s.lead, OnBeat: s.renewed, WakePeers: s.wakePeers,
		Rand: derive(s.seeds), Now: s.cfg.Now, Logger: logging.Slog(s.log.Named("elector")), Trace: TraceElection(s.cfg.Trace, s.cfg.Node),
	})
	if err != nil {
		return fmt.Errorf("make the elector: %w", err)
	}
	s.metrics = s.newMetrics()
	return nil
}

// Shutdown hands the leadership over, if this node has it, then stops the node;
// Run returns nil afterwards. If ctx ends first, the remaining steps are cut
// short, and the error names the step.
func (s *Server) Shutdown(ctx context.Context) error {
	select {
	case <-s.started:
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	return stage.Run(ctx, s.log, []stage.Stage{
		{Name: "resign", Do: s.elector.Shutdown},
		{Name: "stop", Do: func(ctx context.Context) error {
			s.once.Do(func() { close(s.stop) })
			select {
			case <-s.ended:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}},
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
		if a != s.address && !slices.Contains(all, a) {
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
	close(s.changed)
	s.changed = make(chan struct{})
}

// leading returns the leader state while this node leads, or nil; changed is
// closed when that changes.
func (s *Server) leading() (l *leader, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader, s.changed
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
