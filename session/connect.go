package session

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"conclave"
	"conclave/internal/signal"
	"conclave/wire"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

var _ wirev1connect.ClientServiceHandler = (*clientService)(nil)

// clientService implements the service of client.proto.
type clientService struct{ s *Server }

// clientStream is one Connect call, as the session sees it.
type clientStream = connect.BidiStream[wirev1.ClientMessage, wirev1.ServerMessage]

// errSilent ends a stream on which no message was received for a client lease.
var errSilent = wire.Errorf(wire.CodeUnavailable, "no message was received for a client lease")

// errUnread ends the stream of a client that keeps sending what is refused and
// does not read the refusals.
var errUnread = wire.Errorf(wire.CodeTooLarge, "too many refusals wait to be read")

// maxLinger limits how long a client's registrations stay after its connection
// broke: without a client they must be removed some day.
const maxLinger = time.Hour

// Connect serves one client until its stream ends. This goroutine receives; a
// second one sends what the outbox holds. Neither waits for the other: the one
// that ends first unblocks the other through the deadlines of the request.
func (c *clientService) Connect(ctx context.Context, stream *clientStream) error {
	s := c.s
	response, ok := ctx.Value(responderKey{}).(*http.ResponseController)
	if !ok {
		return wire.Errorf(wire.CodeInternal, "the stream has no response controller")
	}
	extendDeadline := func() { _ = response.SetReadDeadline(time.Now().Add(s.ClientLease)) } // fails only when the stream has ended
	past := time.Unix(1, 0)

	// 1. The first message identifies the client.
	extendDeadline()
	first, err := stream.Receive()
	if err != nil {
		return wire.Errorf(wire.CodeBadRequest, "no hello was received: %v", err)
	}
	if first.GetHello().GetClient() == "" {
		return wire.Errorf(wire.CodeBadRequest, "the first message must be a hello that names the client")
	}
	conn := &connection{
		client: first.Hello.Client, name: first.Hello.Name, remote: stream.Peer().Addr, since: s.Now(), linger: s.ClientLease,
		authorized: serve.Authorized(stream.RequestHeader(), s.Token),
		out:        newOutbox(), settled: signal.New(), subs: map[string]*subscription{},
		abort: func() { _ = response.SetReadDeadline(past) },
	}
	if ms := first.Hello.GetLingerMs(); ms > 0 {
		conn.announced, conn.linger = true, wire.FromMs(min(ms, maxLinger.Milliseconds()))
	}
	conn.out.hello = &wirev1.Welcome{Session: wire.NodeOut(s.Node), ClientLeaseMs: wire.Ms(s.ClientLease), RememberMs: wire.Ms(s.SessionGrace)}
	conn.fresh.renew(time.Now(), s.ClientLease)
	if err := s.clients.admit(conn); err != nil {
		return err
	}

	// 2. Send and receive until one of them ends.
	sending, stop := context.WithCancel(ctx)
	finish := make(chan struct{}) // closed below: the sender sends what is left, then ends
	var sender sync.WaitGroup
	sender.Go(func() {
		if conn.send(sending, stream, finish) != nil {
			conn.abort()
		}
	})
	goodbye, err := s.receive(ctx, conn, stream, first, extendDeadline)

	// 3. End: after a good-bye once everything is sent, otherwise at once.
	conn.ended.Store(true)
	close(finish)
	if !goodbye {
		stop()
		_ = response.SetWriteDeadline(past)
	}
	sender.Wait()
	stop()
	for _, sub := range conn.subs {
		s.topics.unsubscribe(sub)
	}
	_, left := s.registry.counts(conn)
	if left == 0 {
		s.registry.disown(conn, wirev1.Cause_CAUSE_WITHDRAWN) // its tombstones stay, without an owner
	}
	s.clients.release(conn, left > 0, err == nil, time.Now())
	s.log.Debug("client left", "client", conn.name, "goodbye", goodbye, "registrations", left, "error", err)
	return err
}

// receive handles the client's messages until the stream ends or breaks, the
// client is silent for too long, or it says good-bye.
func (s *Server) receive(ctx context.Context, conn *connection, stream *clientStream, m *wirev1.ClientMessage, extendDeadline func()) (goodbye bool, err error) {
	for {
		s.take(conn, m)
		if conn.out.overflows() {
			return false, errUnread
		}
		if m.GetGoodbye() {
			s.withdrawAll(ctx, conn)
			return true, nil
		}
		m, err = stream.Receive()
		switch ended := errors.Is(err, io.EOF); {
		case err != nil && !ended:
			if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				err = errSilent
			}
			return false, err
		case !conn.fresh.renew(time.Now(), s.ClientLease):
			return false, errSilent // it came too late: see freshness.go
		case ended:
			return false, nil
		}
		extendDeadline()
	}
}

// send sends what the outbox holds, until finish is closed and nothing is left.
func (conn *connection) send(ctx context.Context, stream *clientStream, finish <-chan struct{}) error {
	for {
		for m := conn.out.next(); m != nil; m = conn.out.next() {
			if err := stream.Send(m); err != nil {
				return err
			}
		}
		select {
		case <-conn.out.ready.C():
		case <-finish:
			if m := conn.out.next(); m != nil {
				return stream.Send(m)
			}
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// take handles one message.
func (s *Server) take(conn *connection, m *wirev1.ClientMessage) {
	if len(m.GetPublishers()) > 0 {
		s.register(conn, m.Publishers)
	}
	if len(m.GetSubscribe()) > 0 {
		s.subscribe(conn, m.Subscribe)
	}
	for _, id := range m.GetUnsubscribe() {
		if sub := conn.subs[id]; sub != nil {
			delete(conn.subs, id)
			s.topics.unsubscribe(sub)
		}
	}
	if n := m.GetPing(); n > 0 {
		conn.out.add(func() { conn.out.pong = n })
	}
}

// register puts registrations into the set and answers each: accepted (the
// session is responsible for it from now on), stored if data is known to have
// it, or refused.
func (s *Server) register(conn *connection, publishers []*wirev1.Publisher) {
	accepted := make([]ack, 0, len(publishers))
	var stored []ack
	var refused []*wirev1.Refusal
	for _, in := range publishers {
		p, err := wire.PublisherIn(in)
		if err == nil && !conn.authorized {
			err = wire.Errorf(wire.CodeUnauthorized, "registering needs the header Authorization: Bearer TOKEN")
		}
		var known bool
		if err == nil {
			known, err = s.registry.put(conn, p)
		}
		if err != nil {
			refused = append(refused, refusal(in.GetId(), err))
			continue
		}
		accepted = append(accepted, ack{p.ID, p.Version, conn})
		if known {
			stored = append(stored, ack{p.ID, p.Version, conn})
		}
	}
	s.refusals.Add(float64(len(refused)))
	conn.out.add(func() {
		conn.out.accepted.add(accepted)
		conn.out.stored.add(stored)
		conn.out.refused = append(conn.out.refused, refused...)
	})
	s.nodes.wakeWriters()
}

// heldAtMostVersion is the highest version that a subscriber may come with.
// Above it the leader refuses to raise its counter, and the client must
// subscribe from zero.
const heldAtMostVersion = 1 << 52

func (s *Server) subscribe(conn *connection, subscriptions []*wirev1.Subscription) {
	now := time.Now()
	var refused []*wirev1.Refusal
	for _, in := range subscriptions {
		if err := s.subscribeOne(conn, in, now); err != nil {
			refused = append(refused, refusal(in.GetId(), err))
		}
	}
	if len(refused) > 0 {
		s.refusals.Add(float64(len(refused)))
		conn.out.add(func() { conn.out.refused = append(conn.out.refused, refused...) })
	}
	s.nodes.wakeReaders()
}

func (s *Server) subscribeOne(conn *connection, in *wirev1.Subscription, now time.Time) error {
	data, err := conclave.ParseDataInfoID(in.GetDataInfoId())
	if err != nil {
		return wire.Errorf(wire.CodeBadRequest, "%v", err)
	}
	if id := in.GetId(); id == "" || len(id) > 128 {
		return wire.Errorf(wire.CodeBadRequest, "subscription id %.20q: want 1 to 128 bytes", id)
	}
	if v := in.GetVersion(); v < 0 || v > heldAtMostVersion {
		return wire.Errorf(wire.CodeBadRequest, "subscription %s has version %d: want 0 to 2^52, start again from 0", in.GetId(), v)
	}
	n, ok := s.registry.slotOf(data.String())
	if !ok {
		return wire.Errorf(wire.CodeUnavailable, "this session has no slot table yet")
	}
	if old := conn.subs[in.GetId()]; old != nil {
		s.topics.unsubscribe(old)
	}
	row := s.fences.of(n)
	row.mu.Lock()
	defer row.mu.Unlock()
	row.pushed = max(row.pushed, in.GetVersion()) // some session has pushed it
	conn.subs[in.GetId()] = s.topics.subscribe(conn, data, n, in, now)
	row.pushed = max(row.pushed, conn.subs[in.GetId()].version)
	return nil
}

// withdrawAll withdraws everything that the client has registered, after its
// good-bye, and waits until data has that, for a client lease at most.
func (s *Server) withdrawAll(ctx context.Context, conn *connection) {
	if s.registry.withdraw(conn) > 0 {
		s.nodes.wakeWriters()
	}
	limit := time.NewTimer(s.ClientLease)
	defer limit.Stop()
	for s.registry.hasUnstored(conn) {
		select {
		case <-conn.settled.C():
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// deliver sends acknowledgements to the owners of stored registrations.
func (s *Server) deliver(acks []ack) {
	for len(acks) > 0 {
		to, n := acks[0].to, 1
		for n < len(acks) && acks[n].to == to {
			n++
		}
		mine := acks[:n]
		to.out.add(func() { to.out.stored.add(mine) })
		to.settled.Set()
		acks = acks[n:]
	}
}

func refusal(id string, err error) *wirev1.Refusal {
	out := &wirev1.Refusal{Id: id, Code: string(wire.CodeInternal), Message: err.Error()}
	var e *wire.Error
	if errors.As(err, &e) {
		out.Code, out.Message = string(e.Code), e.Message
	}
	return out
}
