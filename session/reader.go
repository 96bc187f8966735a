package session

import (
	"context"
	"math/rand/v2"
	"time"

	"connectrpc.com/connect"

	"conclave"
	"conclave/internal/trace"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Limits of one Fetch: the number of datums, and the approximate size of the
// answer in bytes, estimated from the last answer.
const (
	fetchWants = 2000
	fetchBytes = 2 << 20
	// tooLargePause is the time between two attempts to read a datum that is
	// too large.
	tooLargePause = 10 * time.Second
)

// fetchPart is one slot's part of a Fetch in progress.
type fetchPart struct {
	slot  int
	epoch conclave.Epoch
	wants []want
}

// runReader reads from one data node the topics that are due in the slots that
// it leads, one Fetch at a time, and gives the answers to the topics, which
// push them.
//
// A change that comes after a pause is read at once, so that it is pushed
// within milliseconds. Changes within the push window after a read are merged
// into the next one.
func (s *Server) runReader(ctx context.Context, n *dataNode, random *rand.Rand) {
	pauses := newBackoff(random.Float64)
	last, limit := -1, fetchWants
	for {
		pauses.reset(s.nodes.rerouted.Load())
		req, parts, next := s.due(n.address, pauses, last, limit, time.Now())
		if len(parts) == 0 {
			if !waitSignal(ctx, n.reads, next) {
				return
			}
			continue
		}
		last = parts[len(parts)-1].slot
		err := s.fetch(ctx, n, req, parts, pauses)
		if ctx.Err() != nil {
			return
		}
		again := time.Now()
		switch {
		case err == nil:
			limit = min(fetchWants, limit*2)
			continue
		case wire.CodeOf(err) == wire.CodeTooLarge && limit == 1:
			s.log.Error("a datum is larger than an answer may be: its subscribers keep what they have", "dataInfoId", parts[0].wants[0].key, "error", err)
			again = again.Add(tooLargePause)
		case wire.CodeOf(err) == wire.CodeTooLarge:
			limit = max(1, limit/2)
		default:
			s.log.Debug("fetch failed, will retry", "from", n.address, "slots", len(parts), "error", err)
			for _, part := range parts {
				pauses.failed(part.slot, again)
			}
		}
		for _, part := range parts {
			s.topics.retry(part.wants, again)
		}
	}
}

// due makes the next Fetch from a node. next is when another topic becomes due.
func (s *Server) due(address string, p *backoff, last, limit int, now time.Time) (req *wirev1.FetchRequest, parts []fetchPart, next time.Time) {
	req = &wirev1.FetchRequest{Session: wire.NodeOut(s.Node)}
	room := fetchBytes
	for _, n := range rotate(s.topics.waiting(), last) {
		if limit <= 0 || room <= 0 {
			break
		}
		if until := p.until(n, now); !until.IsZero() {
			next = earlier(next, until)
			continue
		}
		r := s.fences.route(n)
		if r.address != address {
			continue
		}
		wants, later := s.topics.take(n, limit, now)
		next = earlier(next, later)
		if len(wants) == 0 {
			continue
		}
		slot := &wirev1.FetchSlot{Slot: uint32(n), LeaderEpoch: wire.EpochOut(r.epoch)}
		for _, w := range wants {
			slot.Wants = append(slot.Wants, &wirev1.Want{DataInfoId: w.key, Version: w.version, Hash: w.hash})
			room -= w.size
		}
		limit -= len(wants)
		parts = append(parts, fetchPart{n, r.epoch, wants})
		req.Slots = append(req.Slots, slot)
	}
	return req, parts, next
}

// fetch sends one Fetch and counts what was answered at the slots' present
// epochs; everything else stays due.
func (s *Server) fetch(ctx context.Context, n *dataNode, req *wirev1.FetchRequest, parts []fetchPart, p *backoff) error {
	call, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	res, err := s.peers.Data(n.address).Fetch(call, connect.NewRequest(req))
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
		if answer.GetAccess() != wirev1.Access_ACCESS_ACCEPT || theirs != part.epoch {
			s.topics.retry(part.wants, now)
			s.refusedAt(n.address, part.slot, part.epoch, answer.GetAccess(), theirs, p, now)
			continue
		}
		datums := answer.GetDatums()
		counted := s.fences.ifCurrent(part.slot, part.epoch, func(f *fence) {
			for _, d := range datums {
				s.Trace.Claim(trace.Claim{Kind: trace.Counted, Slot: part.slot, Epoch: part.epoch, Subject: d.GetDatum().GetDataInfoId(), Version: d.GetDatum().GetVersion(), Count: len(d.GetDatum().GetValues()), Flag: d.GetSame()})
				f.pushed = max(f.pushed, s.topics.fetched(d, now))
			}
		})
		switch {
		case !counted:
			datums = nil // a newer epoch was adopted meanwhile: read again at that one
		case len(datums) == 0:
			p.failed(part.slot, now) // an empty answer: do not ask again at once
		default:
			p.succeeded(part.slot)
		}
		// A node may cut a large answer short: the rest stays due.
		s.topics.retry(part.wants[min(len(datums), len(part.wants)):], now)
	}
	return nil
}
