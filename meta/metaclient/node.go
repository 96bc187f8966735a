package metaclient

import (
	"context"

	"connectrpc.com/connect"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// NodeService is what every node answers, whatever its role: who it is, whom it
// should follow, what state it holds.
type NodeService struct {
	self      conclave.NodeID
	role      conclave.Role
	view      *wire.View
	fence     *wire.Fence
	announced func(term uint64, leader conclave.NodeID, address string)
}

var _ wirev1connect.NodeServiceHandler = (*NodeService)(nil)

// NewNodeService answers for a node. announced is called with every leader
// whose term is not refused; it must not block (Client.Announced does not).
func NewNodeService(self conclave.NodeID, role conclave.Role, view *wire.View, fence *wire.Fence,
	announced func(term uint64, leader conclave.NodeID, address string)) *NodeService {
	return &NodeService{self: self, role: role, view: view, fence: fence, announced: announced}
}

// Hello says who answers here.
func (n *NodeService) Hello(context.Context, *connect.Request[wirev1.HelloRequest]) (*connect.Response[wirev1.HelloResponse], error) {
	return connect.NewResponse(&wirev1.HelloResponse{Node: wire.NodeOut(n.self), Role: string(n.role)}), nil
}

// Announce takes a leader's word, or refuses it with the highest term seen.
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

// FetchState hands out what the asker lacks.
func (n *NodeService) FetchState(_ context.Context, req *connect.Request[wirev1.FetchStateRequest]) (*connect.Response[wirev1.FetchStateResponse], error) {
	return connect.NewResponse(&wirev1.FetchStateResponse{State: n.view.Since(req.Msg.GetHave())}), nil
}
