package data

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"conclave"
	"conclave/internal/stage"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/wire"
)

// Shutdown hands over everything that this node holds and then stops it; Run
// returns nil. The order is that of article 002 (doStop, gracefulShutdown):
//
//  1. Ask meta to blacklist this node (addSelfToMetaBlacklist). Meta refuses
//     that while no other node can take over; it is then asked again until one
//     can.
//  2. Wait until this node leads no slot (hasSlot), every successor serves, and
//     no slot that it follows has lost its leader: this copy may be the last
//     one, and the slot may be granted to this node to be handed on
//     (slot.HandedOver). It also waits until other nodes have the copies that
//     this node has as a follower (slot.Drained). With the switch stop-push on
//     (isStopPushSwitch) it does not wait for that, but until the leader of each
//     slot that it follows has sent something since the drain entry: the member
//     list may still name a leader that is dead.
//  3. Leave the member list.
//  4. Stop the feeds, close the listener.
//
// With stop-push on the original skips step 2 as a whole, and so it does in
// protection mode, where slots do not move: the slots that the node leads are
// lost with it, as in a crash. Here it hands them over in any case. In protection
// mode it waits and logs it, until the caller's deadline. It also waits while
// there is no meta leader. If ctx ends first the node stops all the same, and
// Shutdown returns the reason.
//
// While a stop of the whole cluster is announced (`conclave down`), only step 4
// is taken, even if the announcement arrives during the other steps.
func (s *Server) Shutdown(ctx context.Context) error {
	return s.Base.Shutdown(ctx, func(ctx context.Context) (err error) {
		switch {
		case s.Stopping.InForce():
			s.log.Info("the cluster is stopping: nothing is handed over")
		case !s.ready.Load() && !s.holdsAny():
			s.log.Info("this node never registered: there is nothing to hand over")
		default:
			err = stage.Run(ctx, s.log, []stage.Stage{
				{Name: "ask for a drain", Do: s.drain},
				{Name: "hand the slots over", Do: s.handOver},
				{Name: "leave the member list", Do: s.leave},
			})
		}
		s.config.Trace.Claim(trace.Claim{Kind: trace.Emptied, Count: len(s.view.Table().LedBy(s.config.Node)), Flag: err == nil && s.handedOver, Err: err})
		return err
	})
}

// drain asks meta to blacklist this node. Meta writes the entry only if there
// is a successor.
func (s *Server) drain(ctx context.Context) error {
	defer s.WarnWhileWaiting(ctx, "waiting for a meta leader and for a node that can take over, to drain this node")()
	var refused error
	for {
		changed := s.view.Changed()
		if s.Stopping.InForce() {
			return nil
		}
		epoch, err := s.meta.Drain(ctx, "stopping")
		if err == nil {
			s.forbidden = epoch
			break
		}
		if wire.CodeOf(err) != wire.CodeNoSuccessor {
			return cmp.Or(refused, err)
		}
		if refused == nil {
			s.log.Warn("drain refused", "why", err)
		}
		refused = err
		select {
		case <-changed:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return err
		}
	}
	s.draining.Store(true)
	s.meta.Poke()
	s.events.Add(wire.Event{Type: "data.draining", Text: "asked meta to move this node's slots"})
	return nil
}

// handOver waits until this node may stop without loss. It judges by no state that
// is older than the drain entry: such a one may show a leader of a slot that is
// followed here as alive, although this copy is the last one.
func (s *Server) handOver(ctx context.Context) error {
	if !s.draining.Load() {
		return nil // the step before has logged why
	}
	began := time.Now()
	alive := func(leader conclave.NodeID) bool { return s.follows.receivedSince(leader, began) }
	next := time.NewTicker(5 * time.Second)
	defer next.Stop()
	for {
		changed := s.view.Changed()
		st := s.view.State()
		s.handedOver = !st.Blacklist.Epoch.Less(s.forbidden) && mayStop(st, s.config.Node.Name, alive)
		if s.handedOver || s.Stopping.InForce() {
			return nil
		}
		select {
		case <-changed:
		case <-s.Beats.Next(): // what the leaders send changes no state
		case <-next.C:
			s.log.Warn("waiting for successors", "led", len(st.Table.LedBy(s.config.Node)), "frozen", st.Freeze.Frozen, "leader silent for", s.meta.LostFor())
		case <-ctx.Done():
			return fmt.Errorf("this node still leads %d slots: %w", len(st.Table.LedBy(s.config.Node)), ctx.Err())
		}
	}
}

// holdsAny reports whether this node has a place in some slot or a copy of it.
func (s *Server) holdsAny() bool {
	reports, _, _, _ := s.report()
	return len(reports) > 0
}

// mayStop reports whether a node may leave by the given state: it has handed its
// slots over, and other nodes have its copies or, if pushes are stopped, the
// leaders of the slots that it follows are alive.
func mayStop(st wire.State, name string, alive func(leader conclave.NodeID) bool) bool {
	live := make([]conclave.NodeID, 0, 8)
	for _, m := range st.Members.Of(conclave.RoleData) {
		live = append(live, m.Node)
	}
	if st.Switches.Get(wire.SwitchStopPush, "off") == "on" {
		for _, row := range st.Table.Slots {
			if row.Names(name) && row.Leader.Name != name && !alive(row.Leader) {
				return false
			}
		}
		return slot.HandedOver(st.Table, name, live)
	}
	return slot.Drained(st.Table, name, live, st.Blacklist.Entries.Names(), st.Replicas)
}

func (s *Server) leave(ctx context.Context) error {
	if s.Stopping.InForce() {
		return nil
	}
	return s.Leave(ctx)
}
