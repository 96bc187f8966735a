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

// The requests of the election (package elector/termcas): a follower that
// acquired the leader's lock asks the leader's port; a leader that has resigned
// wakes the others; a node that seeks the leader asks any meta.

// Witness answers whether this node leads the term. The answer that it does not
// is a promise (Elector.ConfirmLeading).
func (s *Server) Witness(_ context.Context, req *connect.Request[wirev1.WitnessRequest]) (*connect.Response[wirev1.WitnessResponse], error) {
	alive := s.elector.ConfirmLeading(req.Msg.GetTerm(), req.Msg.GetLock())
	return connect.NewResponse(&wirev1.WitnessResponse{Alive: alive}), nil
}

// Wake starts a round now: the leader of a term has resigned.
func (s *Server) Wake(context.Context, *connect.Request[wirev1.WakeRequest]) (*connect.Response[wirev1.WakeResponse], error) {
	s.elector.Wake()
	return connect.NewResponse(&wirev1.WakeResponse{}), nil
}

// GetLeader returns the leader that this node knows, or none if it knows no
// valid lease.
func (s *Server) GetLeader(context.Context, *connect.Request[wirev1.GetLeaderRequest]) (*connect.Response[wirev1.GetLeaderResponse], error) {
	if l, err := s.asLeader(); err == nil {
		return connect.NewResponse(&wirev1.GetLeaderResponse{
			Term: l.term.Number, Leader: wire.NodeOut(s.cfg.Node), Address: s.Address(), Self: true,
		}), nil
	}
	out := &wirev1.GetLeaderResponse{Term: s.elector.Highest()}
	if name, address := s.currentLeader(); name != "" {
		t := s.elector.Current()
		out.Term, out.Leader, out.Address = t.Number, wire.NodeOut(t.Leader), address
	}
	return connect.NewResponse(out), nil
}

// announced handles a new leader's announcement at NodeService. It ends this
// node's leadership if its term is lower.
func (s *Server) announced(term uint64, leader conclave.NodeID, address string) {
	s.elector.Seen(term)
	s.client.Announced(term, leader, address)
}

// askWitness is AskWitness over the wire. It dials a connection of its own
// first: a pooled one to a killed process fails in ways that prove nothing,
// while a refused dial proves that no process listens.
func (s *Server) askWitness(ctx context.Context, address string, term uint64, lock string) (alive, answered bool) {
	conn, err := s.cfg.Network.DialContext(ctx, "tcp", address)
	if err != nil {
		return false, wire.Refused(err)
	}
	conn.Close()
	for range 2 { // the first call may use the pooled connection of a dead process
		var res *connect.Response[wirev1.WitnessResponse]
		res, err = s.peers.Meta(address).Witness(ctx, connect.NewRequest(&wirev1.WitnessRequest{Term: term, Lock: lock}))
		if err == nil {
			return res.Msg.GetAlive(), true
		}
	}
	return false, wire.Refused(wire.FromConnect(err))
}

// wakePeers notifies every other meta that the term was resigned.
func (s *Server) wakePeers(ctx context.Context, resigned elector.Term) {
	var waking sync.WaitGroup
	for _, address := range s.knownMetas() {
		waking.Go(func() {
			_, err := s.peers.Meta(address).Wake(ctx, connect.NewRequest(&wirev1.WakeRequest{Term: resigned.Number}))
			if err != nil && ctx.Err() == nil {
				s.log.Debug("could not wake a peer", "address", address, "error", wire.FromConnect(err))
			}
		})
	}
	waking.Wait()
}
