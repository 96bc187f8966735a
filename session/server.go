package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"conclave/meta/metaclient"
	"conclave/wire"
	"conclave/wire/serve"
)

// Server is one session node.
type Server struct {
	Config  // as given to New; not to be changed
	log     hclog.Logger
	view    *wire.View
	terms   *wire.Fence // refuses commands of older terms
	events  *serve.Events
	metrics *metrics
	// clusterStop is what this session knows of a stop of the whole cluster, in
	// which no session is left that the clients could move to.
	clusterStop *metaclient.Stopping

	registry *registry
	fences   *fences
	topics   *topics
	clients  *clients
	nodes    *nodes
	book     *addressBook
	numbers  atomic.Uint64 // the number of the last Write

	started chan struct{} // closed when the listener is open, or Run has failed before
	ended   chan struct{} // closed when Run has returned

	// Set by Run before started is closed, and not changed afterwards.
	address string
	peers   *wire.Peers
	meta    *metaclient.Client
	server  *serve.HTTPServer
	cancel  context.CancelCauseFunc // ends Run
	leave   context.CancelFunc      // ends the membership
	left    chan struct{}           // closed when the membership's loop has returned

	mu          sync.Mutex // guards the rest
	running     bool
	opened      bool       // clients have been taken
	stopping    bool       // a graceful stop has begun
	onBlacklist bool       // the blacklist names this session
	refused     bool       // stopping, and the leader refused because no other session takes clients
	marked      bool       // stopping, and the leader agreed, or could not be asked
	closing     bool       // stopping, and the time for the clients to move has ended
	leaving     drainState // follows from these and the other sessions; set by updateDrain
}

// errStopped ends Run gracefully.
var errStopped = errors.New("stopped")

// New checks the configuration and returns a session. Nothing is opened before
// Run.
func New(c Config) (*Server, error) {
	c = c.withDefaults()
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	c.Trace = c.Trace.Of(c.Node)
	s := &Server{
		Config:   c,
		log:      c.Logger,
		view:     wire.NewView(),
		terms:    &wire.Fence{},
		events:   serve.NewEvents(c.Node.Name, c.Now),
		registry: newRegistry(c.SessionGrace),
		fences:   &fences{trace: c.Trace},
		clients:  newClients(c.SessionGrace),
		nodes:    newNodes(),
		book:     &addressBook{},
		started:  make(chan struct{}),
		ended:    make(chan struct{}),
	}
	s.topics = newTopics(c.PushWindow, newGuard(c.SessionGrace), s.nodes.wakeReaders)
	s.clusterStop = &metaclient.Stopping{Node: c.Node, View: s.view, Events: s.events}
	s.view.Trace, s.terms.Trace, s.registry.trace, s.topics.trace = c.Trace, c.Trace, c.Trace, c.Trace
	s.metrics = newMetrics(s)
	return s, nil
}

// Run opens the listener, joins the cluster and serves. It returns nil after
// Shutdown. When ctx ends, Run stops as in a crash, without notifying any node,
// and returns the cause. Any other error means that the session cannot
// continue: its port is taken, or another living process has its name
// (wire.CodeConflict).
//
// The order of the start follows article 002: ports; then meta, whose answer
// includes the table (renewNode in the article); then the data nodes; then
// clients; last, off the blacklist.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	again, stopped := s.running, s.stopping
	s.running = true
	s.mu.Unlock()
	switch {
	case again:
		return errors.New("session: Run was called twice")
	case stopped: // Shutdown was called first
		close(s.started)
		close(s.ended)
		return nil
	}
	defer close(s.ended)
	ctx, s.cancel = context.WithCancelCause(ctx)
	defer s.cancel(nil)

	// 1. The listener and its handlers.
	ln, err := s.Network.Listen(ctx, "tcp", s.Listen)
	if err != nil {
		close(s.started)
		return fmt.Errorf("listen on %s: %w", s.Listen, err)
	}
	s.address = advertised(ln, s.Advertise)
	membership, leave := context.WithCancel(ctx)
	s.leave, s.left = leave, make(chan struct{})
	defer leave()
	s.connectParts(ln)
	defer s.peers.Close()
	var loops sync.WaitGroup
	run := func(loop func(context.Context)) { loops.Go(func() { loop(ctx) }) }
	loops.Go(func() {
		if err := s.server.Serve(); err != nil {
			s.cancel(fmt.Errorf("serve on %s: %w", s.address, err))
		}
	})
	close(s.started)
	s.log.Info("listening", "node", s.Node.String(), "address", s.address)

	// 2. The cluster.
	loops.Go(func() {
		defer close(s.left)
		if err := s.meta.Run(membership); membership.Err() == nil {
			s.cancel(fmt.Errorf("session %s: %w", s.Node.Name, err))
		}
	})
	run(s.runView)
	run(s.runNodes)
	run(s.runLeases)
	run(s.runAudit)

	// 3. Clients.
	run(s.runOpening)

	<-ctx.Done()
	s.server.Close()
	loops.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, errStopped) {
		return cause
	}
	s.log.Info("stopped", "node", s.Node.String())
	return nil
}

// runOpening takes clients once this session is on the written member list, has
// a slot table and has received messages from the data nodes. Before that, a
// slot leader that asks only the listed sessions could miss a client's
// registrations.
func (s *Server) runOpening(ctx context.Context) {
	if s.meta.WaitRegistered(ctx) != nil {
		return
	}
	for {
		applied := s.book.applied() // before the check, so that no change is missed
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

// Started returns a channel that is closed when the listener is open; Address
// is known then.
func (s *Server) Started() <-chan struct{} { return s.started }

// Address returns the address at which others reach this session, or "" before
// Started is closed.
func (s *Server) Address() string {
	select {
	case <-s.started:
		return s.address
	default:
		return ""
	}
}

// Events returns the log of this session's events.
func (s *Server) Events() *serve.Events { return s.events }

// View returns what this session knows of the cluster.
func (s *Server) View() *wire.View { return s.view }

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
	if s.meta.LostFor() > s.meta.NodeLease() {
		reasons = append(reasons, "stale")
	}
	return true, append(reasons, s.clusterStop.Reasons()...)
}

// advertised returns the address that others are to dial.
func advertised(ln net.Listener, configured string) string {
	if configured != "" {
		return configured
	}
	return ln.Addr().String()
}
