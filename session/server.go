package session

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/internal/node"
	"conclave/meta/metaclient"
	"conclave/session/registry"
	"conclave/wire"
	"conclave/wire/admit"
	"conclave/wire/list"
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
	s.leases = &leases{config: c, registry: s.registry, clients: s.clients, events: s.events, leaderSilent: s.LeaderSilent, expirations: counters.expired, wakeWriters: s.nodes.wakeWriters}
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
}

// Run serves until Shutdown is complete (nil), until an error that retrying
// cannot resolve, or until ctx ends; see node.Base.Run.
//
// The order of the start follows article 002: ports; then meta, whose answer
// includes the table (renewNode in the article); then the data nodes; then
// clients; last, off the blacklist.
func (s *Server) Run(ctx context.Context) error {
	return s.Base.Run(ctx, 0, s.routes, func(ctx context.Context) error {
		return s.RunMember(ctx, s.state.run, s.nodes.run, s.leases.run, s.spread.run, s.writer.runAudit, s.runOpening)
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
	serve.Mount(r, path, withRequest(handler, admit.New(intakeAll, intakeEach)))
	return r, nil
}

// isCutOff reports whether no meta leader and no data node has been heard for a node
// lease.
func (s *Server) isCutOff() bool {
	_, all := s.nodes.unheard(s.meta.NodeLease())
	return all && s.LeaderSilent()
}

// unheard returns the data nodes that each beat reports. The meta leader finds a
// dead one first.
func (s *Server) unheard() []string {
	addresses, _ := s.nodes.unheard(s.meta.NodeLease())
	return addresses
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

// Config configures a session. Zero durations take the values of DefaultConfig.
// Without a Token every client may register; see node.Config. A data node's feed counts as broken
// after two missed Beats.
type Config struct {
	node.Config

	// ClientLease is how long the registrations of a broken connection are kept
	// for their client to come back (a quarter of it if the client's end was seen
	// and no other client was lost), and how long a silent connection counts as
	// open. It is at least three times the client's ping interval, which is a
	// fifth of it. Default 5 s.
	ClientLease time.Duration
	// SessionGrace is how long tombstones are remembered, also by clients; the
	// time within which removals are counted together; and, with 5 s added, the
	// longest time for which the push guard holds a push back. ClientLease is
	// at most two thirds of it. Default 15 s, as on the data nodes.
	SessionGrace time.Duration
	// PushWindow is the time after a push of a datum within which its further
	// changes are merged, unless the switch push-window-ms overrides it.
	// Default 10 ms.
	PushWindow time.Duration
	// DrainTimeout is how long a graceful stop waits for clients to move to
	// another session. Default 10 s.
	DrainTimeout time.Duration

	// MaxSubscriptions and MaxRegistrations are how many of them a client may have
	// here, and MaxClientBytes how much memory they may take, about. MaxAddressBytes is
	// how much those of all clients from one address may take. What exceeds a limit is
	// refused with the code limit_reached, and its client sends it again later; the rest
	// stays. Defaults 65,536; 1,050,000; 1 GiB; 2 GiB.
	MaxSubscriptions, MaxRegistrations int
	MaxClientBytes, MaxAddressBytes    int64
	// MaxOutboxBytes is how many bytes of answers may wait for a client that does not read
	// them. A client that exceeds it loses its connection, and can connect again. The
	// session keeps as many of old lists, to send a slow client only what has changed in
	// them. The lists themselves, which it has in any case, do not count. Default 256 MiB.
	MaxOutboxBytes int64
	// MaxListBytes is the size of the largest list that is read and pushed, about, as it
	// is in memory. Subscribers of a larger one get an error, and keep what they have.
	// Default 256 MiB.
	MaxListBytes int64
}

// DefaultConfig returns a Config with every default. The caller sets Node and
// Metas.
func DefaultConfig() Config {
	return Config{
		Config:       node.Config{Listen: "127.0.0.1:9603"}.WithDefaults(),
		ClientLease:  5 * time.Second,
		SessionGrace: 15 * time.Second,
		PushWindow:   10 * time.Millisecond,
		DrainTimeout: 10 * time.Second,

		MaxSubscriptions: 1 << 16, MaxRegistrations: 1_050_000,
		MaxClientBytes: 1 << 30, MaxAddressBytes: 2 << 30, MaxOutboxBytes: 256 << 20, MaxListBytes: list.MaxBytes,
	}
}

// withDefaults returns c with its zero fields set to the defaults.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	c.Config = c.Config.WithDefaults()
	c.Listen = cmp.Or(c.Listen, d.Listen)
	c.ClientLease = cmp.Or(c.ClientLease, d.ClientLease)
	c.SessionGrace = cmp.Or(c.SessionGrace, d.SessionGrace)
	c.PushWindow = cmp.Or(c.PushWindow, d.PushWindow)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, d.DrainTimeout)
	c.MaxSubscriptions = cmp.Or(c.MaxSubscriptions, d.MaxSubscriptions)
	c.MaxRegistrations = cmp.Or(c.MaxRegistrations, d.MaxRegistrations)
	c.MaxClientBytes = cmp.Or(c.MaxClientBytes, d.MaxClientBytes)
	c.MaxAddressBytes = cmp.Or(c.MaxAddressBytes, d.MaxAddressBytes)
	c.MaxOutboxBytes = cmp.Or(c.MaxOutboxBytes, d.MaxOutboxBytes)
	c.MaxListBytes = cmp.Or(c.MaxListBytes, d.MaxListBytes)
	return c
}

// Validate reports the first invalid field and the constraint that it violates.
// Zero fields stand for their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	if c.ClientLease > registry.FreshFor(c.SessionGrace) {
		return fmt.Errorf("client lease %s is above two thirds of the session grace %s: a client may be silent for a lease, "+
			"and its registrations would be held back in between", c.ClientLease, c.SessionGrace)
	}
	return cmp.Or(c.Config.Validate(conclave.RoleSession),
		node.Positive("ClientLease", c.ClientLease), node.Positive("SessionGrace", c.SessionGrace),
		node.Positive("PushWindow", c.PushWindow), node.Positive("DrainTimeout", c.DrainTimeout),
		node.PositiveNumber("MaxSubscriptions", c.MaxSubscriptions), node.PositiveNumber("MaxRegistrations", c.MaxRegistrations),
		node.PositiveNumber("MaxClientBytes", int(c.MaxClientBytes)), node.PositiveNumber("MaxAddressBytes", int(c.MaxAddressBytes)),
		node.PositiveNumber("MaxOutboxBytes", int(c.MaxOutboxBytes)), node.PositiveNumber("MaxListBytes", int(c.MaxListBytes)))
}
