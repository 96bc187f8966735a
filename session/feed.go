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

// runFeed holds one change feed from a data node. While it is open the node
// counts this session as connected, whether it leads slots or only follows: so
// the feed of a node that becomes a leader is open already.
func (s *Server) runFeed(ctx context.Context, n *node, random *rand.Rand) {
	const first, most = 5 * time.Millisecond, 200 * time.Millisecond
	wait := first
	for {
		heard, err := s.watch(ctx, n)
		if ctx.Err() != nil {
			return
		}
		if heard {
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

// place is how far the feed of a slot has come on this stream.
type place struct {
	epoch    conclave.Epoch
	position uint64
}

// watch reads one stream until it breaks or falls silent.
func (s *Server) watch(ctx context.Context, n *node) (heard bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := 2*s.Beat + s.Beat/2
	silence := time.AfterFunc(patience, func() { cancel(errFeedSilent) })
	defer silence.Stop()
	stream, err := s.peers.Data(n.address).Watch(ctx, connect.NewRequest(&wirev1.WatchRequest{Session: wire.NodeOut(s.Node)}))
	if err != nil {
		return false, wire.FromConnect(err)
	}
	defer func() { _ = stream.Close() }() // it is over, or given up
	places := map[uint32]place{}
	for stream.Receive() {
		silence.Reset(patience)
		if !heard {
			heard = true
			select {
			case <-n.open:
			default:
				close(n.open) // only this goroutine closes it
			}
			// What changed while no feed was open is not told: read all again.
			s.topics.refresh(time.Now(), s.fences.ledAt(n.address)...)
		}
		for _, c := range stream.Msg().GetChanges() {
			s.follow(n, places, c)
		}
	}
	if err := context.Cause(ctx); errors.Is(err, errFeedSilent) {
		return heard, err
	}
	return heard, wire.FromConnect(stream.Err())
}

// follow takes one slot's changes. A gap, a new epoch or a slot not heard of on
// this stream begin the slot's feed anew: all that is wanted of it is read, and
// the feed goes on from the position that came along. Reading after the
// position is known can miss nothing (the other order loses what changes in
// between).
func (s *Server) follow(n *node, places map[uint32]place, c *wirev1.SlotChange) {
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
		return // of an older leader: not counted
	}
	if changed {
		s.nodes.reroute()
	}
	before, known := places[c.GetSlot()]
	places[c.GetSlot()] = place{epoch, c.GetPosition()}
	if c.GetReset_() || !known || before.epoch != epoch || before.position != c.GetFrom() {
		s.topics.refresh(time.Now(), slot)
		return
	}
	s.topics.changed(c.GetDataInfoIds())
}
