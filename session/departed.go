package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	"conclave/session/registry"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Limits of handing over what clients have left.
const (
	departedLimit   = 5 * time.Second
	departedAtOnce  = 16       // clients
	departedMessage = 64 << 10 // bytes
)

// handOverDeparted gives what clients with a linger have left to other sessions,
// which keep it for the rest of that. A client that is connected moves; one that has
// departed cannot, so this session connects in its name, sends its registrations
// and, once data has them, ends the request in order, as the client did here.
func (s *Server) handOverDeparted(ctx context.Context) error {
	departed := s.clients.departed(time.Now())
	addresses, others := s.drain.openSessions(s.view.State(), true)
	if len(departed) == 0 || s.Stopping.InForce() {
		return nil
	}
	if !others {
		return fmt.Errorf("what %d clients have left stays for the session grace: no other session takes clients", len(departed))
	}
	ctx, cancel := context.WithTimeout(ctx, departedLimit)
	defer cancel()
	failed := make([]error, len(departed))
	var all errgroup.Group
	all.SetLimit(departedAtOnce)
	for i, b := range departed {
		all.Go(func() error {
			for n := range addresses { // not all to the same one
				if failed[i] = s.handOver(ctx, b, addresses[(i+n)%len(addresses)]); failed[i] == nil || ctx.Err() != nil {
					return nil
				}
			}
			return nil
		})
	}
	_ = all.Wait() // failed has the errors
	failed = slices.DeleteFunc(failed, func(err error) bool { return err == nil })
	s.log.Info("handed over what clients had left", "clients", len(departed), "failed", len(failed))
	if len(failed) > 0 {
		return fmt.Errorf("what %d of %d clients have left stays for the session grace: %w", len(failed), len(departed), failed[0])
	}
	return nil
}

// handOver gives what one client has left to the session at an address.
func (s *Server) handOver(ctx context.Context, b broken, address string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before its end in order, it breaks the stream off
	stream := s.Peers.Client(address).Connect(ctx)
	defer func() { _ = stream.CloseResponse() }()
	hello := &wirev1.ClientHello{Client: b.conn.Client, Name: b.conn.Name, Identity: b.conn.Identity, LingerMs: wire.Ms(max(time.Until(b.until), time.Millisecond))}
	if err := exchange(stream, &wirev1.ClientMessage{Hello: hello}, func(m *wirev1.ServerMessage) bool { return m.GetWelcome() != nil }); err != nil {
		return err
	}
	holdings := with(s.registry, func(r *registry.Registry) *registry.Holdings { return r.Holdings(b.conn.Owner) })
	for pings, more := uint64(1), true; more; pings++ {
		m := &wirev1.ClientMessage{Ping: pings}
		s.registry.do(func(r *registry.Registry) { m.Publishers, more = r.Copies(holdings, partAtOnce, departedMessage) })
		unstored := map[string]bool{}
		for _, p := range m.GetPublishers() {
			unstored[p.GetId()] = true
		}
		stored := func(m *wirev1.ServerMessage) bool {
			for _, ack := range m.GetStored() {
				delete(unstored, ack.GetId())
			}
			return len(unstored) == 0
		}
		if err := exchange(stream, m, stored); err != nil {
			return err
		}
	}
	if err := stream.CloseRequest(); err != nil {
		return err
	}
	for err := error(nil); err == nil; {
		_, err = stream.Receive() // until the other session has ended the stream, which it breaks off
	}
	return ctx.Err()
}

// departed returns the connections of clients that have left as they had announced,
// and whose linger has not ended.
func (c *clients) departed(now time.Time) []broken {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.broken), func(b broken) bool { return !b.conn.Departed(now) })
}

// clientCall is one Connect call, as its client sees it.
type clientCall = connect.BidiStreamForClient[wirev1.ClientMessage, wirev1.ServerMessage]

// exchange sends a message, and receives until an answer is the wanted one.
func exchange(stream *clientCall, m *wirev1.ClientMessage, wanted func(*wirev1.ServerMessage) bool) error {
	if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for {
		m, err := stream.Receive() // also returns why a Send failed with io.EOF
		switch {
		case err != nil:
			return wire.FromConnect(err)
		case len(m.GetRefused()) > 0:
			return wire.Errorf(wire.Code(m.Refused[0].GetCode()), "registration %s: %s", m.Refused[0].GetId(), m.Refused[0].GetMessage())
		case m.GetMove() != nil:
			return wire.Errorf(wire.CodeUnavailable, "the other session asks its clients to move")
		case wanted(m):
			return nil
		}
	}
}
