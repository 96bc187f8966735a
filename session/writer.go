package session

import (
	"context"
	"math/rand/v2"
	"time"

	"connectrpc.com/connect"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Limits of one Write and one Fetch.
const (
	writeBytes   = 1 << 20
	writeChanges = 1 << 16
	// callLimit is longer than the three seconds after which the transport
	// drops a silent connection: a call that takes longer is dead, and its
	// slots have moved long before. A Write may take a third of the session
	// grace at most; see freshness.go.
	callLimit = 4 * time.Second
)

// writePart is one slot's part of a Write in progress.
type writePart struct {
	slot    int
	epoch   conclave.Epoch
	changes []*change
}

// runWriter writes to one data node what is queued for the slots that it leads:
// one Write at a time, which carries everything queued meanwhile. A single
// registration is therefore sent at once, many at a time are batched, and the
// order within a slot is kept.
func (s *Server) runWriter(ctx context.Context, n *dataNode, random *rand.Rand) {
	pauses := newBackoff(random.Float64)
	last, most := -1, writeChanges
	for {
		pauses.reset(s.nodes.rerouted.Load())
		now := time.Now()
		req, parts, next := s.gather(n.address, pauses, last, most, now)
		if len(parts) == 0 {
			if !waitSignal(ctx, n.writes, next) {
				return
			}
			continue
		}
		last = parts[len(parts)-1].slot
		// The deadline counts from before the changes are gathered: a suspended
		// process must not send afterwards what it gathered before.
		if taken := s.write(ctx, n, req, parts, pauses, now.Add(min(callLimit, s.SessionGrace/3))); taken {
			most = min(2*most, writeChanges)
		} else {
			most = max(countOf(parts)/2, 1) // until the wrong change is sent alone
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// gather makes the next Write to a node. next is when a slot that pauses may be
// tried again.
func (s *Server) gather(address string, p *backoff, last, most int, now time.Time) (req *wirev1.WriteRequest, parts []writePart, next time.Time) {
	req = &wirev1.WriteRequest{Session: wire.NodeOut(s.Node), Number: s.numbers.Add(1)}
	room := writeBytes
	for _, n := range rotate(s.registry.waiting(), last) {
		if room <= 0 || most <= 0 {
			break
		}
		if until := p.until(n, now); !until.IsZero() {
			next = earlier(next, until)
			continue
		}
		// Under the slot's fence, so that no epoch is adopted between reading
		// it and choosing the changes to send at it.
		row := s.fences.of(n)
		row.mu.Lock()
		if row.address != address {
			row.mu.Unlock()
			continue
		}
		changes, size := s.registry.take(n, room)
		changes = changes[:min(len(changes), most)]
		part := writePart{n, row.epoch, changes}
		row.mu.Unlock()
		if len(changes) == 0 {
			continue
		}
		room, most = room-size, most-len(changes)
		parts = append(parts, part)
		req.Batches = append(req.Batches, batchOf(part))
	}
	return req, parts, next
}

func batchOf(p writePart) *wirev1.SlotBatch {
	b := &wirev1.SlotBatch{Slot: uint32(p.slot), LeaderEpoch: wire.EpochOut(p.epoch)}
	for _, c := range p.changes {
		if c.put != nil {
			b.Puts = append(b.Puts, c.put)
			continue
		}
		b.Removals = append(b.Removals, &wirev1.Removal{Id: c.id, DataInfoId: c.key, Version: c.version, Cause: c.cause})
	}
	return b
}

func countOf(parts []writePart) (n int) {
	for _, part := range parts {
		n += len(part.changes)
	}
	return n
}

// write sends one Write and counts what was accepted. It reports false if data
// refused the request as it is, so that fewer changes are to be sent.
func (s *Server) write(ctx context.Context, n *dataNode, req *wirev1.WriteRequest, parts []writePart, p *backoff, by time.Time) (taken bool) {
	call, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	res, err := s.peers.Data(n.address).Write(call, connect.NewRequest(req))
	now := time.Now()
	if err != nil {
		if ctx.Err() == nil {
			s.log.Debug("write failed, will retry", "to", n.address, "slots", len(parts), "error", err)
		}
		err = wire.FromConnect(err)
		code := wire.CodeOf(err)
		taken = code != wire.CodeTooLarge && code != wire.CodeBadRequest
		if !taken && countOf(parts) > 1 {
			return false // the next attempt, with fewer, is made at once
		}
		for _, part := range parts {
			p.failed(part.slot, now)
		}
		if !taken {
			s.refuse(parts[0], err)
		}
		return taken
	}
	var acks []ack
	for i, part := range parts {
		var result *wirev1.SlotResult
		if i < len(res.Msg.GetResults()) {
			result = res.Msg.Results[i]
		}
		theirs := wire.EpochIn(result.GetLeaderEpoch())
		if result.GetAccess() == wirev1.Access_ACCESS_ACCEPT && theirs == part.epoch {
			counted := s.fences.ifCurrent(part.slot, part.epoch, func(*fence) {
				acks = append(acks, s.registry.settle(part.slot, part.epoch, part.changes)...)
			})
			if counted {
				p.succeeded(part.slot)
			}
			continue // if not counted, a newer epoch was adopted meanwhile and is tried at once
		}
		s.refusedAt(n.address, part.slot, part.epoch, result.GetAccess(), theirs, p, now)
	}
	s.deliver(acks)
	return true
}

// refuse records that data refused a change that was sent alone.
func (s *Server) refuse(part writePart, err error) {
	c := part.changes[0]
	owner, dropped := s.registry.refuse(part.slot, c)
	if !dropped {
		return
	}
	s.log.Error("data refuses a registration: dropped", "id", c.id, "dataInfoId", c.key, "version", c.version, "bytes", c.size, "error", err)
	if owner == nil {
		return
	}
	s.refusals.Add(1)
	owner.out.add(func() { owner.out.refused = append(owner.out.refused, refusal(c.id, err)) })
	owner.settled.Set()
}

// refusedAt records that a node did not serve a slot at an epoch. If it reports
// a newer epoch that it leads at, that is adopted and tried at once; otherwise
// the slot pauses until the pause ends or the routes change.
func (s *Server) refusedAt(address string, slot int, epoch conclave.Epoch, access wirev1.Access, theirs conclave.Epoch, p *backoff, now time.Time) {
	if access == wirev1.Access_ACCESS_MISMATCH && epoch.Less(theirs) {
		if changed, _ := s.fences.adopt(slot, theirs, address); changed {
			s.nodes.reroute()
			return
		}
	}
	p.failed(slot, now)
}

// runAudit writes again, a second after a slot's epoch changed, the
// registrations that nothing at the new epoch has confirmed; see queue.go.
func (s *Server) runAudit(ctx context.Context) {
	ticker := time.NewTicker(auditEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		requeued := 0
		for i := range s.fences.length() {
			r := s.fences.route(i)
			if !r.epoch.IsZero() && time.Since(r.since) >= auditEvery {
				requeued += s.registry.audit(i, r.epoch)
			}
		}
		if requeued > 0 {
			s.log.Debug("writing again after new leader epochs", "registrations", requeued)
			s.nodes.wakeWriters()
		}
	}
}

const auditEvery = time.Second
