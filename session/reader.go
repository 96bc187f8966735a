package session

import (
	"cmp"
	"context"
	"errors"
	"io"
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

// Limits of one Fetch: the number of datums, and the approximate size of the
// answer in bytes, estimated from the last answer.
const (
	fetchWants = 2000
	fetchBytes = 2 << 20
)

// reader reads from the data nodes the topics that are due in the slots that
// they lead, and gives the answers to the registry and its pushes to the
// clients.
type reader struct{ *calls }

// run reads from one data node, one Fetch at a time.
//
// A change that comes after a pause is read at once, so that it is pushed
// within milliseconds. Changes within the push window after a read are merged
// into the next one.
func (r *reader) run(ctx context.Context, n *dataNode, random *rand.Rand) {
	pauses := newBackoff(random.Float64)
	last := -1
	for {
		pauses.reset(r.nodes.rerouted.Load())
		req, parts, next := r.due(n.address, pauses, last, time.Now())
		if len(parts) == 0 {
			if !waitSignal(ctx, n.reads, next) {
				return
			}
			continue
		}
		last = parts[len(parts)-1].Slot
		err := r.fetch(ctx, n, req, parts, pauses)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			continue
		}
		r.config.Logger.Debug("fetch failed, will retry", "from", n.address, "slots", len(parts), "error", err)
		again := time.Now()
		for _, part := range parts {
			pauses.failed(part.Slot, again)
			r.retry(part, 0, again)
		}
	}
}

// due makes the next Fetch from a node. next is when another topic becomes due.
func (r *reader) due(address string, p *backoff, last int, now time.Time) (req *wirev1.FetchRequest, parts []registry.Reads, next time.Time) {
	req = &wirev1.FetchRequest{Session: wire.NodeOut(r.config.Node)}
	room, limit := fetchBytes, fetchWants
	r.registry.mu.Lock()
	defer r.registry.mu.Unlock()
	for _, n := range rotate(r.registry.Unread(), last) {
		if limit <= 0 || room <= 0 {
			break
		}
		if until := p.until(n, now); !until.IsZero() {
			next = earlier(next, until)
			continue
		}
		part, later := r.registry.TakeReads(n, address, limit, now)
		next = earlier(next, later)
		if len(part.Wants) == 0 {
			continue
		}
		limit, room = limit-len(part.Wants), room-part.Size
		parts = append(parts, part)
		req.Slots = append(req.Slots, part.Message())
	}
	return req, parts, next
}

// fetch sends one Fetch and counts what was answered at the slots' present
// epochs; everything else stays due.
func (r *reader) fetch(ctx context.Context, n *dataNode, req *wirev1.FetchRequest, parts []registry.Reads, p *backoff) error {
	call, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	res, err := r.data(n.address).Fetch(call, connect.NewRequest(req))
	now := time.Now()
	if err != nil {
		return wire.FromConnect(err)
	}
	for i, part := range parts {
		var answer *wirev1.FetchedSlot
		if i < len(res.Msg.GetSlots()) {
			answer = res.Msg.Slots[i]
		}
		theirs := wire.EpochIn(answer.GetLeaderEpoch())
		if answer.GetAccess() != wirev1.Access_ACCESS_ACCEPT || theirs != part.Epoch {
			r.retry(part, 0, now)
			r.refused(n, part.Slot, part.Epoch, answer.GetAccess(), theirs, p, now)
			continue
		}
		datums := answer.GetDatums()
		counted := with(r.registry, func(of *registry.Registry) bool {
			pushes, counted := of.Fetched(part, datums, now)
			r.clients.push(pushes)
			return counted
		})
		for _, f := range datums {
			if f.GetTooLarge() > 0 {
				r.config.Logger.Error("a list is too large to be sent: its subscribers keep what they have", "dataInfoId", f.GetDatum().GetDataInfoId(), "bytes", f.GetTooLarge(), "limit", r.config.MaxListBytes)
			}
		}
		switch {
		case !counted:
			datums = nil // a newer epoch was adopted meanwhile: read again at that one
		case len(datums) == 0:
			p.failed(part.Slot, now) // an empty answer: do not ask again at once
		default:
			p.succeeded(part.Slot)
		}
		r.retry(part, len(datums), now) // a node may cut a large answer short
	}
	return nil
}

// retry marks what was not answered to be read again. It wakes all readers,
// since the slot may have moved to another node.
func (r *reader) retry(part registry.Reads, answered int, from time.Time) {
	if with(r.registry, func(r *registry.Registry) bool { return r.Retry(part, answered, from) }) {
		r.nodes.wakeReaders()
	}
}

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
		f.nodes.hear(n, cmp.Or(err, io.EOF))
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
	stream, err := f.data(n.address).Watch(ctx, connect.NewRequest(&wirev1.WatchRequest{Session: wire.NodeOut(f.config.Node), Answers: true}))
	if err != nil {
		return false, wire.FromConnect(err)
	}
	defer func() { _ = stream.Close() }() // it has ended or is given up
	positions := map[uint32]feedPosition{}
	for stream.Receive() {
		messages.Set()
		if !received {
			received = true
			f.nodes.hear(n, nil)
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
		pushes, due := r.Carried(number, epoch, c.GetAnswers(), time.Now())
		f.clients.push(pushes)
		return r.Changed(c.GetDataInfoIds()) || due
	})
}

// due marks topics to be read, and wakes the readers if there are any.
func (f *feeds) due(mark func(*registry.Registry) bool) {
	if with(f.registry, mark) {
		f.nodes.wakeReaders()
	}
}
