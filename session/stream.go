package session

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"conclave/internal/contain"
	"conclave/internal/signal"
	"conclave/internal/sleep"
	"conclave/session/registry"
	"conclave/wire"
	"conclave/wire/admit"
	"conclave/wire/rights"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

var _ wirev1connect.ClientServiceHandler = (*clientService)(nil)

// clientService implements the service of client.proto.
type clientService struct {
	config                   Config
	registry                 *locked
	clients                  *clients
	arrivals                 *admit.Budget // clients that are being welcomed
	large                    *admit.Budget // bytes of large messages that are being sent
	many                     *admit.Budget // messages with many entries that are being handled
	pace                     *pace         // of subscriptions
	subscriptions            *admit.Budget // those that wait for their turn
	room                     *room
	watches                  *watches
	wakeWriters, wakeReaders func()
	refusals, unread         prometheus.Counter
}

// requestKey is the context key under which the Connect handler finds its request.
type requestKey struct{}

// request is what a stream's handler is given of its own request.
type request struct {
	response *http.ResponseController // sets its deadlines
	body     *incoming
	poll     *poll // if it waits for a list
}

// withRequest gives a stream's handler its request.
func withRequest(next http.Handler, in *admit.Budget) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := &incoming{ReadCloser: r.Body, intake: in, host: serve.HostOf(r.RemoteAddr)}
		defer body.handled()
		r = r.WithContext(context.WithValue(r.Context(), requestKey{}, &request{response: http.NewResponseController(w), body: body}))
		r.Body = body
		next.ServeHTTP(w, r)
	})
}

// errSilent ends a stream on which no message was received for a client lease.
var errSilent = wire.Errorf(wire.CodeUnavailable, "no message was received for a client lease")

// errUnread ends the stream of a client that does not read a message within
// sendLimit. Its code lets the client connect again.
var errUnread = wire.Errorf(wire.CodeUnavailable, "a message was not read within %s", sendLimit)

// errOutbox ends the stream of a client for which more bytes of answers wait than
// Config.MaxOutboxBytes. Its code lets the client connect again: it is then sent only
// what it does not have.
var errOutbox = wire.Errorf(wire.CodeUnavailable, "too many bytes of answers wait to be read")

// errFull ends the stream of a client that keeps sending what is refused and does
// not read the refusals.
var errFull = wire.Errorf(wire.CodeTooLarge, "too many refusals wait to be read")

// maxNameBytes limits what identifies a client or a registration, and what of a
// client's strings a refusal repeats.
const maxNameBytes = 128

// maxLinger limits how long a client's registrations stay after its connection
// broke: without a client they must be removed some day.
const maxLinger = time.Hour

// Connect serves a client of the SDK.
func (c *clientService) Connect(ctx context.Context, stream *connect.BidiStream[wirev1.ClientMessage, wirev1.ServerMessage]) error {
	request, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		return wire.Errorf(wire.CodeInternal, "the stream has no request")
	}
	identity, _ := rights.Of(ctx)
	v, err := c.welcome(ctx, arrival{
		stream: stream, response: request.response, body: request.body, identity: identity, address: stream.Peer().Addr,
		protocol: "conclave/1", alive: time.Now, linger: c.config.ClientLease,
	})
	if err != nil {
		return err
	}
	for v.next() {
	}
	return v.leave(ctx)
}

// visit is the stay of one client, from its hello until its stream has ended. The goroutine
// that has it receives; a second one sends what the outbox holds, while there is something.
// Neither waits for the other: the one that ends first unblocks the other through the
// deadlines of the stream.
type visit struct {
	*clientService
	arrival
	conn      *connection
	reading   *serve.Deadline
	receiving context.Context // what the receiver waits for ends with it
	ends      context.CancelFunc
	turn      *admit.Turn                // until the client is connected
	why       atomic.Pointer[wire.Error] // why the stream was ended from this side
	first     *wirev1.ClientMessage      // the hello, until it was handled
	goodbye   bool
	err       error // why the stream has ended
}

// welcome begins the visit of a client, whose first message identifies it.
func (c *clientService) welcome(ctx context.Context, a arrival) (*visit, error) {
	v := &visit{clientService: c, arrival: a, reading: &serve.Deadline{Response: a.response}}
	v.receiving, v.ends = context.WithCancel(ctx)
	begun := false
	defer func() {
		if !begun {
			v.turn.Leave()
			v.ends()
			v.reading.End()
		}
	}()
	v.extend()
	first, err := a.stream.Receive()
	v.first = first
	if err != nil {
		return nil, wire.Errorf(wire.CodeBadRequest, "no hello was received: %v", err)
	}
	if id, name := first.GetHello().GetClient(), first.GetHello().GetName(); id == "" || len(id) > maxNameBytes || len(name) > maxNameBytes {
		return nil, wire.Errorf(wire.CodeBadRequest, "the first message must be a hello that names the client, in at most %d bytes", maxNameBytes)
	}
	if err := c.clients.refusal(first.Hello.Client); err != nil {
		return nil, err // at once, instead of after a wait
	}
	owner := &registry.Owner{Client: first.Hello.Client, Name: first.Hello.Name, Protocol: a.protocol, Identity: a.identity.Name, Address: a.address, Host: a.body.host, Deltas: first.Hello.Deltas, Parts: first.Hello.Parts, Foreign: a.foreign}
	if d := first.Hello.Departed; d != nil {
		if err := c.mayHandOver(a.identity, first.Hello); err != nil {
			return nil, err
		}
		owner.Identity, owner.Address, owner.Host = d.GetIdentity(), d.GetAddress(), serve.HostOf(d.GetAddress())
	}
	v.reading.Set(time.Time{}) // the client waits for its welcome
	a.body.handled()
	late := time.AfterFunc(sendLimit, v.reading.Fail) // it may not read what it is sent meanwhile
	defer late.Stop()
	v.turn, err = arrive(ctx, c.arrivals, a.stream, func() { late.Reset(sendLimit) })
	if err != nil {
		return nil, err
	}
	v.conn = v.connect(owner, first.Hello)
	if err := c.clients.admit(v.conn, &wirev1.Welcome{
		Session: wire.NodeOut(c.config.Node), ClientLeaseMs: wire.Ms(c.config.ClientLease), RememberMs: wire.Ms(c.config.SessionGrace),
	}); err != nil {
		return nil, err
	}
	begun = true
	return v, nil
}

// mayHandOver returns why a hello may not hand over what a client has left, or nil. A
// client that is connected here has not departed.
func (c *clientService) mayHandOver(sender rights.Identity, hello *wirev1.ClientHello) error {
	d := hello.GetDeparted()
	switch {
	case !sender.May(rights.Node):
		return wire.Errorf(wire.CodeForbidden, "a hello in the name of %.100q needs the right %s", d.GetIdentity(), rights.Node)
	case len(d.GetIdentity()) > maxNameBytes || len(d.GetAddress()) > maxNameBytes:
		return wire.Errorf(wire.CodeBadRequest, "the identity and the address of a client that has departed have at most %d bytes", maxNameBytes)
	case c.clients.has(hello.GetClient()):
		return wire.Errorf(wire.CodeConflict, "client %s is connected here", hello.GetClient())
	}
	return nil
}

// connect returns the connection of a client.
func (v *visit) connect(owner *registry.Owner, hello *wirev1.ClientHello) *connection {
	conn := &connection{
		Owner: owner, since: v.config.Now(), linger: v.linger, identity: v.identity,
		settled: signal.New(), extend: v.extend, alive: v.alive, abort: v.abort,
		waiting:     &backlog[*wirev1.Publisher]{size: sizeOf, own: maxWaiting, intake: v.body.intake, host: v.body.host},
		subscribing: &backlog[*wirev1.Subscription]{size: subscriptionSize, intake: v.subscriptions, host: owner.Host},
	}
	end := func(because *wire.Error) func() {
		return func() { v.why.CompareAndSwap(nil, because); v.reading.Fail(); v.ends() }
	}
	conn.out = &outbox{
		send: v.stream.Send, failed: conn.abort, unread: end(errUnread), full: end(errOutbox),
		what: registry.Outbox{Limit: int(v.config.MaxOutboxBytes)}, large: v.large, host: conn.Host, log: v.config.Logger,
	}
	if ms := hello.GetLingerMs(); ms > 0 {
		conn.Announced, conn.linger = true, wire.FromMs(min(ms, maxLinger.Milliseconds()))
	}
	conn.Renew(time.Now(), v.config.ClientLease)
	return conn
}

// extend lets the stream stay for another client lease.
func (v *visit) extend() { v.reading.Set(time.Now().Add(v.config.ClientLease)) }

// abort ends the stream from this side.
func (v *visit) abort() {
	v.reading.Abort()
	v.ends()
}

// next receives a message and handles it. It reports whether the stream goes on. A panic
// ends the stream as if it had broken: its registrations have a lease.
func (v *visit) next() (goesOn bool) {
	broken := func(panicked error) { v.err = wire.Errorf(wire.CodeInternal, "%v", panicked) }
	contain.Run(v.config.Logger, broken, func() { goesOn = v.receive() })
	return goesOn
}

func (v *visit) receive() (goesOn bool) {
	if first := v.first; first != nil {
		v.first = nil
		return v.take(first)
	}
	m, err := v.stream.Receive()
	v.body.arrived()
	switch ended := errors.Is(err, io.EOF); {
	case err != nil && !ended:
		if v.err = err; v.body.full {
			v.err = errIntake
		}
		return false
	case (ended || m.GetPing() > 0) && !v.conn.Renew(v.alive(), v.config.ClientLease):
		v.err = errSilent // it came too late: see registry.Owner
		return false
	case ended:
		return false
	case m == nil:
		v.body.handled()
		return true
	}
	return v.take(m)
}

// take handles a message, and reports whether the stream goes on.
func (v *visit) take(m *wirev1.ClientMessage) (goesOn bool) {
	hold := v.handle(v.receiving, v.conn, m)
	if m.GetHello() == nil {
		v.turn.Leave()
		v.turn = nil
	}
	switch {
	case v.conn.out.overflows():
		v.err = errFull
		return false
	case m.GetGoodbye():
		v.conn.waiting.forget()
		v.withdrawAll(v.receiving, v.conn)
		v.goodbye = true
		return false
	}
	v.body.handled()
	_ = sleep.For(v.receiving, hold) // if it has ended, the next Receive fails
	v.extend()
	return true
}

// leave ends the visit: after a good-bye once everything is sent, otherwise at once. It
// returns why the stream has ended. What waits for room then was not accepted, and is
// forgotten.
func (v *visit) leave(ctx context.Context) error {
	defer v.reading.End()
	defer v.turn.Leave()
	conn := v.conn
	v.ends()
	conn.waiting.serving.Wait()
	conn.subscribing.serving.Wait()
	conn.waiting.forget()
	conn.subscribing.forget()
	if ctx.Err() == nil && errors.Is(v.err, os.ErrDeadlineExceeded) {
		v.err = errSilent
	}
	if because := v.why.Load(); v.err != nil && because != nil {
		v.err = because
		v.unread.Inc()
	}
	v.watches.leave(conn)
	v.registry.do(func(*registry.Registry) { conn.End() })
	if v.goodbye {
		conn.out.finish()
	} else {
		conn.out.cut()
		v.reading.Fail()
	}
	conn.out.wait()
	subscribed := with(v.registry, func(r *registry.Registry) []string { return r.Subscribed(conn.Owner) })
	v.endSubscriptions(conn, slices.Sorted(slices.Values(subscribed)))
	conn.moved = v.body.left && !v.goodbye
	conn.closed = v.body.broken && time.Since(conn.LastPing()) < v.config.ClientLease/2 // otherwise it was silent before
	left := with(v.registry, func(r *registry.Registry) int {
		left := r.Release(conn.Owner)
		v.clients.release(conn, left, v.err == nil, time.Now())
		return left
	})
	if left > 0 {
		v.clients.changed.Set()
	}
	v.config.Logger.Debug("client left", "client", conn.Name, "goodbye", v.goodbye, "registrations", left, "error", v.err)
	return v.err
}

// Ping takes a ping of a client whose stream is full. It takes no lock that is
// held while registrations are handled.
func (c *clientService) Ping(_ context.Context, req *connect.Request[wirev1.PingRequest]) (*connect.Response[wirev1.PingResponse], error) {
	conn := c.clients.find(req.Msg.GetClient(), req.Msg.GetConnection())
	if conn == nil {
		return nil, wire.Errorf(wire.CodeUnavailable, "connection %d has ended", req.Msg.GetConnection())
	}
	if !conn.Renew(time.Now(), c.config.ClientLease) {
		conn.abort() // it came too late: see registry.Owner
		return nil, errSilent
	}
	conn.extend()
	return connect.NewResponse(&wirev1.PingResponse{}), nil
}

// handle handles one message, and returns for how long no further one is to be read.
func (c *clientService) handle(ctx context.Context, conn *connection, m *wirev1.ClientMessage) (hold time.Duration) {
	if len(m.GetPublishers()) > 0 {
		c.register(ctx, conn, m.Publishers)
	}
	if len(m.GetSubscribe()) > 0 {
		hold = c.subscribe(ctx, conn, m.Subscribe)
	}
	if len(m.GetUnsubscribe()) > 0 {
		c.unsubscribe(conn, m.Unsubscribe)
	}
	if len(m.GetUnwatch()) > 0 {
		c.watches.unwatch(conn, m.Unwatch)
	}
	if len(m.GetWatch()) > 0 {
		c.watches.watch(conn, m.Watch)
	}
	if n := m.GetPing(); n > 0 {
		conn.out.add(func(o *registry.Outbox) { o.Pong = n })
	}
	if n := len(m.GetUnsubscribe()) + len(m.GetWatch()) + len(m.GetUnwatch()); n > 0 && c.pace.waits(conn.Host, time.Now()) {
		hold = min(hold+time.Duration(n)*subscribeTime, subscribeHold) // otherwise it could subscribe and unsubscribe as fast as it sends
	}
	return hold
}

// manyEntries is how many entries a message has that waits for others like it. The SDK
// sends fewer registrations at a time.
const manyEntries = 1024

// enterMany waits until a message with a number of entries may be handled: those with
// many take turns, and leave processors to all others.
func (c *clientService) enterMany(entries int) (turn *admit.Turn) {
	if entries > manyEntries {
		turn, _ = c.many.Wait(context.Background(), "", 1) // for processors only, which are soon free
	}
	return turn
}

// withdrawAll withdraws everything that the client has registered, after its
// good-bye, and waits until data has that, for a client lease at most.
func (c *clientService) withdrawAll(ctx context.Context, conn *connection) {
	withdraw := func(r *registry.Registry, h *registry.Holdings) (int, bool) {
		return r.Withdraw(h, partAtOnce)
	}
	if c.registry.inParts(conn.Owner, withdraw) > 0 {
		c.wakeWriters()
	}
	limit := time.NewTimer(c.config.ClientLease)
	defer limit.Stop()
	for with(c.registry, func(r *registry.Registry) bool { return r.HasUnstored(conn.Owner) }) {
		select {
		case <-conn.settled.C():
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// The number of clients that are being welcomed at a time is limited. When thousands
// connect at once, those that were welcomed are then served at the usual speed,
// instead of all of them so slowly that they leave and come again. The others
// wait in the order of their hellos, and are sent that they do.
//
//	hello --> (waiting) --> welcome --> (arriving) --> first message handled --> connected
//	            |   ^                       |
//	            +---+ wait, each second     +-- arrivalLimit has passed -------> connected
const (
	arrivalPlaces = 64
	arrivalLimit  = 100 * time.Millisecond // after which a client that sends nothing, or does not read, counts as connected
	waitAgain     = time.Second            // between two messages to a client that waits
	waitAtMost    = 3 * waitAgain          // after which a client that receives neither leaves
)

// arrive waits until the client may be welcomed, and sends that it waits. The turn must
// be left when the client is connected. sent is called when the client has read a
// message, or its transport has.
func arrive(ctx context.Context, arrivals *admit.Budget, stream clientStream, sent func()) (*admit.Turn, error) {
	turn := arrivals.Join("", 1)
	again := time.NewTicker(waitAgain)
	defer again.Stop()
	for turn.Waits() {
		if err := stream.Send(&wirev1.ServerMessage{WaitMs: wire.Ms(waitAtMost)}); err != nil {
			turn.Leave()
			return nil, err
		}
		sent()
		select {
		case <-turn.Given():
		case <-again.C:
		case <-ctx.Done():
			turn.Leave()
			return nil, ctx.Err()
		}
	}
	return turn, nil
}

// The intake bounds the messages that clients have sent in part, or whose handling
// waits, in bytes: of each address, and of all. The stream that exceeds it ends, and
// its client connects again.
//
// Small messages count only until they have arrived. The SDK's are small, except
// those with one very large registration.
const (
	intakeAll   = 256 << 20
	intakeEach  = 64 << 20 // of one address
	intakeSmall = 256 << 10
)

// incoming is the body of one client's stream. Only the stream's handler uses it.
type incoming struct {
	io.ReadCloser
	intake *admit.Budget
	host   string
	bytes  int // that it has taken
	full   bool
	broken bool // the client's side has reset the stream or closed the connection
	left   bool // it has reset the stream, as a client does that goes on at another session
}

// reset is how net/http reports a stream that the client has reset while its connection
// lives; a client that is killed closes the connection.
type reset struct {
	StreamID, Code uint32
	Cause          error
}

func (reset) Error() string { return "the client has reset the stream" }

// errIntake ends a stream that exceeds the intake. Its code lets the client connect
// again.
var errIntake = wire.Errorf(wire.CodeUnavailable, "too many bytes of messages that have not arrived completely, or are not handled yet")

// Read implements io.Reader.
func (b *incoming) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.broken = err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded)
	b.left = errors.As(err, new(reset))
	if n > 0 {
		if !b.intake.Try(b.host, n) {
			b.full = true
			return 0, errIntake
		}
		b.bytes += n
	}
	return n, err
}

// arrived is called when a message is complete.
func (b *incoming) arrived() {
	if b.bytes <= intakeSmall {
		b.handled()
	}
}

// handled is called when a message was handled, and at the end.
func (b *incoming) handled() {
	if b.bytes > 0 {
		b.intake.Release(b.host, b.bytes)
		b.bytes = 0
	}
}
