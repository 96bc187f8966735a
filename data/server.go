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
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// Server is one data node.
type Server struct {
	*node.Base
	config Config
	log    hclog.Logger
	view   *wire.View
	fence  *wire.Fence
	events *wire.Events
	peers  *wire.Peers
	meta   *metaclient.Client

	metrics  *metrics
	slots    *slots
	watchers watchers
	streams  feedStreams
	follows  *follows
	differ   *differ
	owners   *owners

	ready     atomic.Bool // the node has registered and left the blacklist
	draining  atomic.Bool
	forbidden conclave.Epoch // of the blacklist with this node's drain entry; Shutdown's own
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
	s := &Server{Base: b, config: c, log: b.Log, view: b.View(), fence: b.Fence, events: b.Events(), peers: b.Peers, meta: b.Meta}
	s.meta.Report = s.report
	s.slots = newSlots(s)
	s.follows = &follows{server: s, wake: signal.New(), all: map[conclave.NodeID]*puller{}}
	s.differ = &differ{server: s, wake: signal.New(), queues: map[conclave.NodeID]*diffQueue{}}
	s.owners = &owners{server: s, known: map[conclave.NodeID]*presence{}}
	s.metrics = newMetrics(s)
	return s, nil
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
		return s.RunMember(ctx, s.slots.run, s.follows.run, s.differ.run, s.runSweep, s.runRepair, s.runStart)
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
	s.beatNow()
	s.log.Info("registered", "node", s.config.Node, "address", s.Address())
	s.events.Add(wire.Event{Type: "data.started", Term: s.fence.Highest(), Text: fmt.Sprintf("data node %s registered", s.config.Node)})
}

func (s *Server) routes(string) (http.Handler, error) {
	r := s.Router(s.isReady, s.meta.Announced)
	r.HandleFunc("/v1/slots", s.getSlots).Methods(http.MethodGet)
	r.HandleFunc("/v1/datums", s.getDatums).Methods(http.MethodGet)
	path, h := wirev1connect.NewDataServiceHandler(s, s.HandlerOptions())
	wire.Mount(r, path, h)
	return r, nil
}

// report returns what a beat carries: every slot that this node has a copy of,
// and the node's own state.
func (s *Server) report() (reports []*wirev1.SlotReport, load uint32, ready, draining bool) {
	now := time.Now()
	for _, r := range s.slots.all() {
		if rep := r.report(s.follows.lag, now); rep != nil {
			reports = append(reports, rep)
		}
		r.mu.Lock()
		if r.state == slot.Serving {
			load += uint32(r.store.Visible())
		}
		r.mu.Unlock()
	}
	return reports, load, s.ready.Load(), s.draining.Load()
}

// wakeFeeds wakes every feed that has something to send. No replica's lock is
// held.
func (s *Server) wakeFeeds() {
	s.watchers.wake()
	s.streams.wake()
}

// beatNow sends the next beat at once.
func (s *Server) beatNow() { s.meta.Poke() }

// lease returns how long the cluster waits for a silent node.
func (s *Server) lease() time.Duration { return s.meta.NodeLease() }
