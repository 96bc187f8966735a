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

// Bounds of one Write and one Fetch.
const (
	writeBytes   = 1 << 20
	writeChanges = 1 << 16
	// callLimit is above the three seconds after which the transport drops a
	// connection that is silent: a call that long is dead, and its slots have
	// moved long before. A Write may be on its way for a third of the session grace
	// at most: see vouch.go.
	callLimit = 4 * time.Second
)

// sent is one slot's part of a Write under way.
type sent struct {
	slot    int
	epoch   conclave.Epoch
	changes []*change
}

// runWriter writes to one data node what is queued for the slots that it leads:
// one Write at a time, in which all that has gathered meanwhile travels. So a
// lone registration leaves at once, and a flood is batched by itself; and within
// a slot the order is kept.
func (s *Server) runWriter(ctx context.Context, n *node, random *rand.Rand) {
	patience := newPatience(random.Float64)
	last, most := -1, writeChanges
	for {
		patience.renew(s.nodes.rerouted.Load())
		now := time.Now()
		req, parts, next := s.gather(n.address, patience, last, most, now)
		if len(parts) == 0 {
			if !rest(ctx, n.writes, next) {
				return
			}
			continue
		}
		last = parts[len(parts)-1].slot
		// The limit counts from before the gathering: what was gathered before this
		// process stood still is not sent after it.
		if taken := s.write(ctx, n, req, parts, patience, now.Add(min(callLimit, s.SessionGrace/3))); taken {
			most = min(2*most, writeChanges)
		} else {
			most = max(countOf(parts)/2, 1) // down to the one change that is wrong
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// gather makes the next Write to a node; next is when a slot that pauses may be
// tried again.
func (s *Server) gather(address string, p *patience, last, most int, now time.Time) (req *wirev1.WriteRequest, parts []sent, next time.Time) {
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
		// Under the slot's fence, so that no epoch is adopted between reading it
		// and choosing what to send at it.
		row := s.fences.of(n)
		row.mu.Lock()
		if row.address != address {
			row.mu.Unlock()
			continue
		}
		changes, size := s.registry.take(n, room)
		changes = changes[:min(len(changes), most)]
		part := sent{n, row.epoch, changes}
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

func batchOf(p sent) *wirev1.SlotBatch {
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

func countOf(parts []sent) (n int) {
	for _, part := range parts {
		n += len(part.changes)
	}
	return n
}

// write sends one Write and counts what was accepted. Not taken means that data
// refused the request as it is: fewer changes are to be tried.
func (s *Server) write(ctx context.Context, n *node, req *wirev1.WriteRequest, parts []sent, p *patience, by time.Time) (taken bool) {
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
			return false // fewer of them, at once
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
			counted := s.fences.count(part.slot, part.epoch, func(*fence) {
				acks = append(acks, s.registry.settle(part.slot, part.epoch, part.changes)...)
			})
			if counted {
				p.succeeded(part.slot)
			}
			continue // not counted: a newer epoch was adopted meanwhile, and is tried at once
		}
		s.refusedAt(n.address, part.slot, part.epoch, result.GetAccess(), theirs, p, now)
	}
	s.deliver(acks)
	return true
}

// refuse notes that data refused a change that was sent alone.
func (s *Server) refuse(part sent, err error) {
	c := part.changes[0]
	owner, over := s.registry.refuse(part.slot, c)
	if !over {
		return
	}
	s.log.Error("data refuses a registration: dropped", "id", c.id, "dataInfoId", c.key, "version", c.version, "bytes", c.size, "error", err)
	if owner == nil {
		return
	}
	s.metrics.refused.Add(1)
	owner.out.add(func() { owner.out.refused = append(owner.out.refused, refusal(c.id, err)) })
	wake(owner.settled)
}

// refusedAt notes that a node did not serve a slot at an epoch. When it names a
// newer epoch that it leads at, that is adopted and tried at once; otherwise the
// slot pauses, until the pause or the present routes end.
func (s *Server) refusedAt(address string, slot int, epoch conclave.Epoch, access wirev1.Access, theirs conclave.Epoch, p *patience, now time.Time) {
	if access == wirev1.Access_ACCESS_MISMATCH && epoch.Less(theirs) {
		if changed, _ := s.fences.adopt(slot, theirs, address); changed {
			s.nodes.reroute()
			return
		}
	}
	p.failed(slot, now)
}

// runAudit writes again, a second after a slot's epoch changed, what nothing at
// the new epoch has confirmed; see queue.go.
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
			s.log.Debug("write again after new leader epochs", "registrations", requeued)
			s.nodes.wakeWriters()
		}
	}
}

const auditEvery = time.Second
