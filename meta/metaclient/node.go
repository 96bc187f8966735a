package metaclient

import (
	"context"

	"connectrpc.com/connect"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// NodeService is what every node answers, whatever its role: its identity, the
// announcements of leaders, and its state.
type NodeService struct {
	self      conclave.NodeID
	role      conclave.Role
	view      *wire.View
	fence     *wire.Fence
	announced func(term uint64, leader conclave.NodeID, address string)
}

var _ wirev1connect.NodeServiceHandler = (*NodeService)(nil)

// NewNodeService returns the service of a node. announced is called with every
// leader whose term is not refused; it must not block (Client.Announced does
// not).
func NewNodeService(self conclave.NodeID, role conclave.Role, view *wire.View, fence *wire.Fence,
	announced func(term uint64, leader conclave.NodeID, address string)) *NodeService {
	return &NodeService{self: self, role: role, view: view, fence: fence, announced: announced}
}

// Hello returns the node's identity.
func (n *NodeService) Hello(context.Context, *connect.Request[wirev1.HelloRequest]) (*connect.Response[wirev1.HelloResponse], error) {
	return connect.NewResponse(&wirev1.HelloResponse{Node: wire.NodeOut(n.self), Role: string(n.role)}), nil
}

// Announce accepts a leader's announcement, or refuses it with the highest term
// seen.
func (n *NodeService) Announce(_ context.Context, req *connect.Request[wirev1.AnnounceRequest]) (*connect.Response[wirev1.AnnounceResponse], error) {
	m := req.Msg
	if err := n.fence.Admit(m.GetTerm()); err != nil {
		return nil, err
	}
	if n.announced != nil {
		n.announced(m.GetTerm(), wire.NodeIn(m.GetLeader()), m.GetAddress())
	}
	return connect.NewResponse(&wirev1.AnnounceResponse{}), nil
}

// FetchState returns the state that the caller lacks.
func (n *NodeService) FetchState(_ context.Context, req *connect.Request[wirev1.FetchStateRequest]) (*connect.Response[wirev1.FetchStateResponse], error) {
	return connect.NewResponse(&wirev1.FetchStateResponse{State: n.view.Since(req.Msg.GetHave())}), nil
}
