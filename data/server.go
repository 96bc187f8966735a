package data

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"
	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/internal/signal"
	"conclave/internal/sleep"
	"conclave/meta/metaclient"
	"conclave/slot"
	"conclave/wire"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// Server is one data node.
type Server struct {
	config Config
	log    hclog.Logger
	view   *wire.View
	fence  *wire.Fence
	events *serve.Events
	notes  *notes

	// The parts, which do not know the server.
	replicas *replicas
	owners   *owners
	follows  *follows
	differ   *differ
	slots    *slots
	sweeper  *sweeper
	repairer *repairer
	service  *service

	// Made by Run before started is closed.
	address string
	peers   *wire.Peers
	meta    *metaclient.Client
	endMeta context.CancelFunc // ends meta's Run
	metaRan chan struct{}      // closed when meta's Run has returned

	started chan struct{} // closed by Run once the listener is open
	stop    chan struct{} // closed by end: Run must return
	ended   chan struct{} // closed by Run when it returns
	ran     atomic.Bool

	ready     atomic.Bool // the node has registered and left the blacklist
	draining  atomic.Bool
	forbidden conclave.Epoch       // of the blacklist with this node's drain entry; Shutdown's own
	stopping  *metaclient.Stopping // whether a stop of the whole cluster is announced: then nothing is handed over

	mu      sync.Mutex // guards the fields below
	seeds   *rand.Rand
	stopErr error
	closing bool // stop is closed
}

// New returns a data node that does nothing until Run, or an error if the
// configuration is invalid.
func New(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("data node configuration: %w", err)
	}
	c = c.withDefaults()
	c.Trace = c.Trace.Of(c.Node)
	s := &Server{
		config: c, log: c.Logger,
		view: wire.NewView(), fence: &wire.Fence{}, events: serve.NewEvents(c.Node.Name, c.Now),
		started: make(chan struct{}), stop: make(chan struct{}), ended: make(chan struct{}), metaRan: make(chan struct{}),
		seeds: c.Rand,
	}
	s.view.Trace, s.fence.Trace = c.Trace, c.Trace
	s.stopping = &metaclient.Stopping{Node: c.Node, View: s.view, Events: s.events}
	s.connectParts()
	return s, nil
}

// connectParts makes the parts and gives each what it needs. What Run makes
// later (the peers, the link to meta, the address) they get by functions.
func (s *Server) connectParts() {
	dataNode := func(address string) wirev1connect.DataServiceClient { return s.peers.Data(address) }
	feeds, tasks := &feeds{}, &tasks{wake: signal.New()}
	s.replicas = &replicas{}
	s.owners = &owners{view: s.view, grace: s.config.SessionGrace, lease: s.lease, known: map[conclave.NodeID]*presence{}}
	s.follows = &follows{
		config: s.config, view: s.view, replicas: s.replicas, rand: s.newRand, data: dataNode,
		caughtUp: s.beatNow, migrating: tasks.wake.Set,
		wake: signal.New(), all: map[conclave.NodeID]*puller{},
	}
	s.notes = &notes{
		log: s.log, events: s.events, term: s.fence.Highest, grace: s.config.SessionGrace,
		metrics: newMetrics(s.replicas, s.follows.lag, func() uint64 { return s.fence.Refused() + s.view.Refused() }),
	}
	s.differ = &differ{
		config: s.config, owners: s.owners, feeds: feeds, metrics: s.notes.metrics, rand: s.newRand, address: s.Address,
		session: func(address string) wirev1connect.SessionServiceClient { return s.peers.Session(address) },
		dial:    func(ctx context.Context, address string) error { return s.peers.Dial(ctx, address) },
		wake:    signal.New(), queues: map[conclave.NodeID]*diffQueue{},
	}
	s.slots = &slots{
		migrations: &migrations{
			config: s.config, view: s.view, owners: s.owners, differ: s.differ, feeds: feeds, notes: s.notes, tasks: tasks,
			lease: s.lease, leaderLost: s.leaderLost, beatNow: s.beatNow, data: dataNode, running: map[int]*migration{},
		},
		replicas: s.replicas, follow: s.follows.set, leaving: map[int]time.Time{},
	}
	s.sweeper = &sweeper{config: s.config, replicas: s.replicas, owners: s.owners, feeds: feeds, notes: s.notes, leaderLost: s.leaderLost}
	s.repairer = &repairer{config: s.config, replicas: s.replicas, owners: s.owners, differ: s.differ, rand: s.newRand}
	s.service = &service{
		feeder: &feeder{replicas: s.replicas, streams: &feeds.streams, beat: s.config.Beat},
		config: s.config, replicas: s.replicas, owners: s.owners, feeds: feeds, differ: s.differ, slots: s.slots, notes: s.notes, beatNow: s.beatNow,
	}
}

// Started returns a channel that is closed once the listener is open; Address
// is valid from then on.
func (s *Server) Started() <-chan struct{} { return s.started }

// Address returns the address that other nodes reach this node at.
func (s *Server) Address() string { return s.address }

// Events returns the log of this node's events.
func (s *Server) Events() *serve.Events { return s.events }

// View returns what this node knows of the cluster.
func (s *Server) View() *wire.View { return s.view }

// Run opens the listener and serves until Shutdown is complete (nil), until an
// error that retrying cannot resolve (another living process has the node's
// name: wire.CodeConflict), or until ctx ends: that is a crash, which notifies
// no other node. It joins every goroutine that it started. It may be called
// once.
//
// The order of a start is that of article 002: the servers are opened first;
// then the node registers, however long that takes; then it takes the slots
// that the table gives it; last it removes its own drain entry from the
// blacklist.
func (s *Server) Run(ctx context.Context) error {
	if s.ran.Swap(true) {
		return errors.New("data: Run was called twice")
	}
	defer close(s.ended)
	ln, err := s.config.Network.Listen(ctx, "tcp", s.config.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.config.Listen, err)
	}
	s.address = s.config.Advertise
	if s.address == "" {
		s.address = ln.Addr().String()
	}
	interceptor := &wire.Interceptor{Address: s.address, View: s.view, Fence: s.fence, Token: s.config.Token}
	s.peers = wire.NewPeers(s.config.Network, interceptor)
	defer s.peers.Close()
	s.meta = metaclient.New(metaclient.Config{
		Self:  wire.Member{Node: s.config.Node, Role: conclave.RoleData, Address: s.address},
		Metas: s.config.Metas, Peers: s.peers, View: s.view, Fence: s.fence,
		Logger: s.log.Named("meta"), Rand: s.newRand(), Beat: s.config.Beat, Report: s.report,
		DataCenter: s.config.DataCenter,
	})
	interceptor.Behind = s.meta.Behind

	ctx, cancel := context.WithCancelCause(ctx)
	metaCtx, endMeta := context.WithCancel(ctx)
	s.endMeta = endMeta
	server := serve.NewHTTPServer(ln, s.router(interceptor))
	var loops sync.WaitGroup
	defer loops.Wait()
	defer cancel(nil)
	loops.Go(func() {
		if err := server.Serve(); err != nil {
			cancel(fmt.Errorf("serve %s: %w", s.address, err))
		}
	})
	loops.Go(func() {
		defer close(s.metaRan)
		if err := s.meta.Run(metaCtx); metaCtx.Err() == nil {
			cancel(err)
		}
	})
	for _, run := range []func(context.Context){s.slots.run, s.follows.run, s.differ.run, s.sweeper.run, s.repairer.run, s.runStart} {
		loops.Go(func() { run(ctx) })
	}
	close(s.started)

	select {
	case <-s.stop:
		cancel(nil)
		last, done := context.WithTimeout(context.WithoutCancel(ctx), lastRequests)
		server.Shutdown(last)
		done()
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.stopErr
	case <-ctx.Done():
		server.Close()
		return context.Cause(ctx)
	}
}

// lastRequests is how long requests in progress may take when the node stops.
// By then other nodes lead its slots.
const lastRequests = 200 * time.Millisecond

// runStart is the part of a start that waits for a meta leader, after the
// servers are open (renewNode and postStart in article 002, which ends with
// removeSelfFromMetaBlacklist).
func (s *Server) runStart(ctx context.Context) {
	defer s.warnWhileWaiting(ctx, "waiting for a meta leader to register with", "metas", s.config.Metas)()
	if s.meta.WaitRegistered(ctx) != nil || s.meta.Restore(ctx) != nil {
		return
	}
	s.ready.Store(true)
	s.beatNow()
	s.log.Info("registered", "node", s.config.Node, "address", s.address)
	s.events.Add(wire.Event{Type: "data.started", Term: s.fence.Highest(), Text: fmt.Sprintf("data node %s registered", s.config.Node)})
}

// warnWhileWaiting logs a line every 5 s, so that an operator sees what the
// node waits for, until the returned function is called or ctx ends.
func (s *Server) warnWhileWaiting(ctx context.Context, line string, args ...any) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	var warning sync.WaitGroup
	warning.Go(func() {
		for sleep.For(ctx, 5*time.Second) == nil {
			s.log.Warn(line, args...)
		}
	})
	return func() {
		cancel()
		warning.Wait()
	}
}

func (s *Server) router(i *wire.Interceptor) *mux.Router {
	r := serve.NewRouter(serve.RouterConfig{
		Node: s.config.Node, Role: conclave.RoleData, Version: s.config.Version, Token: s.config.Token,
		Metrics: s.notes.metrics.registry, Events: s.events, Ready: s.isReady,
	})
	admin := &admin{node: s.config.Node, view: s.view, replicas: s.replicas, lag: s.follows.lag}
	r.HandleFunc("/v1/slots", admin.getSlots).Methods(http.MethodGet)
	r.HandleFunc("/v1/datums", admin.getDatums).Methods(http.MethodGet)
	r.Handle("/v1/stopping", s.stopping).Methods(http.MethodGet, http.MethodPost, http.MethodDelete)
	for _, mount := range []func() (string, http.Handler){
		func() (string, http.Handler) {
			return wirev1connect.NewDataServiceHandler(s.service, serve.HandlerOptions(i))
		},
		func() (string, http.Handler) {
			node := metaclient.NewNodeService(s.config.Node, conclave.RoleData, s.view, s.fence, s.meta.Announced)
			return wirev1connect.NewNodeServiceHandler(node, serve.HandlerOptions(i))
		},
	} {
		path, h := mount()
		serve.Mount(r, path, h)
	}
	return r
}

// report returns what a beat carries: every slot that this node has a copy of,
// and the node's own state.
func (s *Server) report() (reports []*wirev1.SlotReport, load uint32, ready, draining bool) {
	reports, load = s.replicas.report(s.follows.lag, time.Now())
	return reports, load, s.ready.Load(), s.draining.Load()
}

// isReady reports whether this node has registered and none of its slots is
// migrating, and the reasons if not. The reasons also include a drain or stop
// in progress.
func (s *Server) isReady() (bool, []string) {
	var reasons []string
	if err := s.meta.Refusal(); !s.ready.Load() && err != nil {
		reasons = append(reasons, "refused by the leader: "+err.Error())
	} else if !s.ready.Load() {
		reasons = append(reasons, "starting: no leader has registered this node yet")
	}
	migrating := 0
	for _, r := range s.replicas.all() {
		r.mu.Lock()
		if r.state == slot.Migrating {
			migrating++
		}
		r.mu.Unlock()
	}
	if migrating > 0 {
		reasons = append(reasons, fmt.Sprintf("%d slots are migrating", migrating))
	}
	ready := len(reasons) == 0
	if s.draining.Load() { // it serves until its slots have been handed over
		reasons = append(reasons, "draining")
	}
	return ready, append(reasons, s.stopping.Reasons()...)
}

// beatNow sends the next beat at once.
func (s *Server) beatNow() { s.meta.Poke() }

// lease returns how long the cluster waits for a silent node.
func (s *Server) lease() time.Duration { return s.meta.NodeLease() }

// leaderLost reports whether nothing has been received from a meta leader for a
// lease.
func (s *Server) leaderLost() bool { return s.meta.LostFor() > s.meta.NodeLease() }

// newRand returns a random source for one loop.
func (s *Server) newRand() *rand.Rand {
	s.mu.Lock()
	defer s.mu.Unlock()
	return rand.New(rand.NewPCG(s.seeds.Uint64(), s.seeds.Uint64()))
}
