package data

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/internal/node"
	"conclave/internal/signal"
	"conclave/meta/metaclient"
	"conclave/slot"
	"conclave/wire"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// Server is one data node.
type Server struct {
	*node.Base
	config Config
	log    hclog.Logger
	view   *wire.View
	events *serve.Events
	meta   *metaclient.Client

	// The parts, which do not know the server.
	replicas *replicas
	follows  *follows
	differ   *differ
	slots    *slots
	sweeper  *sweeper
	repairer *repairer
	service  *service

	ready      atomic.Bool // the node has registered and left the blacklist
	draining   atomic.Bool
	forbidden  conclave.Epoch // of the blacklist with this node's drain entry; Shutdown's own
	handedOver bool           // this node may stop without loss; Shutdown's own
}

// New returns a data node that does nothing until Run, or an error if the
// configuration is invalid.
func New(c Config) (*Server, error) {
	c = c.withDefaults()
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("data node configuration: %w", err)
	}
	c.Trace = c.Trace.Of(c.Node)
	b := node.New(c.Config, conclave.RoleData)
	s := &Server{Base: b, config: c, log: b.Log, view: b.View(), events: b.Events(), meta: b.Meta}
	s.meta.Report = s.report
	s.connectParts()
	return s, nil
}

// connectParts makes the parts and gives each what it needs.
func (s *Server) connectParts() {
	feeds, tasks, owners := &feeds{}, &tasks{wake: signal.New()}, &owners{
		view: s.view, grace: s.config.SessionGrace, lease: s.meta.NodeLease, known: map[conclave.NodeID]*presence{},
	}
	s.replicas = &replicas{}
	s.follows = &follows{
		config: s.config, view: s.view, replicas: s.replicas, rand: s.NewRand, data: s.Peers.Data,
		caughtUp: s.meta.Poke, migrating: tasks.wake.Set,
		wake: signal.New(), beats: s.Beats, all: map[conclave.NodeID]*puller{},
	}
	notes := &notes{
		log: s.log, events: s.events, term: s.Fence.Highest, grace: s.config.SessionGrace,
		metrics: newMetrics(s.Metrics, s.replicas, s.follows.lag),
	}
	s.follows.notes = notes
	s.differ = &differ{
		config: s.config, owners: owners, feeds: feeds, metrics: notes.metrics, rand: s.NewRand, address: s.Address,
		session: s.Peers.Session, dial: s.Peers.Dial,
		wake: signal.New(), queues: map[conclave.NodeID]*diffQueue{},
	}
	s.slots = &slots{
		migrations: &migrations{
			config: s.config, view: s.view, owners: owners, differ: s.differ, feeds: feeds, notes: notes, tasks: tasks,
			lease: s.meta.NodeLease, metaLeaderSilent: s.LeaderSilent, beatNow: s.meta.Poke, beatSoon: s.meta.PokeSoon, data: s.Peers.Data, running: map[int]*migration{},
		},
		replicas: s.replicas, follow: s.follows.set, leaving: map[int]time.Time{},
	}
	s.sweeper = &sweeper{config: s.config, replicas: s.replicas, owners: owners, feeds: feeds, notes: notes, beats: s.Beats, metaLeaderSilent: s.LeaderSilent}
	s.repairer = &repairer{config: s.config, replicas: s.replicas, owners: owners, differ: s.differ, rand: s.NewRand}
	s.service = &service{
		feeder: &feeder{replicas: s.replicas, streams: &feeds.streams, beats: s.Beats},
		config: s.config, view: s.view, replicas: s.replicas, owners: owners, feeds: feeds, differ: s.differ, slots: s.slots, notes: notes, beatNow: s.meta.Poke, beatSoon: s.meta.PokeSoon,
	}
}

// lastRequests is how long requests in progress may take when the node stops.
// By then other nodes lead its slots.
const lastRequests = 200 * time.Millisecond

// Run serves until Shutdown is complete (nil), until an error that retrying
// cannot resolve, or until ctx ends; see node.Base.Run.
//
// The order of a start is that of article 002: the servers are opened first;
// then the node registers, however long that takes; then it takes the slots
// that the table gives it; last it removes its own drain entry from the
// blacklist.
func (s *Server) Run(ctx context.Context) error {
	return s.Base.Run(ctx, lastRequests, s.routes, func(ctx context.Context) error {
		return s.RunMember(ctx, s.slots.run, s.follows.run, s.differ.run, s.sweeper.run, s.repairer.run, s.runStart)
	})
}

// runStart is the part of a start that waits for a meta leader, after the
// servers are open (renewNode and postStart in article 002, which ends with
// removeSelfFromMetaBlacklist).
func (s *Server) runStart(ctx context.Context) {
	if s.Register(ctx) != nil || s.meta.Restore(ctx) != nil {
		return
	}
	s.ready.Store(true)
	s.meta.Poke()
	s.log.Info("registered", "node", s.config.Node, "address", s.Address())
	s.events.Add(wire.Event{Type: "data.started", Term: s.Fence.Highest(), Text: fmt.Sprintf("data node %s registered", s.config.Node)})
}

func (s *Server) routes(string) (http.Handler, error) {
	r := s.Router(s.isReady, s.meta.Announced)
	admin := &admin{node: s.config.Node, view: s.view, replicas: s.replicas, lag: s.follows.lag}
	r.HandleFunc("/v1/slots", admin.getSlots).Methods(http.MethodGet)
	r.HandleFunc("/v1/datums", admin.getDatums).Methods(http.MethodGet)
	path, h := wirev1connect.NewDataServiceHandler(s.service, s.HandlerOptions())
	serve.Mount(r, path, h)
	return r, nil
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
	return ready, append(reasons, s.Stopping.Reasons()...)
}
