package meta

import (
	"context"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/blacklist"
	"conclave/elector"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// service answers the requests of other nodes: of the election (a follower that
// acquired the leader's lock asks the leader's port; a leader that has resigned
// wakes the others; a node that seeks the leader asks any meta), and of members.
// What changes the state runs in the arranger, is durable before it is answered,
// and may be repeated.
type service struct {
	config     Config
	address    string // of this node
	elector    *elector.Elector
	leadership *leadership
}

var _ wirev1connect.MetaServiceHandler = (*service)(nil)

// Witness answers whether this node leads the term. The answer that it does not
// is a promise (Elector.ConfirmLeading).
func (s *service) Witness(_ context.Context, req *connect.Request[wirev1.WitnessRequest]) (*connect.Response[wirev1.WitnessResponse], error) {
	alive := s.elector.ConfirmLeading(req.Msg.GetTerm(), req.Msg.GetLock())
	return connect.NewResponse(&wirev1.WitnessResponse{Alive: alive}), nil
}

// Wake starts a round: the leader of a term has resigned.
func (s *service) Wake(_ context.Context, req *connect.Request[wirev1.WakeRequest]) (*connect.Response[wirev1.WakeResponse], error) {
	s.elector.Resigned(req.Msg.GetTerm())
	return connect.NewResponse(&wirev1.WakeResponse{}), nil
}

// GetLeader returns the leader that this node knows, or none if it knows no
// valid lease.
func (s *service) GetLeader(context.Context, *connect.Request[wirev1.GetLeaderRequest]) (*connect.Response[wirev1.GetLeaderResponse], error) {
	if l, err := s.leadership.asLeader(); err == nil {
		return connect.NewResponse(&wirev1.GetLeaderResponse{
			Term: l.term.Number, Leader: wire.NodeOut(s.config.Node), Address: s.address, Self: true,
		}), nil
	}
	out := &wirev1.GetLeaderResponse{Term: s.elector.Highest()}
	if name, address := s.leadership.otherLeader(); name != "" {
		t := s.elector.Current()
		out.Term, out.Leader, out.Address = t.Number, wire.NodeOut(t.Leader), address
	}
	return connect.NewResponse(out), nil
}

// Join holds the stream that every node has to the leader
// (HeartbeatRequestHandler in the articles).
func (s *service) Join(ctx context.Context, conn *joinStream) error {
	l, err := s.leadership.asLeader()
	if err != nil {
		return err
	}
	return l.joins.serve(ctx, conn)
}

// Leave removes the caller from the member list.
func (s *service) Leave(ctx context.Context, req *connect.Request[wirev1.LeaveRequest]) (*connect.Response[wirev1.LeaveResponse], error) {
	id := wire.NodeIn(req.Msg.GetNode())
	var epoch conclave.Epoch
	err := s.ask(ctx, func(ctx context.Context, l *leader) error {
		m, found := l.roster.find(id.Name)
		l.roster.leave(id)
		if err := l.arranger.list(ctx); err != nil {
			return err
		}
		epoch = l.arranger.state.Members.Epoch
		if found && m.Node == id {
			l.event(hclog.Info, "node.left", epoch, map[string]any{"node": id.Name, "role": m.Role}, "%s %s left", m.Role, id.Name)
		}
		l.changed.Set()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&wirev1.LeaveResponse{Members: wire.EpochOut(epoch)}), nil
}

// Drain puts the caller on the blacklist: the first step of its stop
// (addSelfToMetaBlacklist in the articles).
func (s *service) Drain(ctx context.Context, req *connect.Request[wirev1.DrainRequest]) (*connect.Response[wirev1.DrainResponse], error) {
	entry := blacklist.Drain(wire.NodeIn(req.Msg.GetNode()), conclave.Role(req.Msg.GetRole()), s.config.Now().UTC())
	if err := entry.Validate(); err != nil {
		return nil, wire.Errorf(wire.CodeBadRequest, "drain: %v", err)
	}
	var epoch conclave.Epoch
	err := s.ask(ctx, func(ctx context.Context, l *leader) error {
		if m, known := l.roster.find(entry.Name); known && m.Node.Incarnation != entry.Incarnation {
			return wire.Errorf(wire.CodeConflict, "drain: the name %s belongs to another incarnation now", entry.Name)
		}
		if _, changed, err := l.arranger.black().Add(entry); err == nil && changed {
			if err := l.arranger.canDrain(entry); err != nil {
				return err
			}
		}
		if err := l.arranger.forbid(ctx, entry); err != nil {
			return err
		}
		epoch = l.arranger.state.Blacklist.Epoch
		return nil
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&wirev1.DrainResponse{Blacklist: wire.EpochOut(epoch)}), nil
}

// Restore removes the drain entry of an earlier incarnation of the caller
// (removeSelfFromMetaBlacklist in the articles): the last step of a node's
// start. An operator's entry stays.
func (s *service) Restore(ctx context.Context, req *connect.Request[wirev1.RestoreRequest]) (*connect.Response[wirev1.RestoreResponse], error) {
	id := wire.NodeIn(req.Msg.GetNode())
	err := s.ask(ctx, func(ctx context.Context, l *leader) error {
		a := l.arranger
		set, changed := a.black().RemoveOwn(id)
		if !changed {
			return nil
		}
		return a.setBlacklist(ctx, set, "blacklist.removed", id.Name, "%s is back", id.Name)
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&wirev1.RestoreResponse{}), nil
}

// ask runs a request in the arranger, if this node leads.
func (s *service) ask(ctx context.Context, do func(context.Context, *leader) error) error {
	l, err := s.leadership.asLeader()
	if err != nil {
		return err
	}
	return l.arranger.ask(ctx, func(ctx context.Context) error { return do(ctx, l) })
}
