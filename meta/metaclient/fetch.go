package metaclient

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Behind is for wire.Interceptor.Behind: a peer at address holds a newer table.
// The state is fetched from that peer, whether or not a meta can be reached,
// since each kind carries the epoch under which it was written. It never
// blocks; several calls may result in one fetch, from the last peer named.
func (c *Client) Behind(address string, theirs conclave.Epoch) {
	if address == "" || address == c.Self.Address || !c.View.TableEpoch().Less(theirs) {
		return
	}
	c.mu.Lock()
	c.ahead = address
	c.mu.Unlock()
	c.fetches.Set()
}

// runFetch is the one goroutine that fetches state from peers.
func (c *Client) runFetch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.fetches.C():
		}
		c.mu.Lock()
		address := c.ahead
		c.mu.Unlock()
		if err := c.fetch(ctx, address); err != nil && ctx.Err() == nil {
			// The peer's next message will cause another try.
			c.Logger.Debug("could not fetch the state", "from", address, "error", err)
		}
	}
}

func (c *Client) fetch(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	res, err := c.Peers.Node(address).FetchState(ctx, connect.NewRequest(&wirev1.FetchStateRequest{Have: c.View.Epochs()}))
	if err != nil {
		return wire.FromConnect(err)
	}
	took, err := c.View.Apply(res.Msg.GetState())
	if took {
		c.Poke()
	}
	return err
}
