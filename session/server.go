package session

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/internal/node"
	"conclave/meta/metaclient"
	"conclave/session/registry"
	"conclave/wire"
	"conclave/wire/admit"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// Server is one session node.
type Server struct {
	*node.Base
	config Config
	log    hclog.Logger
	view   *wire.View
	events *serve.Events
	meta   *metaclient.Client

	// The parts, which do not know the server.
	registry *locked
	clients  *clients
	nodes    *nodes
	drain    *drain
	state    *state
	leases   *leases
	spread   *spread
	writer   *writer
	service  *clientService
	services *services
	sofa     *sofaDoor
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
	s := &Server{Base: b, config: c, log: b.Log, view: b.View(), events: b.Events(), meta: b.Meta}
	s.meta.Report, s.meta.Unheard = s.report, s.unheard
	s.connectParts()
	return s, nil
}

// connectParts makes the parts and gives each what it needs.
func (s *Server) connectParts() {
	c := s.config
	s.registry = &locked{Registry: registry.New(c.SessionGrace, c.PushWindow, c.Trace)}
	s.registry.Limit(registry.Limits{Subscriptions: c.MaxSubscriptions, Registrations: c.MaxRegistrations, Bytes: int(c.MaxClientBytes), AddressBytes: int(c.MaxAddressBytes), ListBytes: int(c.MaxListBytes)})
	s.clients, s.nodes = newClients(c.SessionGrace), newNodes()
	counters := exportMetrics(s.Metrics, s.registry, s.clients)
	s.drain = &drain{node: c.Node, view: s.view, clients: s.clients, events: s.events, log: s.log, cutOff: s.isCutOff}
	watches := &watches{sent: map[*connection]map[string]conclave.Epoch{}}
	s.state = &state{config: c, view: s.view, registry: s.registry, nodes: s.nodes, drain: s.drain, watches: watches}
	s.leases = &leases{config: c, registry: s.registry, clients: s.clients, events: s.events, metaLeaderSilent: s.LeaderSilent, cutOff: s.isCutOff, expirations: counters.expired, wakeWriters: s.nodes.wakeWriters}
	s.spread = &spread{
		node: c.Node, beat: c.Beat, view: s.view, drain: s.drain, clients: s.clients, registry: s.registry, stopping: s.Stopping.InForce, log: s.log,
	}
	s.meta.OnMessage = s.spread.observe
	room := &room{registry: s.registry, limit: maxUnsent, waits: counters.waits}
	calls := &calls{config: c, registry: s.registry, clients: s.clients, nodes: s.nodes, data: s.Peers.Data}
	s.writer = &writer{calls: calls, refusals: counters.refusals, settled: room.settled.Notify}
	s.nodes.registry, s.nodes.view, s.nodes.rand = s.registry, s.view, s.NewRand
	s.nodes.loops = []func(context.Context, *dataNode, *rand.Rand){s.writer.run, (&reader{calls}).run, (&feeds{calls}).run}
	s.service = &clientService{
		config: c, registry: s.registry, clients: s.clients, room: room,
		arrivals: admit.NewTimed(arrivalPlaces, arrivalLimit), large: admit.New(0, largeSendEach), many: admit.New(max(1, runtime.GOMAXPROCS(0)/2), 0),
		pace: newPace(), subscriptions: admit.New(intakeAll, intakeEach), watches: watches,
		wakeWriters: s.nodes.wakeWriters, wakeReaders: s.nodes.wakeReaders, refusals: counters.refusals, unread: counters.unread,
	}
	s.services = &services{
		config: c, intake: admit.New(intakeAll, intakeEach), large: s.service.large, addresses: s.clients.addresses,
		registrants: &registrants{config: c, registry: s.registry, clients: s.clients, room: room, refusals: counters.refusals, wakeWriters: s.nodes.wakeWriters},
		catalog:     &catalog{http: s.Peers.HTTP(), token: s.TokenFor, view: s.view, registry: s.registry, listings: admit.New(catalogAtOnce, catalogEach)},
		polls:       &polls{registry: s.registry, clients: s.clients, pace: s.service.pace, waiting: s.service.subscriptions, wakeReaders: s.nodes.wakeReaders},
	}
	s.sofa = &sofaDoor{config: c, service: s.service, intake: s.services.intake, clients: s.clients, view: s.view, identify: s.Identify}
}

// Run serves until Shutdown is complete (nil), until an error that retrying
// cannot resolve, or until ctx ends; see node.Base.Run.
//
// The order of the start follows article 002: ports; then meta, whose answer
// includes the table (renewNode in the article); then the data nodes; then
// clients; last, off the blacklist.
func (s *Server) Run(ctx context.Context) error {
	return s.Base.Run(ctx, 0, s.routes, func(ctx context.Context) error {
		doors, err := s.openDoors(ctx)
		if err != nil {
			return err
		}
		return s.RunMember(ctx, append(doors, s.state.run, s.nodes.run, s.leases.run, s.spread.run, s.writer.runAudit, s.runOpening)...)
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
		applied := s.state.applied.Next() // before the check, so that no change is missed
		if with(s.registry, (*registry.Registry).HasTable) {
			break
		}
		select {
		case <-applied:
		case <-ctx.Done():
			return
		}
	}
	limited, cancel := context.WithTimeout(ctx, s.config.Beat)
	s.nodes.waitFeeds(limited)
	cancel()
	s.drain.open()
	s.meta.Poke() // until then the leader lets no other session drain
	s.events.Add(wire.Event{Type: "session.open", Text: "takes clients"})
	s.log.Info("taking clients", "slots", len(s.view.Table().Slots), "table", s.view.TableEpoch().String())
	_ = s.meta.Restore(ctx) // fails only when ctx ends
}

// routes returns the handler of the session's port.
func (s *Server) routes(string) (http.Handler, error) {
	r := s.Router(s.ready, s.meta.Announced)
	admin := &admin{registry: s.registry, clients: s.clients}
	r.HandleFunc("/v1/clients", admin.getClients).Methods(http.MethodGet)
	r.HandleFunc("/v1/publishers", admin.getPublishers).Methods(http.MethodGet)
	r.HandleFunc("/v1/subscribers", admin.getSubscribers).Methods(http.MethodGet)
	path, handler := wirev1connect.NewSessionServiceHandler(&sessionService{config: s.config, registry: s.registry, reroute: s.nodes.reroute}, s.HandlerOptions())
	serve.Mount(r, path, handler)
	path, handler = wirev1connect.NewClientServiceHandler(s.service, serve.ClientHandlerOptions())
	serve.Mount(r, path, withRequest(handler, s.services.intake))
	s.services.add(r)
	s.sofa.add(r)
	return r, nil
}

// isCutOff reports whether most of the data nodes on the member list have not answered for
// a beat after their feeds ended, although they live: a dead one leaves the list by then, or
// up to two seconds later if its host went silent with it. A leader that is silent says
// nothing about them: then the slots' leaders count, too, which may be all that the last list
// has left. If that list has other sessions and not this one, it is cut off whoever answers:
// data nodes remove its copies.
func (s *Server) isCutOff() bool {
	nodes, silent, members := map[string]bool{}, 0, s.view.State().Members
	if s.LeaderSilent() {
		if !members.Has(s.config.Node) && len(members.Of(conclave.RoleSession)) > 0 {
			return true
		}
		nodes = s.nodes.wanted()
	}
	for _, m := range members.Of(conclave.RoleData) {
		nodes[m.Address] = true
	}
	for address := range nodes {
		if !s.nodes.answers(address, s.config.Beat, 2*s.meta.NodeLease()) {
			silent++
		}
	}
	return 2*silent > len(nodes)
}

// unheard returns the data nodes that each beat reports. The meta leader finds a
// dead one first.
func (s *Server) unheard() []string {
	return s.nodes.unheard(s.meta.NodeLease())
}

// report returns what each beat carries.
func (s *Server) report() (_ []*wirev1.SlotReport, load uint32, ready, draining bool) {
	ready, _ = s.ready()
	_, draining = s.drain.reported()
	return nil, uint32(s.clients.count()), ready, draining
}

// ready reports whether clients are served. The reasons explain why not, or what is
// wrong although they are.
func (s *Server) ready() (bool, []string) {
	if err := s.meta.Refusal(); err != nil {
		if opened, _ := s.drain.reported(); !opened {
			return false, []string{"refused by the leader: " + err.Error()}
		}
	}
	if s.view.TableEpoch().IsZero() {
		return false, []string{"no slot table"}
	}
	ready, reason := s.drain.ready()
	if !ready {
		return false, []string{reason}
	}
	var reasons []string
	if reason != "" {
		reasons = append(reasons, reason)
	}
	if n := with(s.registry, (*registry.Registry).Figures).TooLarge; n > 0 {
		reasons = append(reasons, fmt.Sprintf("%d lists are too large to be sent", n))
	}
	if s.LeaderSilent() {
		reasons = append(reasons, "stale")
	}
	return true, append(reasons, s.Stopping.Reasons()...)
}
