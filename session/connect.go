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
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

var _ wirev1connect.ClientServiceHandler = (*clientService)(nil)

// clientService answers client.proto.
type clientService struct{ s *Server }

// clientStream is one Connect call, as this side sees it.
type clientStream = connect.BidiStream[wirev1.ClientMessage, wirev1.ServerMessage]

// errSilent ends a stream on which nothing was heard for a client lease.
var errSilent = wire.Errorf(wire.CodeUnavailable, "nothing was heard for a client lease")

// errUnread ends a stream whose client asks on and on for what it is refused, and
// does not read that.
var errUnread = wire.Errorf(wire.CodeTooLarge, "too many refusals wait to be read")

// maxLinger bounds how long a client may ask its registrations to stay after its
// connection broke: what nobody vouches for must go one day.
const maxLinger = time.Hour

// Connect serves one client until its stream ends. Two goroutines: this one
// receives, the other sends what the outbox holds. Neither waits for the other:
// whoever ends first unblocks the other through the deadlines of the request.
func (c *clientService) Connect(ctx context.Context, stream *clientStream) error {
	s := c.s
	response, ok := ctx.Value(responderKey{}).(*http.ResponseController)
	if !ok {
		return wire.Errorf(wire.CodeInternal, "the stream has no response controller")
	}
	lively := func() { _ = response.SetReadDeadline(time.Now().Add(s.ClientLease)) } // fails only when the stream is over
	past := time.Unix(1, 0)

	// 1. The first message says who it is.
	lively()
	first, err := stream.Receive()
	if err != nil {
		return wire.Errorf(wire.CodeBadRequest, "no hello came: %v", err)
	}
	if first.GetHello().GetClient() == "" {
		return wire.Errorf(wire.CodeBadRequest, "the first message must be a hello that names the client")
	}
	who := &connection{
		client: first.Hello.Client, name: first.Hello.Name, remote: stream.Peer().Addr, since: s.Now(), linger: s.ClientLease,
		authorized: wire.Authorized(stream.RequestHeader(), s.Token),
		out:        newOutbox(), settled: make(chan struct{}, 1), subs: map[string]*subscription{},
		kick: func() { _ = response.SetReadDeadline(past) },
	}
	if ms := first.Hello.GetLingerMs(); ms > 0 {
		who.announced, who.linger = true, wire.FromMs(min(ms, maxLinger.Milliseconds()))
	}
	who.out.hello = &wirev1.Welcome{Session: wire.NodeOut(s.Node), ClientLeaseMs: wire.Ms(s.ClientLease), RememberMs: wire.Ms(s.SessionGrace)}
	who.word.hear(time.Now(), s.ClientLease)
	if err := s.clients.admit(who); err != nil {
		return err
	}

	// 2. Send and receive until one of them ends.
	sending, stop := context.WithCancel(ctx)
	finish := make(chan struct{}) // closed below: send what is left, then end
	var sender sync.WaitGroup
	sender.Go(func() {
		if who.send(sending, stream, finish) != nil {
			who.kick()
		}
	})
	goodbye, err := s.receive(ctx, who, stream, first, lively)

	// 3. End: after a good-bye politely, otherwise at once.
	who.over.Store(true)
	close(finish)
	if !goodbye {
		stop()
		_ = response.SetWriteDeadline(past)
	}
	sender.Wait()
	stop()
	for _, sub := range who.subs {
		s.topics.unsubscribe(sub)
	}
	_, left := s.registry.counts(who)
	if left == 0 {
		s.registry.disown(who, wirev1.Cause_CAUSE_WITHDRAWN) // its tombstones stay, ownerless
	}
	s.clients.release(who, left > 0, err == nil, time.Now())
	s.log.Debug("client left", "client", who.name, "goodbye", goodbye, "registrations", left, "error", err)
	return err
}

// receive takes what the client sends until it ends, breaks, falls silent or
// says good-bye.
func (s *Server) receive(ctx context.Context, who *connection, stream *clientStream, m *wirev1.ClientMessage, lively func()) (goodbye bool, err error) {
	for {
		s.take(who, m)
		if who.out.overflows() {
			return false, errUnread
		}
		if m.GetGoodbye() {
			s.withdrawAll(ctx, who)
			return true, nil
		}
		m, err = stream.Receive()
		switch ended := errors.Is(err, io.EOF); {
		case err != nil && !ended:
			if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				err = errSilent
			}
			return false, err
		case !who.word.hear(time.Now(), s.ClientLease):
			return false, errSilent // too late: see vouch.go
		case ended:
			return false, nil
		}
		lively()
	}
}

// send sends what the outbox holds, until finish is closed and nothing is left.
func (who *connection) send(ctx context.Context, stream *clientStream, finish <-chan struct{}) error {
	for {
		for m := who.out.next(); m != nil; m = who.out.next() {
			if err := stream.Send(m); err != nil {
				return err
			}
		}
		select {
		case <-who.out.wake:
		case <-finish:
			if m := who.out.next(); m != nil {
				return stream.Send(m)
			}
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// take does what one message asks for.
func (s *Server) take(who *connection, m *wirev1.ClientMessage) {
	if len(m.GetPublishers()) > 0 {
		s.register(who, m.Publishers)
	}
	if len(m.GetSubscribe()) > 0 {
		s.subscribe(who, m.Subscribe)
	}
	for _, id := range m.GetUnsubscribe() {
		if sub := who.subs[id]; sub != nil {
			delete(who.subs, id)
			s.topics.unsubscribe(sub)
		}
	}
	if n := m.GetPing(); n > 0 {
		who.out.add(func() { who.out.pong = n })
	}
}

// register takes registrations into the set, and answers each: accepted (the
// session replays it from now on), stored when data is known to have it, or
// refused.
func (s *Server) register(who *connection, publishers []*wirev1.Publisher) {
	accepted := make([]ack, 0, len(publishers))
	var stored []ack
	var refused []*wirev1.Refusal
	for _, in := range publishers {
		p, err := wire.PublisherIn(in)
		if err == nil && !who.authorized {
			err = wire.Errorf(wire.CodeUnauthorized, "registering needs the header Authorization: Bearer TOKEN")
		}
		var has bool
		if err == nil {
			has, err = s.registry.put(who, p)
		}
		if err != nil {
			refused = append(refused, refusal(in.GetId(), err))
			continue
		}
		accepted = append(accepted, ack{p.ID, p.Version, who})
		if has {
			stored = append(stored, ack{p.ID, p.Version, who})
		}
	}
	s.metrics.refused.Add(float64(len(refused)))
	who.out.add(func() {
		who.out.accepted.add(accepted)
		who.out.stored.add(stored)
		who.out.refused = append(who.out.refused, refused...)
	})
	s.nodes.wakeWriters()
}

// heldAtMostVersion is the highest version that a subscriber may come with:
// beyond it the leader refuses to raise its counter, and the client must forget
// what it holds.
const heldAtMostVersion = 1 << 52

func (s *Server) subscribe(who *connection, subscriptions []*wirev1.Subscription) {
	now := time.Now()
	var refused []*wirev1.Refusal
	for _, in := range subscriptions {
		if err := s.subscribeOne(who, in, now); err != nil {
			refused = append(refused, refusal(in.GetId(), err))
		}
	}
	if len(refused) > 0 {
		s.metrics.refused.Add(float64(len(refused)))
		who.out.add(func() { who.out.refused = append(who.out.refused, refused...) })
	}
	s.nodes.wakeReaders()
}

func (s *Server) subscribeOne(who *connection, in *wirev1.Subscription, now time.Time) error {
	data, err := conclave.ParseDataInfoID(in.GetDataInfoId())
	if err != nil {
		return wire.Errorf(wire.CodeBadRequest, "%v", err)
	}
	if id := in.GetId(); id == "" || len(id) > 128 {
		return wire.Errorf(wire.CodeBadRequest, "subscription id %.20q: want 1 to 128 bytes", id)
	}
	if v := in.GetVersion(); v < 0 || v > heldAtMostVersion {
		return wire.Errorf(wire.CodeBadRequest, "subscription %s holds version %d: want 0 to 2^52, start again from 0", in.GetId(), v)
	}
	n, ok := s.registry.slotOf(data.String())
	if !ok {
		return wire.Errorf(wire.CodeUnavailable, "this session holds no slot table yet")
	}
	if old := who.subs[in.GetId()]; old != nil {
		s.topics.unsubscribe(old)
	}
	row := s.fences.of(n)
	row.mu.Lock()
	defer row.mu.Unlock()
	row.pushed = max(row.pushed, in.GetVersion()) // some session pushed it
	who.subs[in.GetId()] = s.topics.subscribe(who, data, n, in, now)
	row.pushed = max(row.pushed, who.subs[in.GetId()].version)
	return nil
}

// withdrawAll does what a good-bye asks for: all is withdrawn, and the stream
// stays until data has that, for a client lease at most.
func (s *Server) withdrawAll(ctx context.Context, who *connection) {
	if s.registry.withdraw(who) > 0 {
		s.nodes.wakeWriters()
	}
	limit := time.NewTimer(s.ClientLease)
	defer limit.Stop()
	for s.registry.waits(who) {
		select {
		case <-who.settled:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// deliver tells owners what data has.
func (s *Server) deliver(acks []ack) {
	for len(acks) > 0 {
		to, n := acks[0].to, 1
		for n < len(acks) && acks[n].to == to {
			n++
		}
		mine := acks[:n]
		to.out.add(func() { to.out.stored.add(mine) })
		select {
		case to.settled <- struct{}{}:
		default:
		}
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
