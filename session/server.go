package session

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"conclave"
	"conclave/internal/node"
	"conclave/meta/metaclient"
	"conclave/wire"
	"conclave/wire/serve"
)

// Server is one session node.
type Server struct {
	*node.Base
	Config // as given to New; not to be changed
	log    hclog.Logger
	view   *wire.View
	events *serve.Events
	peers  *wire.Peers
	meta   *metaclient.Client

	refusals prometheus.Counter
	registry *registry
	fences   *fences
	topics   *topics
	clients  *clients
	nodes    *nodes
	book     *addressBook
	numbers  atomic.Uint64 // the number of the last Write

	mu          sync.Mutex // guards the rest
	opened      bool       // clients have been taken
	stopping    bool       // a graceful stop has begun
	onBlacklist bool       // the blacklist names this session
	refused     bool       // stopping, and the leader refused because no other session takes clients
	marked      bool       // stopping, and the leader agreed, or could not be asked
	closing     bool       // stopping, and the time for the clients to move has ended
	leaving     drainState // follows from these and the other sessions; set by updateDrain
}

// New checks the configuration and returns a session. Nothing is opened before
// Run.
func New(c Config) (*Server, error) {
	c = c.withDefaults()
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	c.Trace = c.Trace.Of(c.Node)
	b := node.New(c.Config, conclave.RoleSession)
	s := &Server{
		Base: b, Config: c, log: b.Log, view: b.View(), events: b.Events(), peers: b.Peers, meta: b.Meta,
		registry: newRegistry(c.SessionGrace),
		fences:   &fences{trace: c.Trace},
		clients:  newClients(c.SessionGrace),
		nodes:    newNodes(),
		book:     &addressBook{},
	}
	s.meta.Report = s.report
	s.topics = newTopics(c.PushWindow, newGuard(c.SessionGrace), s.nodes.wakeReaders)
	s.registry.trace, s.topics.trace = c.Trace, c.Trace
	s.exportMetrics()
	return s, nil
}

// Run serves until Shutdown is complete (nil), until an error that retrying
// cannot resolve, or until ctx ends; see node.Base.Run.
//
// The order of the start follows article 002: ports; then meta, whose answer
// includes the table (renewNode in the article); then the data nodes; then
// clients; last, off the blacklist.
func (s *Server) Run(ctx context.Context) error {
	return s.Base.Run(ctx, 0, s.routes, func(ctx context.Context) error {
		return s.RunMember(ctx, s.runView, s.runNodes, s.runLeases, s.runAudit, s.runOpening)
	})
}

// runOpening takes clients once this session is on the written member list, has
// a slot table and has received messages from the data nodes. Before that, a
// slot leader that asks only the listed sessions could miss a client's
// registrations.
func (s *Server) runOpening(ctx context.Context) {
	if s.Register(ctx) != nil {
		return
	}
	for {
		applied := s.book.applied.Next() // before the check, so that no change is missed
		if s.registry.hasTable() {
			break
		}
		select {
		case <-applied:
		case <-ctx.Done():
			return
		}
	}
	limited, cancel := context.WithTimeout(ctx, s.Beat)
	s.waitFeeds(limited)
	cancel()
	s.mu.Lock()
	s.opened = true
	s.mu.Unlock()
	s.admission()
	s.events.Add(wire.Event{Type: "session.open", Text: "takes clients"})
	s.log.Info("taking clients", "slots", len(s.view.Table().Slots), "table", s.view.TableEpoch().String())
	_ = s.meta.Restore(ctx) // fails only when ctx ends
}

// ready reports whether clients are served. The reasons explain why not, or what is
// wrong although they are.
func (s *Server) ready() (bool, []string) {
	if err := s.meta.Refusal(); err != nil {
		s.mu.Lock()
		opened := s.opened
		s.mu.Unlock()
		if !opened {
			return false, []string{"refused by the leader: " + err.Error()}
		}
	}
	if s.view.TableEpoch().IsZero() {
		return false, []string{"no slot table"}
	}
	s.mu.Lock()
	opened, leaving, waits := s.opened, s.leaving, s.refused && !s.marked
	s.mu.Unlock()
	switch {
	case leaving == drains:
		return false, []string{"draining"}
	case !opened:
		return false, []string{"not on the member list yet"}
	}
	var reasons []string
	if leaving == servesLast || waits {
		reasons = append(reasons, "the last session: serves until another takes clients")
	}
	if s.LeaderLost() {
		reasons = append(reasons, "stale")
	}
	return true, append(reasons, s.Stopping.Reasons()...)
}
