package session

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"conclave/session/registry"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Limits of one Write, which may also take a third of the session grace at most;
// see registry.Owner.
const (
	writeBytes   = 1 << 20
	writeChanges = 1 << 16
	writeFirst   = 512
	writeLeast   = 64
	// writeSlow is the time above which a Write to a node halves the number of
	// changes in the next one, down to writeLeast, so that a slow node is sent no
	// more than it stores long before the deadline. Below half of it the number
	// doubles, if the Write was full: a short one says nothing about a long one.
	writeSlow = 250 * time.Millisecond
)

// writer writes to the data nodes what is queued for the slots that they lead.
type writer struct {
	*calls
	refusals prometheus.Counter
	settled  func()        // data has more of what was queued
	numbers  atomic.Uint64 // the number of the last Write
}

// run writes to one data node: one Write at a time, with what was queued meanwhile.
// So one registration is sent at once, and many at a time are batched.
func (w *writer) run(ctx context.Context, n *dataNode, random *rand.Rand) {
	pauses := newBackoff(random.Float64)
	at := cursor{last: -1, most: writeFirst}
	to := &writeStream{client: w.data(n.address), table: w.nodes.view.TableEpoch}
	defer to.close()
	for {
		pauses.reset(w.nodes.rerouted.Load())
		now := time.Now()
		req, parts, next := w.gather(n.address, pauses, &at, now)
		if len(parts) == 0 {
			if !waitSignal(ctx, n.writes, next) {
				return
			}
			continue
		}
		// The deadline counts from before the changes are gathered: a suspended
		// process must not send afterwards what it gathered before.
		taken := w.write(ctx, n, to, req, parts, pauses, now.Add(min(callLimit, w.config.SessionGrace/3)))
		at.most = nextSize(at.most, countOf(parts), taken, time.Since(now))
		if ctx.Err() != nil {
			return
		}
	}
}

// nextSize returns how many changes the next Write to a node may have, after one
// that had sent changes, of most, and took a time.
func nextSize(most, sent int, taken bool, took time.Duration) int {
	switch {
	case !taken:
		return max(sent/2, 1) // until the wrong change is sent alone
	case took > writeSlow:
		return max(sent/2, writeLeast)
	case took < writeSlow/2 && sent >= most:
		return min(2*most, writeChanges)
	}
	return most
}

// cursor is where the next Write to a data node begins.
type cursor struct {
	last   int    // the slot from which changes were taken last
	most   int    // how many changes it may have
	writes uint64 // that were made before
}

// gather makes the next Write to a node. next is when a slot that pauses may be
// tried again.
func (w *writer) gather(address string, p *backoff, c *cursor, now time.Time) (req *wirev1.WriteRequest, parts []registry.Batch, next time.Time) {
	req = &wirev1.WriteRequest{Session: wire.NodeOut(w.config.Node), Number: w.numbers.Add(1)}
	parts, next = w.changes(address, p, c, now)
	if len(parts) > 0 {
		c.writes++
	}
	for _, part := range parts { // made without the lock, which every client's messages wait for
		req.Batches = append(req.Batches, part.Message())
	}
	return req, parts, next
}

// changes takes the changes of the next Write from the registry: class by class, of
// all slots, so that what is urgent in one slot does not wait behind what is new in
// another one.
func (w *writer) changes(address string, p *backoff, c *cursor, now time.Time) (parts []registry.Batch, next time.Time) {
	room, most, last := writeBytes, c.most, c.last
	w.registry.mu.Lock()
	defer w.registry.mu.Unlock()
	unsent := w.registry.Unsent()
	defer func() {
		if w.registry.Unsent() < unsent { // without what is held back there may be room
			w.settled()
		}
	}()
	var slots []int
	for _, n := range rotate(w.registry.Unwritten(), last) {
		if until := p.until(n, now); !until.IsZero() {
			next = earlier(next, until)
			continue
		}
		slots = append(slots, n)
	}
	at := map[int]int{} // the slots' places in parts
	for _, class := range registry.Order(c.writes) {
		for _, n := range slots {
			if room <= 0 || most <= 0 {
				return parts, next
			}
			part := w.registry.Take(n, address, class, room, most, now)
			if part.Len() == 0 {
				continue
			}
			room, most, c.last = room-part.Size, most-part.Len(), n
			if i, more := at[n]; more {
				parts[i].Add(part)
				continue
			}
			at[n] = len(parts)
			parts = append(parts, part)
		}
	}
	return parts, next
}

func countOf(parts []registry.Batch) (n int) {
	for _, part := range parts {
		n += part.Len()
	}
	return n
}

// write sends one Write and counts what was accepted. It reports false if data
// refused the request as it is, so that fewer changes are to be sent.
func (w *writer) write(ctx context.Context, n *dataNode, to *writeStream, req *wirev1.WriteRequest, parts []registry.Batch, p *backoff, by time.Time) (taken bool) {
	res, err := to.write(ctx, req, by)
	now := time.Now()
	if err != nil {
		if ctx.Err() == nil {
			w.config.Logger.Debug("write failed, will retry", "to", n.address, "slots", len(parts), "error", err)
		}
		err = wire.FromConnect(err)
		code := wire.CodeOf(err)
		taken = code != wire.CodeTooLarge && code != wire.CodeBadRequest
		if !taken && countOf(parts) > 1 {
			return false // the next attempt, with fewer, is made at once
		}
		for _, part := range parts {
			p.failed(part.Slot, now)
		}
		if !taken {
			w.refuse(parts[0], err)
		}
		return taken
	}
	var acks []registry.Ack
	for i, part := range parts {
		var result *wirev1.SlotResult
		if i < len(res.GetResults()) {
			result = res.Results[i]
		}
		theirs := wire.EpochIn(result.GetLeaderEpoch())
		if result.GetAccess() != wirev1.Access_ACCESS_ACCEPT || theirs != part.Epoch {
			w.refused(n, part.Slot, part.Epoch, result.GetAccess(), theirs, p, now)
			to.close() // the next one compares the tables again
			continue
		}
		var stored []registry.Ack
		var counted bool
		w.registry.do(func(r *registry.Registry) {
			if stored, counted = r.Settle(part, now); counted {
				w.clients.hidden(r, result.GetHidden())
			}
		})
		acks = append(acks, stored...)
		if counted { // otherwise a newer epoch was adopted meanwhile and is tried at once
			p.succeeded(part.Slot)
		}
	}
	w.settled()
	w.clients.stored(acks)
	return true
}

// refuse records that data refused a change that was sent alone.
func (w *writer) refuse(part registry.Batch, err error) {
	var c registry.Dropped
	var dropped bool
	w.registry.do(func(r *registry.Registry) { c, dropped = r.Refuse(part) })
	if !dropped {
		return
	}
	w.config.Logger.Error("data refuses a registration: dropped", "id", c.ID, "dataInfoId", c.DataInfoID, "version", c.Version, "bytes", c.Size, "error", err)
	if c.To != nil {
		w.refusals.Add(1)
		w.clients.refused(c.To, refusal(c.ID, err))
	}
}

// runAudit writes again, a second after a slot's epoch changed, the
// registrations that nothing at the new epoch has confirmed; see
// registry.Registry.Audit.
func (w *writer) runAudit(ctx context.Context) {
	ticker := time.NewTicker(auditEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		requeued := with(w.registry, func(r *registry.Registry) int { return r.Audit(time.Now().Add(-auditEvery)) })
		if requeued > 0 {
			w.config.Logger.Debug("writing again after new leader epochs", "registrations", requeued)
			w.nodes.wakeWriters()
		}
	}
}

const auditEvery = time.Second
