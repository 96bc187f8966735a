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

	"conclave"
	"conclave/internal/sleep"
	"conclave/internal/stage"
	"conclave/internal/trace"
	"conclave/session/registry"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Time limits of single stop steps; the caller's context limits all of them.
const (
	markLimit  = 3 * time.Second
	flushLimit = 2 * time.Second
	seenLimit  = time.Second
)

// Shutdown stops gracefully: before the port closes, the clients have moved to
// other sessions and the cluster has removed this session. Afterwards Run
// returns nil. The error joins the steps that failed; the stop completes in any
// case.
//
// The counterpart is doStop in article 002, whose order is: HTTP, the handling
// of disconnects, client port, blacklist, the ports for data, console,
// scheduler. Here the session is marked as draining first, because a client
// that is sent away while the session is still on the lists given to clients
// comes straight back.
func (s *Server) Shutdown(ctx context.Context) error {
	return s.Base.Shutdown(ctx, func(ctx context.Context) error {
		s.drain.set(func() { s.drain.stopping = true })
		cluster := s.Stopping.InForce()
		until := time.Now().Add(s.config.DrainTimeout)
		refuseClients := stage.Stage{Name: "refuse clients", Do: func(context.Context) error { s.drain.close(); return nil }}
		stages := []stage.Stage{
			{Name: "mark draining", Do: func(ctx context.Context) error { return s.markDraining(ctx, until) }},
			{Name: "ask clients to move", Do: func(context.Context) error { s.drain.update(); return nil }},
			{Name: "wait until no client is left", Do: func(ctx context.Context) error { return s.waitNone(ctx, until) }},
			refuseClients,
			{Name: "hand over what clients have left", Do: s.handOverDeparted},
			{Name: "hand the last changes to data", Do: s.flush},
			{Name: "leave the member list", Do: s.leaveMembers},
		}
		if cluster { // there is no session to move to and no leader to notify
			stages = []stage.Stage{refuseClients}
		}
		s.events.Add(wire.Event{Type: "session.stopping", Text: "graceful stop", Data: map[string]any{"clusterStops": cluster}})
		s.log.Info("stopping", "clients", s.clients.count(), "clusterStops", cluster)
		return stage.Run(ctx, s.log, stages)
	})
}

// markDraining takes this session off the lists given to clients
// (addSelfToMetaBlacklist in the article). It stays a member, so that data
// nodes still ask it for diffs. While the leader refuses because no other
// session takes clients, this session serves and asks again: at each change of
// the cluster's state, every second, and until the deadline (docs/adr/0029
// describes the same for a data node). If no meta leader can be asked, the next
// beat that arrives reports the drain.
func (s *Server) markDraining(ctx context.Context, until time.Time) error {
	defer func() {
		s.drain.set(func() { s.drain.marked = true })
		s.meta.Poke() // send a beat now; see report
	}()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for {
		changed := s.view.Changed()
		if s.Stopping.InForce() {
			return nil
		}
		err := s.askToDrain(ctx)
		opened, refused, first := s.drain.refuse(err, ctx.Err() != nil)
		switch {
		case wire.CodeOf(err) == wire.CodeNoSuccessor && !opened:
			return nil // it never took a client
		case !refused:
			return err
		case first:
			s.events.Add(wire.Event{Type: "session.last", Text: "the stop waits, and clients are served: no other session takes them", Data: map[string]any{"reason": "stop"}})
			s.log.Warn("the stop waits until another session takes clients", "refused", err)
		}
		select {
		case <-changed:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("no other session takes clients: %w", err)
		}
	}
}

// askToDrain asks the leader once.
func (s *Server) askToDrain(ctx context.Context) error {
	if known, err := s.reachable(); !known || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, markLimit)
	defer cancel()
	_, err := s.meta.Drain(ctx, "stop")
	return err
}

// reachable reports whether the cluster knows this session at all. It returns an
// error if no meta leader can be reached now.
func (s *Server) reachable() (known bool, err error) {
	if _, ever := s.meta.LastContact(); !ever {
		return false, nil
	}
	if lost := s.meta.LostFor(); lost > s.meta.NodeLease() {
		return true, fmt.Errorf("no meta leader has answered for %s: this session stays on the lists until its lease ends", lost.Round(time.Millisecond))
	}
	return true, nil
}

// waitNone blocks until no client is connected, or until the deadline. Without
// another session this one keeps serving, since another may be back in time.
func (s *Server) waitNone(ctx context.Context, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for waiting := true; waiting && !s.Stopping.InForce(); {
		changed := s.view.Changed()
		select {
		case <-s.clients.none():
			waiting = false
		case <-changed:
		case <-ctx.Done():
			waiting = false
		}
	}
	if s.clients.count() == 0 || s.Stopping.InForce() {
		return nil
	}
	if _, others := s.drain.openSessions(s.view.State(), true); !others {
		return fmt.Errorf("%d clients stay: no other session takes clients", s.clients.count())
	}
	return fmt.Errorf("%d clients have not moved: %w", s.clients.count(), ctx.Err())
}

// flush waits until data has the last registrations and removals.
func (s *Server) flush(ctx context.Context) error {
	if s.Stopping.InForce() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushLimit)
	defer cancel()
	for {
		waiting := len(with(s.registry, (*registry.Registry).Unwritten))
		if waiting == 0 {
			return nil
		}
		if err := sleep.For(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%d slots have not taken the last changes: %w", waiting, err)
		}
	}
}

// leaveMembers ends the membership and waits until every data node has the
// member list without this session, so that none waits for its answers
// afterwards. Its copies stay there for the session grace, below those of the
// sessions that its clients are connected to now.
func (s *Server) leaveMembers(ctx context.Context) error {
	if s.Stopping.InForce() {
		return nil
	}
	known, err := s.reachable()
	s.config.Trace.Claim(trace.Claim{Kind: trace.Emptying, Count: s.clients.count()})
	if end := s.EndMembership(ctx); end != nil || !known || err != nil {
		return cmp.Or(end, err)
	}
	limited, cancel := context.WithTimeout(ctx, markLimit)
	defer cancel()
	if err := s.meta.Leave(limited); err != nil {
		return err
	}
	limited, cancel = context.WithTimeout(ctx, seenLimit)
	defer cancel()
	have := s.view.Epochs()
	for _, m := range s.view.State().Members.Of(conclave.RoleData) {
		if err := s.seenBy(limited, m.Address, have); err != nil {
			return fmt.Errorf("wait until %s has the new member list: %w", m.Node.Name, err)
		}
	}
	return nil
}

// seenBy waits until the node at address has a member list without this
// session.
func (s *Server) seenBy(ctx context.Context, address string, have *wirev1.Epochs) error {
	named := func(m *wirev1.Member) bool { return wire.NodeIn(m.GetNode()) == s.config.Node }
	for {
		res, err := s.Peers.Node(address).FetchState(ctx, connect.NewRequest(&wirev1.FetchStateRequest{Have: have}))
		if err == nil && res.Msg.GetState().GetMembers() != nil && !slices.ContainsFunc(res.Msg.GetState().GetMembers().GetMembers(), named) {
			return nil
		}
		if wire.Refused(err) {
			return nil // the node is down and waits for no answer
		}
		if err := sleep.For(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

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
		h.registry.do(func(r *registry.Registry) { m.Publishers, more = r.Messages(holdings, partAtOnce, departedMessage) })
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
