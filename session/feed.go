package session

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"connectrpc.com/connect"

	"conclave"
	"conclave/internal/signal"
	"conclave/internal/sleep"
	"conclave/lease"
	"conclave/session/registry"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

var errFeedSilent = errors.New("the feed was silent for two beats")

// feeds keeps one change feed from each data node open.
type feeds struct{ *calls }

// run keeps the feed from one data node open. While it is open the node counts
// this session as connected, whether the node leads slots or only follows: the
// feed of a node that becomes a leader is open already.
func (f *feeds) run(ctx context.Context, n *dataNode, random *rand.Rand) {
	const first, most = 5 * time.Millisecond, 200 * time.Millisecond
	wait := time.Duration(0)
	for {
		received, err := f.watch(ctx, n)
		f.nodes.hear(n, false)
		if ctx.Err() != nil {
			return
		}
		if received {
			wait = 0
			f.config.Logger.Debug("feed broke, will reopen", "from", n.address, "error", err)
		}
		wait = sleep.Longer(wait, first, most)
		if sleep.For(ctx, wait/2+time.Duration(random.Int64N(int64(wait/2)))) != nil {
			return
		}
	}
}

// feedPosition is how far the feed of a slot has come on this stream.
type feedPosition struct {
	epoch    conclave.Epoch
	position uint64
}

// watch reads one stream until it breaks or is silent for too long. received
// reports whether any message arrived.
func (f *feeds) watch(ctx context.Context, n *dataNode) (received bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	messages := signal.New()
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() {
		if f.isSilent(ctx, messages) {
			cancel(errFeedSilent)
		}
	})
	stream, err := f.data(n.address).Watch(ctx, connect.NewRequest(&wirev1.WatchRequest{Session: wire.NodeOut(f.config.Node)}))
	if err != nil {
		return false, wire.FromConnect(err)
	}
	defer func() { _ = stream.Close() }() // it has ended or is given up
	positions := map[uint32]feedPosition{}
	for stream.Receive() {
		messages.Set()
		if !received {
			received = true
			f.nodes.hear(n, true)
			select {
			case <-n.open:
			default:
				close(n.open) // only this goroutine closes it
			}
			// Changes while no feed was open are not reported: read everything again.
			f.due(func(r *registry.Registry) bool { return r.RefreshLedAt(n.address, time.Now()) })
		}
		for _, c := range stream.Msg().GetChanges() {
			f.follow(n, positions, c)
		}
	}
	if err := context.Cause(ctx); errors.Is(err, errFeedSilent) {
		return received, err
	}
	return received, wire.FromConnect(stream.Err())
}

// isSilent waits until no message has arrived for two beats and a half, and
// returns true, or for the end of ctx, and returns false.
func (f *feeds) isSilent(ctx context.Context, messages signal.Signal) bool {
	limit := 2*f.config.Beat + f.config.Beat/2
	silence := lease.NewSilence(time.Now(), limit, f.config.Beat/2)
	round := time.NewTimer(silence.First())
	defer round.Stop()
	for {
		select {
		case <-messages.C():
			silence.Received(time.Now(), limit)
		case <-round.C:
			next, over := silence.Round(time.Now())
			if over {
				return true
			}
			round.Reset(next)
		case <-ctx.Done():
			return false
		}
	}
}

// follow applies one slot's changes. After a gap, at a new epoch, and for the
// first message of a slot on this stream, the slot's feed starts again: every
// topic of the slot is read, and the feed continues from the position in the
// message. Reading after the position is known misses nothing; in the other
// order, changes in between would be lost.
func (f *feeds) follow(n *dataNode, positions map[uint32]feedPosition, c *wirev1.SlotChange) {
	number, epoch := int(c.GetSlot()), wire.EpochIn(c.GetLeaderEpoch())
	if number < 0 || number >= slot.MaxSlots {
		return
	}
	if c.GetEnded() {
		delete(positions, c.GetSlot())
		return
	}
	// A node that serves at an epoch was granted it in a table.
	var changed, ok bool
	f.registry.do(func(r *registry.Registry) { changed, ok = r.Adopt(number, epoch, n.address, time.Now()) })
	if !ok {
		return // from an older leader: it does not count
	}
	if changed {
		f.nodes.reroute()
	}
	before, known := positions[c.GetSlot()]
	positions[c.GetSlot()] = feedPosition{epoch, c.GetPosition()}
	restarts := c.GetReset_() || !known || before.epoch != epoch || before.position != c.GetFrom()
	f.due(func(r *registry.Registry) bool {
		if restarts {
			return r.Refresh(number, time.Now())
		}
		return r.Changed(c.GetDataInfoIds())
	})
}

// due marks topics to be read, and wakes the readers if there are any.
func (f *feeds) due(mark func(*registry.Registry) bool) {
	if with(f.registry, mark) {
		f.nodes.wakeReaders()
	}
}
