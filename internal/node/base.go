package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/internal/contain"
	"conclave/internal/signal"
	"conclave/internal/sleep"
	"conclave/meta/metaclient"
	"conclave/wire"
	"conclave/wire/rights"
	"conclave/wire/serve"
)

// Base is one node without what its role does. Its parts exist from New on, so
// that the role's parts can be given them; they make calls only while Run runs.
type Base struct {
	Log      hclog.Logger
	Fence    *wire.Fence          // refuses commands of older terms
	Peers    *wire.Peers          // calls other nodes
	Meta     *metaclient.Client   // the connection to the meta leader; the role sets its Report before Run
	Stopping *metaclient.Stopping // what is known of a stop of the whole cluster
	Metrics  *Metrics
	Beats    *signal.Ticks // one each Beat, for the beats that the node sends and a data node's sweep

	config      Config
	role        conclave.Role
	view        *wire.View
	events      *serve.Events
	interceptor *wire.Interceptor
	tokens      *rights.Tokens

	started chan struct{}   // closed once the listener is open
	stop    chan struct{}   // closed when the stages of a stop are done: Run must return
	ended   context.Context // ends when Run returns
	end     context.CancelFunc

	address               string // set by Run before started is closed, as are the next two
	connections, requests *serve.Places
	fail                  context.CancelCauseFunc // ends Run with an error
	servers               []*serve.HTTPServer     // of the node's ports
	serving               sync.WaitGroup
	leaving               context.Context // ends with EndMembership
	leave                 context.CancelFunc
	left                  chan struct{} // closed when no beat is sent any more

	mu       sync.Mutex // guards the rest
	running  bool       // Run was called
	stopping bool       // Shutdown was called
}

// errStopped is the cause with which a graceful stop ends the loops.
var errStopped = errors.New("the node stops")

// New returns a node that does nothing until Run. The configuration has its
// defaults and is valid, and its Trace is that of the node (trace.Sink.Of).
func New(c Config, role conclave.Role) *Base {
	b := &Base{
		Log: c.Logger, Fence: &wire.Fence{Trace: c.Trace}, Metrics: newMetrics(),
		config: c, role: role, view: wire.NewView(), events: serve.NewEvents(c.Node.Name, c.Now),
		started: make(chan struct{}), stop: make(chan struct{}), left: make(chan struct{}),
	}
	b.ended, b.end = context.WithCancel(context.Background())
	b.Beats = signal.NewTicks(c.Beat, b.NewRand())
	b.leaving, b.leave = context.WithCancel(context.Background())
	b.view.Trace = c.Trace
	b.tokens = c.tokens()
	b.interceptor = &wire.Interceptor{View: b.view, Fence: b.Fence, Token: b.TokenFor}
	b.Peers = wire.NewPeers(c.Network, b.interceptor, wire.PingTimeout)
	if c.TLS != nil {
		b.Peers.UseTLS(c.TLS.ToNodes)
		b.Metrics.Gauge("conclave_tls_expires_seconds", "When the certificate in use ends, as seconds since 1970.", func() float64 { return float64(c.TLS.Expires().Unix()) })
		b.Metrics.Counter("conclave_tls_refused_total", "Changes of the certificates' files that could not be used.", c.TLS.Failed)
	}
	b.Meta = metaclient.New(metaclient.Config{
		Self: wire.Member{Node: c.Node, Role: role}, DataCenter: c.DataCenter, Metas: c.Metas,
		Peers: b.Peers, View: b.view, Fence: b.Fence, Logger: c.Logger.Named("metaclient"), Rand: b.NewRand(), Beat: c.Beat, Beats: b.Beats,
	})
	b.interceptor.Behind = b.Meta.Behind
	b.Stopping = &metaclient.Stopping{Node: c.Node, View: b.view, Events: b.events}
	b.Metrics.Counter("conclave_fence_refused_total", "Commands of older terms that were refused.", b.Fence.Refused)
	b.Metrics.Counter("conclave_view_refused_total", "States of older epochs that were refused.", b.view.Refused)
	return b
}

// Started returns a channel that is closed once the listener is open; Address
// is valid from then on.
func (b *Base) Started() <-chan struct{} { return b.started }

// Address returns the address at which others reach this node, or "" before
// Started is closed.
func (b *Base) Address() string {
	select {
	case <-b.started:
		return b.address
	default:
		return ""
	}
}

// Events returns the log of this node's events.
func (b *Base) Events() *serve.Events { return b.events }

// View returns what this node knows of the cluster's state.
func (b *Base) View() *wire.View { return b.view }

// TokenFor returns what this node sends to an address, or "": its token to those that
// its configuration has, and a token that is bound to the address to any other,
// which another process has named.
func (b *Base) TokenFor(address string) string {
	return rights.TokenFor(b.tokens.Token(rights.Node, b.config.Node.Name), address, b.config.Metas)
}

// Forward returns the credential with which a request that has this one is passed on
// to another node.
func (b *Base) Forward(credential, to string) string {
	return b.tokens.Forward(credential, b.address, to)
}

// NewRand returns a random source for one loop.
func (b *Base) NewRand() *rand.Rand {
	b.mu.Lock()
	defer b.mu.Unlock()
	return rand.New(rand.NewPCG(b.config.Rand.Uint64(), b.config.Rand.Uint64()))
}

// Run opens the listener, calls setup with the advertised address, serves the
// handler that it returns, and calls run, which returns when its context ends
// and joins what it has started; an error that it returns before ends the node.
//
// Run returns nil after Shutdown, the cause when ctx ends, which is a crash, and
// any other error that retrying cannot resolve: the port is taken, or another
// living process has the node's name (wire.CodeConflict). After a stop, requests
// in progress have grace to finish. It may be called once.
func (b *Base) Run(ctx context.Context, grace time.Duration, setup func(address string) (http.Handler, error), run func(context.Context) error) error {
	b.mu.Lock()
	twice, stopped := b.running, b.stopping
	b.running = true
	b.mu.Unlock()
	if twice {
		return errors.New("Run was called twice")
	}
	defer b.end()
	if stopped {
		return nil
	}
	ln, err := b.config.Network.Listen(ctx, "tcp", b.config.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", b.config.Listen, err)
	}
	b.connections, b.requests = b.places()
	b.address = cmp.Or(b.config.Advertise, ln.Addr().String())
	b.interceptor.Address, b.Meta.Self.Address = b.address, b.address
	b.Meta.Config.Metas = slices.DeleteFunc(slices.Clone(b.config.Metas), func(a string) bool { return a == b.address })
	handler, err := setup(b.address)
	if err == nil {
		err = serve.CheckRoutes(handler)
	}
	if err != nil {
		ln.Close()
		return err
	}
	defer b.Peers.Close()

	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var working sync.WaitGroup
	defer b.serving.Wait()
	b.fail = end
	b.Serve(b.connections.Listener(ln), handler)
	working.Go(func() {
		if err := run(ctx); err != nil && ctx.Err() == nil {
			end(err)
		}
	})
	close(b.started)
	b.Log.Info("listening", "node", b.config.Node, "address", b.address)
	select {
	case <-ctx.Done():
	case <-b.stop:
		end(errStopped)
	}
	working.Wait()
	if err := context.Cause(ctx); !errors.Is(err, errStopped) {
		for _, s := range b.servers {
			s.Close()
		}
		return err
	}
	last, done := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer done()
	for _, s := range b.servers {
		s.Shutdown(last)
	}
	b.Log.Info("stopped", "node", b.config.Node)
	return nil
}

// Serve serves HTTP on a listener until Run returns, with the limit of requests and the TLS of
// the node. It is called from within Run.
func (b *Base) Serve(ln net.Listener, handler http.Handler) {
	if b.config.TLS != nil {
		ln = b.config.TLS.Listener(ln, b.config.ClientCerts)
	}
	pings := wire.PingTimeout
	if b.role == conclave.RoleSession {
		pings = wire.ClientPingTimeout
	}
	server := serve.NewHTTPServer(ln, b.requests.Handler(contain.Handler(b.Log, handler)), pings)
	b.servers = append(b.servers, server)
	b.serving.Go(func() {
		if err := server.Serve(); err != nil {
			b.fail(fmt.Errorf("serve %s: %w", ln.Addr(), err))
		}
	})
}

// Listen opens a port beside the node's own, from within its Run, within the same limit of
// connections. It is closed with ctx.
func (b *Base) Listen(ctx context.Context, address string) (net.Listener, error) {
	ln, err := b.config.Network.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	context.AfterFunc(ctx, func() { ln.Close() })
	return b.connections.Listener(ln), nil
}

// places returns the places of the node's connections and requests: twice as many
// requests, since each client of a session has one that lasts, and may ping by another.
func (b *Base) places() (connections, requests *serve.Places) {
	all, each := b.config.MaxConnections, b.config.MaxAddressConnections
	b.Metrics.Counter("conclave_panics_total", "Panics that ended a request or a stream instead of the process. Each is a defect: see the log.", contain.Count)
	connections, requests = serve.NewPlaces(all, each), serve.NewPlaces(2*all, 2*each)
	b.Metrics.Counter("conclave_connections_refused_total", "Connections that were closed because there were too many, in all or from their address.", connections.Refused)
	b.Metrics.Counter("conclave_requests_refused_total", "Requests that were refused because there were too many, in all or from their address.", requests.Refused)
	return connections, requests
}

// Shutdown calls stages, which is the role's part of a graceful stop, and then
// ends Run, which returns nil. Whatever stages returns, the stop is completed;
// its context ends if the node ends by itself. Before Run, Shutdown only makes
// Run return at once; a second call waits for the first. The error is that of
// stages, or of a ctx that ended before Run returned.
func (b *Base) Shutdown(ctx context.Context, stages func(context.Context) error) error {
	b.mu.Lock()
	twice, running := b.stopping, b.running
	b.stopping = true
	b.mu.Unlock()
	if !running {
		return nil
	}
	select {
	case <-b.started:
	case <-b.ended.Done():
	}
	select {
	case <-b.ended.Done(): // a crash: there is nothing left to stop
		return nil
	default:
	}
	var err error
	if !twice {
		during, end := context.WithCancelCause(ctx)
		ends := context.AfterFunc(b.ended, func() { end(errors.New("the node has ended")) })
		err = stages(during)
		ends()
		end(nil)
		close(b.stop)
	}
	select {
	case <-b.ended.Done():
	case <-ctx.Done():
		err = cmp.Or(err, ctx.Err())
	}
	return err
}

// RunMember is the run of a session or data node (see Run): it keeps the node
// registered with the meta leader, and runs its loops, until ctx ends. It
// returns an error if the leader refuses the node for good.
func (b *Base) RunMember(ctx context.Context, loops ...func(context.Context)) error {
	ctx, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	membership, leave := context.WithCancel(ctx)
	defer leave()
	defer context.AfterFunc(b.leaving, leave)()
	for _, run := range loops {
		all.Go(func() { run(ctx) })
	}
	err := b.Meta.Run(membership)
	close(b.left)
	if membership.Err() == nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// Register waits until the meta leader has written a member list with this
// node, however long that takes, and logs what it waits for. The error is that
// of ctx.
func (b *Base) Register(ctx context.Context) error {
	defer b.WarnWhileWaiting(ctx, "waiting for a meta leader to register with", "metas", b.config.Metas)()
	return b.Meta.WaitRegistered(ctx)
}

// Leave ends the membership and removes the node from the member list. The beats
// end first, because the next one would register the node again.
func (b *Base) Leave(ctx context.Context) error {
	if err := b.EndMembership(ctx); err != nil {
		return err
	}
	return b.Meta.Leave(ctx)
}

// EndMembership ends the beats to the leader, and returns when the last one has
// been sent.
func (b *Base) EndMembership(ctx context.Context) error {
	b.leave()
	select {
	case <-b.left:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// LeaderSilent reports whether nothing has been received from a meta leader for a
// node lease.
func (b *Base) LeaderSilent() bool { return b.Meta.LostFor() > b.Meta.NodeLease() }

// WarnWhileWaiting logs a line every 5 s, so that an operator sees what the
// node waits for, until the returned function is called or ctx ends.
func (b *Base) WarnWhileWaiting(ctx context.Context, line string, args ...any) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	var warning sync.WaitGroup
	warning.Go(func() {
		for sleep.For(ctx, 5*time.Second) == nil {
			b.Log.Warn(line, args...)
		}
	})
	return func() {
		cancel()
		warning.Wait()
	}
}
