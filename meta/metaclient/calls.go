package metaclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"conclave"
	"conclave/internal/sleep"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// callLimit is how long one try of a call may take.
const callLimit = 2 * time.Second

// Drain asks the leader to put this node on the blacklist, so that its slots
// and clients go to other nodes: the first step of a stop
// (addSelfToMetaBlacklist in the articles). It returns
// the epoch of the blacklist with the entry: a state of an older one does not
// show what the leader knew when it agreed. It is refused with
// wire.CodeNoSuccessor when no node could take over. Without a leader it waits
// for one until ctx ends.
func (c *Client) Drain(ctx context.Context, reason string) (conclave.Epoch, error) {
	res, err := call(ctx, c, "drain", wirev1connect.MetaServiceClient.Drain, &wirev1.DrainRequest{
		Node: wire.NodeOut(c.Self.Node), Role: string(c.Self.Role), Reason: reason,
	})
	return wire.EpochIn(res.GetBlacklist()), err
}

// Restore removes this node's own drain entry from the blacklist
// (removeSelfFromMetaBlacklist in the articles): the last step of its start. An
// operator's entry stays. A refusal is logged and retried after a beat: a node
// that gave up would stay on the blacklist until it is restarted. The error is
// that of ctx.
func (c *Client) Restore(ctx context.Context) error {
	for {
		_, err := call(ctx, c, "restore", wirev1connect.MetaServiceClient.Restore, &wirev1.RestoreRequest{Node: wire.NodeOut(c.Self.Node)})
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			c.Logger.Warn("could not leave the blacklist, will retry", "error", err)
		}
		if sleep.For(ctx, c.Beat) != nil {
			return fmt.Errorf("leave the blacklist: %w", ctx.Err())
		}
	}
}

// Leave removes this node from the member list; when it returns nil, the list
// without the node has been written. End Run first, or the next beat registers
// the node again.
func (c *Client) Leave(ctx context.Context) error {
	_, err := call(ctx, c, "leave", wirev1connect.MetaServiceClient.Leave, &wirev1.LeaveRequest{Node: wire.NodeOut(c.Self.Node)})
	return err
}

// method is one of the methods of the meta service.
type method[Q, A any] = func(wirev1connect.MetaServiceClient, context.Context, *connect.Request[Q]) (*connect.Response[A], error)

// call sends a request to the leader, following refusals that name it, until it
// is answered or ctx ends. All requests sent through it may be repeated.
func call[Q, A any](ctx context.Context, c *Client, what string, method method[Q, A], request *Q) (*A, error) {
	var pause time.Duration
	var address string
	for {
		res, err := tryCall(ctx, c, address, method, request)
		if err == nil {
			return res.Msg, nil
		}
		address = ""
		var refusal *wire.Error
		if errors.As(err, &refusal) {
			switch refusal.Code {
			case wire.CodeNotLeader:
				address = refusal.Address
			case wire.CodeNoLeader, wire.CodeUnavailable, wire.CodeStaleEpoch, wire.CodeInternal:
			default:
				return nil, fmt.Errorf("%s %s: %w", what, c.Self.Node.Name, err)
			}
		}
		pause = sleep.Longer(pause, 5*time.Millisecond, 200*time.Millisecond)
		if sleep.For(ctx, pause) != nil {
			return nil, fmt.Errorf("%s %s: %w (last answer: %w)", what, c.Self.Node.Name, ctx.Err(), err)
		}
	}
}

// tryCall asks the meta at address, or the current leader if address is empty.
func tryCall[Q, A any](ctx context.Context, c *Client, address string, method method[Q, A], request *Q) (*connect.Response[A], error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if address == "" {
		if l, ok := c.Leader(); ok {
			address = l.Address
		} else {
			l, err := c.seek(ctx)
			if err != nil {
				return nil, err
			}
			address = l.Address
		}
	}
	res, err := method(c.Peers.Meta(address), ctx, connect.NewRequest(request))
	return res, wire.FromConnect(err)
}

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
