package session

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"connectrpc.com/connect"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

var errFeedSilent = errors.New("the feed was silent for two beats")

// runFeed keeps one change feed from a data node open. While it is open the
// node counts this session as connected, whether the node leads slots or only
// follows: the feed of a node that becomes a leader is open already.
func (s *Server) runFeed(ctx context.Context, n *dataNode, random *rand.Rand) {
	const first, most = 5 * time.Millisecond, 200 * time.Millisecond
	wait := first
	for {
		received, err := s.watch(ctx, n)
		if ctx.Err() != nil {
			return
		}
		if received {
			wait = first
			s.log.Debug("feed broke, will reopen", "from", n.address, "error", err)
		}
		timer := time.NewTimer(wait/2 + time.Duration(random.Int64N(int64(wait/2))))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		wait = min(2*wait, most)
	}
}

// feedPosition is how far the feed of a slot has come on this stream.
type feedPosition struct {
	epoch    conclave.Epoch
	position uint64
}

// watch reads one stream until it breaks or is silent for too long. received
// reports whether any message arrived.
func (s *Server) watch(ctx context.Context, n *dataNode) (received bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := 2*s.Beat + s.Beat/2
	silence := time.AfterFunc(timeout, func() { cancel(errFeedSilent) })
	defer silence.Stop()
	stream, err := s.peers.Data(n.address).Watch(ctx, connect.NewRequest(&wirev1.WatchRequest{Session: wire.NodeOut(s.Node)}))
	if err != nil {
		return false, wire.FromConnect(err)
	}
	defer func() { _ = stream.Close() }() // it has ended or is given up
	places := map[uint32]feedPosition{}
	for stream.Receive() {
		silence.Reset(timeout)
		if !received {
			received = true
			select {
			case <-n.open:
			default:
				close(n.open) // only this goroutine closes it
			}
			// Changes while no feed was open are not reported: read everything again.
			s.topics.refresh(time.Now(), s.fences.ledAt(n.address)...)
		}
		for _, c := range stream.Msg().GetChanges() {
			s.follow(n, places, c)
		}
	}
	if err := context.Cause(ctx); errors.Is(err, errFeedSilent) {
		return received, err
	}
	return received, wire.FromConnect(stream.Err())
}

// follow applies one slot's changes. After a gap, at a new epoch, and for the
// first message of a slot on this stream, the slot's feed starts again: every
// topic of the slot is read, and the feed continues from the position in the
// message. Reading after the position is known misses nothing; in the other
// order, changes in between would be lost.
func (s *Server) follow(n *dataNode, places map[uint32]feedPosition, c *wirev1.SlotChange) {
	slot, epoch := int(c.GetSlot()), wire.EpochIn(c.GetLeaderEpoch())
	if slot < 0 || slot >= maxSlots {
		return
	}
	if c.GetEnded() {
		delete(places, c.GetSlot())
		return
	}
	// A node that serves at an epoch was granted it in a table.
	changed, ok := s.fences.adopt(slot, epoch, n.address)
	if !ok {
		return // from an older leader: it does not count
	}
	if changed {
		s.nodes.reroute()
	}
	before, known := places[c.GetSlot()]
	places[c.GetSlot()] = feedPosition{epoch, c.GetPosition()}
	if c.GetReset_() || !known || before.epoch != epoch || before.position != c.GetFrom() {
		s.topics.refresh(time.Now(), slot)
		return
	}
	s.topics.changed(c.GetDataInfoIds())
}
