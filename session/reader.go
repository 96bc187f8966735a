package session

import (
	"context"
	"math/rand/v2"
	"time"

	"connectrpc.com/connect"

	"conclave/session/registry"
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
