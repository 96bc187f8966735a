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
// Unless the leader sends that table within fetchAfter, the state is fetched from
// the peer, whether or not a meta can be reached, since each kind carries the epoch
// under which it was written. It never blocks; several calls may result in one
// fetch, from the last peer named.
func (c *Client) Behind(address string, theirs conclave.Epoch) {
	if address == "" || address == c.Self.Address || !c.View.TableEpoch().Less(theirs) {
		return
	}
	c.mu.Lock()
	c.ahead, c.aheadEpoch = address, theirs
	c.mu.Unlock()
	c.fetches.Set()
}

// fetchAfter is how long a newer table may take to arrive from the leader. The
// leader sends a table to data nodes first, and the first request of a node that
// has it often arrives before it does. To fetch the whole table then costs
// both nodes more than all that they do for a slot that is handed over.
const fetchAfter = 20 * time.Millisecond

// arrives waits until this node has the table of an epoch, for fetchAfter at most,
// and reports whether it has.
func (c *Client) arrives(ctx context.Context, table conclave.Epoch) bool {
	timer := time.NewTimer(fetchAfter)
	defer timer.Stop()
	for {
		changed := c.View.Changed()
		if !c.View.TableEpoch().Less(table) {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
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
		address, table := c.ahead, c.aheadEpoch
		c.mu.Unlock()
		if c.arrives(ctx, table) {
			continue
		}
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
		c.tables.Set()
	}
	return err
}
