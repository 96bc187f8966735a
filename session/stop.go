package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

	"conclave"
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
			{Name: "ask clients to move", Do: s.moveClients},
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
	defer s.mark()
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
		timer := time.NewTimer(time.Second)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("no other session takes clients: %w", err)
		}
		timer.Stop()
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

// mark records that this session drains for its stop, and reports it with the
// next beat.
func (s *Server) mark() {
	s.drain.set(func() { s.drain.marked = true })
	s.meta.Poke() // send a beat now; see report
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

// moveClients asks the clients to move, if another session takes them.
func (s *Server) moveClients(context.Context) error {
	s.drain.update()
	s.drain.advertise()
	return nil
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
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		waiting := len(with(s.registry, (*registry.Registry).Unwritten))
		if waiting == 0 {
			tick.Stop()
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return fmt.Errorf("%d slots have not taken the last changes: %w", waiting, ctx.Err())
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
	for {
		res, err := s.Peers.Node(address).FetchState(ctx, connect.NewRequest(&wirev1.FetchStateRequest{Have: have}))
		if err == nil && res.Msg.GetState().GetMembers() != nil && !s.isNamed(res.Msg.GetState().GetMembers()) {
			return nil
		}
		if wire.Refused(err) {
			return nil // the node is down and waits for no answer
		}
		timer := time.NewTimer(5 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// isNamed reports whether a member list contains this session.
func (s *Server) isNamed(list *wirev1.Members) bool {
	return slices.ContainsFunc(list.GetMembers(), func(m *wirev1.Member) bool { return wire.NodeIn(m.GetNode()) == s.config.Node })
}
