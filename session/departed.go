package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	"conclave/session/registry"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Limits of handing over what clients have left.
const (
	departedLimit    = 5 * time.Second
	departedGreeting = time.Second // of one other session
	departedAtOnce   = 16          // clients
	departedMessage  = 64 << 10    // bytes
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
	h := &handOver{registry: s.registry, peers: s.Peers, failed: map[string]bool{}}
	errs := make([]error, len(departed))
	var all errgroup.Group
	all.SetLimit(departedAtOnce)
	for i, b := range departed {
		all.Go(func() error {
			errs[i] = h.toAny(ctx, b, slices.Concat(addresses[i%len(addresses):], addresses[:i%len(addresses)]))
			return nil
		})
	}
	_ = all.Wait() // errs has them
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	s.log.Info("handed over what clients had left", "clients", len(departed), "failed", len(errs))
	if len(errs) > 0 {
		return fmt.Errorf("what %d of %d clients have left stays for the session grace, or a part of it: %w", len(errs), len(departed), errs[0])
	}
	return nil
}

// handOver gives what clients have left to other sessions.
type handOver struct {
	registry *locked
	peers    *wire.Peers

	mu     sync.Mutex // guards failed
	failed map[string]bool
}

// toAny gives what one client has left to the first of the sessions at some addresses
// that takes it. Those that have failed before are tried last.
func (h *handOver) toAny(ctx context.Context, b broken, addresses []string) (err error) {
	for len(addresses) > 0 {
		h.mu.Lock()
		i := max(0, slices.IndexFunc(addresses, func(a string) bool { return !h.failed[a] }))
		h.mu.Unlock()
		if err = h.to(ctx, b, addresses[i]); err == nil || ctx.Err() != nil {
			return err
		}
		h.mu.Lock()
		h.failed[addresses[i]] = true
		h.mu.Unlock()
		addresses = slices.Delete(addresses, i, i+1)
	}
	return err
}

// to gives it to the session at an address. What that session refuses is left out,
// and named in the error.
func (h *handOver) to(ctx context.Context, b broken, address string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before its end in order, it breaks the stream off
	stream := h.peers.Client(address).Connect(ctx)
	abort := func() { _ = stream.CloseResponse() }
	defer abort()
	defer context.AfterFunc(ctx, abort)() // net/http does not notice the end while it waits for more of the request
	silent := time.AfterFunc(departedGreeting, cancel)
	var refused error
	err := exchange(stream, &wirev1.ClientMessage{Hello: &wirev1.ClientHello{
		Client: b.conn.Client, Name: b.conn.Name, LingerMs: wire.Ms(max(time.Until(b.until), time.Millisecond)),
		Departed: &wirev1.Departed{Identity: b.conn.Identity, Address: b.conn.Address},
	}}, func(m *wirev1.ServerMessage) bool { return m.GetWelcome() != nil })
	silent.Stop()
	if err != nil {
		return err
	}
	holdings := with(h.registry, func(r *registry.Registry) *registry.Holdings { return r.Holdings(b.conn.Owner) })
	for pings, more := uint64(1), true; more; pings++ {
		m := &wirev1.ClientMessage{Ping: pings}
		h.registry.do(func(r *registry.Registry) { m.Publishers, more = r.Copies(holdings, partAtOnce, departedMessage) })
		open := map[string]bool{}
		for _, p := range m.GetPublishers() {
			open[p.GetId()] = true
		}
		if err := exchange(stream, m, func(m *wirev1.ServerMessage) bool {
			for _, ack := range m.GetStored() {
				delete(open, ack.GetId())
			}
			for _, r := range m.GetRefused() {
				delete(open, r.GetId())
				refused = cmp.Or(refused, error(wire.Errorf(wire.Code(r.GetCode()), "registration %s: %s", r.GetId(), r.GetMessage())))
			}
			return len(open) == 0
		}); err != nil {
			return err
		}
	}
	if err := stream.CloseRequest(); err != nil {
		return err
	}
	for { // until the other session has ended the stream, which it breaks off
		m, err := stream.Receive()
		if m.GetMove() != nil {
			return errMoves
		}
		if err != nil {
			return cmp.Or(ctx.Err(), refused)
		}
	}
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

// errMoves reports that the other session stops, or drains, as well: it would not keep
// what it is given for the linger.
var errMoves = wire.Errorf(wire.CodeUnavailable, "the other session asks its clients to move")

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
		case m.GetMove() != nil:
			return errMoves
		case wanted(m):
			return nil
		}
	}
}

// has reports whether a client is connected.
func (c *clients) has(client string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		if conn.Client == client {
			return true
		}
	}
	return false
}
