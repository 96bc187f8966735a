package meta

import (
	"context"
	"sync"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"

	"conclave/elector"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// calls are the requests that a meta sends to other nodes.
type calls struct {
	peers   *wire.Peers
	network wire.Network
	log     hclog.Logger
}

// announce announces a leader to a node of any role.
func (c *calls) announce(ctx context.Context, address string, m *wirev1.AnnounceRequest) error {
	_, err := c.peers.Node(address).Announce(ctx, connect.NewRequest(m))
	return wire.FromConnect(err)
}

// fetchState returns the cluster's state as the node at an address holds it.
func (c *calls) fetchState(ctx context.Context, address string) (*wirev1.State, error) {
	res, err := c.peers.Node(address).FetchState(ctx, connect.NewRequest(&wirev1.FetchStateRequest{}))
	if err != nil {
		return nil, wire.FromConnect(err)
	}
	return res.Msg.GetState(), nil
}

// askWitness is AskWitness over the wire. It dials a connection of its own
// first: a pooled one to a killed process fails in ways that prove nothing,
// while a refused dial proves that no process listens.
func (c *calls) askWitness(ctx context.Context, address string, term uint64, lock string) (alive, answered bool) {
	conn, err := c.network.DialContext(ctx, "tcp", address)
	if err != nil {
		return false, wire.Refused(err)
	}
	conn.Close()
	for range 2 { // the first call may use the pooled connection of a dead process
		var res *connect.Response[wirev1.WitnessResponse]
		res, err = c.peers.Meta(address).Witness(ctx, connect.NewRequest(&wirev1.WitnessRequest{Term: term, Lock: lock}))
		if err == nil {
			return res.Msg.GetAlive(), true
		}
	}
	return false, wire.Refused(wire.FromConnect(err))
}

// wakePeers notifies the other metas that the term was resigned.
func (c *calls) wakePeers(ctx context.Context, metas []string, resigned elector.Term) {
	var waking sync.WaitGroup
	for _, address := range metas {
		waking.Go(func() {
			_, err := c.peers.Meta(address).Wake(ctx, connect.NewRequest(&wirev1.WakeRequest{Term: resigned.Number}))
			if err != nil && ctx.Err() == nil {
				c.log.Debug("could not wake a peer", "address", address, "error", wire.FromConnect(err))
			}
		})
	}
	waking.Wait()
}
