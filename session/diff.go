package session

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"conclave/internal/trace"
	"conclave/session/registry"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

var _ wirev1connect.SessionServiceHandler = (*sessionService)(nil)

// sessionService implements the service of session.proto.
type sessionService struct {
	config   Config
	registry *locked
	reroute  func() // is called when an epoch was adopted
}

// Diff answers a data node that compares its copies with this session's set, and
// is a fence: see registry.Registry.Diff. Without the fence a session could
// publish to the old leader and read it there after the new leader had its
// answer; the next read, at the new leader, would go back in time.
func (d *sessionService) Diff(_ context.Context, req *connect.Request[wirev1.DiffRequest]) (*connect.Response[wirev1.DiffResponse], error) {
	m := req.Msg
	if m.GetSlot() >= slot.MaxSlots {
		return nil, wire.Errorf(wire.CodeBadRequest, "slot %d: there are %d at most", m.GetSlot(), slot.MaxSlots)
	}
	me := wire.NodeOut(d.config.Node)
	if wire.NodeIn(m.GetSession()) != d.config.Node {
		// Another incarnation has another set: the answer names this one and is empty.
		return connect.NewResponse(&wirev1.DiffResponse{Session: me}), nil
	}
	epoch := wire.EpochIn(m.GetLeaderEpoch())
	d.config.Trace.Claim(trace.Claim{Kind: trace.Answering, Slot: int(m.GetSlot()), Epoch: epoch, Peer: wire.NodeIn(m.GetAsker())})
	var res *wirev1.DiffResponse
	var adopted bool
	var err error
	d.registry.do(func(r *registry.Registry) { res, adopted, err = r.Diff(m, time.Now()) })
	if adopted {
		d.config.Logger.Debug("fenced by a diff", "slot", m.GetSlot(), "epoch", epoch.String(), "asker", m.GetAsker().GetName())
		d.reroute()
	}
	if err != nil {
		return nil, err
	}
	res.Session = me
	return connect.NewResponse(res), nil
}
