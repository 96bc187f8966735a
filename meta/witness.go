package meta

import (
	"context"
	"sync"

	"connectrpc.com/connect"

	"conclave"
	"conclave/elector"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// The questions of the election (package elector/termcas): who was handed the
// leader's lock asks the leader's port; who has resigned wakes the others; who seeks the
// leader asks anyone.

// Witness testifies whether this node leads the term. "Stopped" is a promise.
func (s *Server) Witness(_ context.Context, req *connect.Request[wirev1.WitnessRequest]) (*connect.Response[wirev1.WitnessResponse], error) {
	alive := s.elector.ConfirmLeading(req.Msg.GetTerm(), req.Msg.GetLock())
	return connect.NewResponse(&wirev1.WitnessResponse{Alive: alive}), nil
}

// Wake plays a round now: the leader of a term has resigned.
func (s *Server) Wake(context.Context, *connect.Request[wirev1.WakeRequest]) (*connect.Response[wirev1.WakeResponse], error) {
	s.elector.Wake()
	return connect.NewResponse(&wirev1.WakeResponse{}), nil
}

// GetLeader says whom this node takes for the leader; nobody, when no valid
// lease is known.
func (s *Server) GetLeader(context.Context, *connect.Request[wirev1.GetLeaderRequest]) (*connect.Response[wirev1.GetLeaderResponse], error) {
	if l, err := s.asLeader(); err == nil {
		return connect.NewResponse(&wirev1.GetLeaderResponse{
			Term: l.term.Number, Leader: wire.NodeOut(s.cfg.Node), Address: s.address, Self: true,
		}), nil
	}
	out := &wirev1.GetLeaderResponse{Term: s.elector.Highest()}
	if name, address := s.whoLeads(); name != "" {
		t := s.elector.Current()
		out.Term, out.Leader, out.Address = t.Number, wire.NodeOut(t.Leader), address
	}
	return connect.NewResponse(out), nil
}

// announced takes a new leader's word at NodeService. A leader of a lower term
// thereby learns that it is over.
func (s *Server) announced(term uint64, leader conclave.NodeID, address string) {
	s.elector.Seen(term)
	s.client.Announced(term, leader, address)
}

// askWitness is AskWitness over the wire. It dials on a connection of its own
// first: a pooled one to a killed process fails in ways that prove nothing, a
// refused dial proves that nobody listens.
func (s *Server) askWitness(ctx context.Context, address string, term uint64, lock string) (alive, answered bool) {
	conn, err := s.cfg.Network.DialContext(ctx, "tcp", address)
	if err != nil {
		return false, wire.Refused(err)
	}
	conn.Close()
	for range 2 { // the first call may have met the pooled connection of a process that is gone
		var res *connect.Response[wirev1.WitnessResponse]
		res, err = s.peers.Meta(address).Witness(ctx, connect.NewRequest(&wirev1.WitnessRequest{Term: term, Lock: lock}))
		if err == nil {
			return res.Msg.GetAlive(), true
		}
	}
	return false, wire.Refused(wire.FromConnect(err))
}

// wakePeers tells every other meta that the term was resigned.
func (s *Server) wakePeers(ctx context.Context, resigned elector.Term) {
	var telling sync.WaitGroup
	for _, address := range s.knownMetas() {
		telling.Go(func() {
			_, err := s.peers.Meta(address).Wake(ctx, connect.NewRequest(&wirev1.WakeRequest{Term: resigned.Number}))
			if err != nil && ctx.Err() == nil {
				s.log.Debug("could not wake a peer", "address", address, "error", wire.FromConnect(err))
			}
		})
	}
	telling.Wait()
}
