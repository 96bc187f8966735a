package session

import (
	"context"

	"connectrpc.com/connect"

	"conclave/internal/trace"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

const maxSlots = slot.MaxSlots

var _ wirev1connect.SessionServiceHandler = (*sessionService)(nil)

// sessionService implements the service of session.proto.
type sessionService struct{ s *Server }

// Diff answers a data node that compares its copies with this session's set. It
// is also a fence, by the order of its steps:
//
//  1. It adopts the asker's leader epoch for the slot. From then on nothing is
//     sent at a lower epoch, and no acknowledgement and no read answer of a
//     lower epoch is counted.
//  2. It computes the answer, still under the slot's lock. Everything that was
//     sent at a lower epoch was in the set before, so the answer includes it;
//     everything that comes into the set later is sent at the new epoch.
//
// Otherwise a session could publish to the old leader and read it there after
// the new leader had its answer; the next read, at the new leader, would go
// back in time.
func (d *sessionService) Diff(_ context.Context, req *connect.Request[wirev1.DiffRequest]) (*connect.Response[wirev1.DiffResponse], error) {
	s, m := d.s, req.Msg
	if m.GetSlot() >= maxSlots {
		return nil, wire.Errorf(wire.CodeBadRequest, "slot %d: there are %d at most", m.GetSlot(), maxSlots)
	}
	me := wire.NodeOut(s.Node)
	if wire.NodeIn(m.GetSession()) != s.Node {
		// Another incarnation has another set: the answer names this one and is empty.
		return connect.NewResponse(&wirev1.DiffResponse{Session: me}), nil
	}
	n, epoch := int(m.GetSlot()), wire.EpochIn(m.GetLeaderEpoch())
	s.Trace.Claim(trace.Claim{Kind: trace.Answering, Slot: n, Epoch: epoch, Peer: wire.NodeIn(m.GetAsker())})
	row := s.fences.of(n)
	row.mu.Lock()
	address := m.GetAskerAddress()
	if epoch == row.epoch {
		address = "" // the table named this epoch's leader, so the route is known
	}
	changed, ok := row.adopt(epoch, address)
	if !ok {
		refusal := wire.Errorf(wire.CodeStaleEpoch, "slot %d is at leader epoch %s, which is above %s", n, row.epoch, epoch)
		refusal.Epoch = row.epoch
		row.mu.Unlock()
		return nil, refusal
	}
	res, err := s.registry.diff(n, epoch, m)
	if err == nil {
		res.Session, res.HighestPushed = me, row.pushed
		s.Trace.Claim(trace.Claim{Kind: trace.Answered, Slot: n, Epoch: epoch, Peer: wire.NodeIn(m.GetAsker()), Key: m.GetSession().GetIncarnation()})
	}
	row.mu.Unlock()
	if changed {
		s.log.Debug("fenced by a diff", "slot", n, "epoch", epoch.String(), "asker", m.GetAsker().GetName())
		s.nodes.reroute()
	}
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(res), nil
}
