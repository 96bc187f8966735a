package session

import (
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// The registry's queues hold, slot by slot, the changes that data has not
// acknowledged.
//
// A change is settled when the slot's leader accepted it at the slot's present
// epoch, and only then. Two rules make that sufficient when the epoch changes:
//
//  1. A change that is not settled stays queued and is sent again at the new
//     epoch. An acknowledgement of the old epoch that still arrives does not
//     count, because this session does not know whether the old leader's last
//     position included the change.
//  2. A change that was settled at an older epoch is in the new leader's copy,
//     either through the old leader's last position or through a diff with this
//     session: the protocol lets no leader serve without one of them. It stays
//     stored. As a second safeguard (this session may have been off the member
//     list at that moment), the audit writes it again a second later, unless a
//     diff at the new epoch has covered the slot. That costs only a message,
//     since an equal version changes nothing.

// waiting returns the slots with queued changes, in order.
func (r *registry) waiting() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []int
	for i := range r.slots {
		if len(r.slots[i].pending) > 0 {
			out = append(out, i)
		}
	}
	return out
}

// take returns the oldest changes of a slot: about the given number of bytes,
// but at least one change, without those that are held back. They stay queued
// until settle.
func (r *registry) take(slot, bytes int) (out []*change, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	s := &r.slots[slot]
	if len(s.order) > 2*len(s.pending)+16 {
		kept := make([]*change, 0, len(s.pending))
		for _, c := range s.order {
			if !c.settled {
				kept = append(kept, c)
			}
		}
		s.order = kept
	}
	for _, c := range s.order {
		if c.settled || c.put != nil && !r.mayPublish(s.held[c.id], now) {
			continue
		}
		if size > 0 && size+c.size > bytes {
			break
		}
		out = append(out, c)
		size += c.size
	}
	return out, size
}

// settle records that the leader at epoch has the changes, and returns the
// acknowledgements for their owners. The caller holds the slot's fence.
func (r *registry) settle(slot int, epoch conclave.Epoch, changes []*change) []ack {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.slots[slot]
	var acks []ack
	for _, c := range changes {
		if c.settled {
			continue // a newer change of that id is queued and will be acknowledged instead
		}
		c.settled = true
		delete(s.pending, c.id)
		reg := s.held[c.id]
		if c.put == nil || reg == nil || reg.pub.Version != c.version {
			continue
		}
		if reg.stored.IsZero() && reg.owner != nil {
			acks = append(acks, ack{c.id, c.version, reg.owner})
		}
		reg.stored = epoch
		r.trace.Claim(trace.Claim{Kind: trace.Settled, Slot: slot, Epoch: epoch, Subject: c.id, Key: c.key, Version: c.version, Flag: reg.pub.Withdrawn})
	}
	if len(s.pending) == 0 {
		s.order = nil
	}
	return acks
}

// refusedAfter is how often a Write of one change alone must be refused before
// the change itself is taken to be the reason: about three seconds, in which a
// node that merely holds an older table has caught up.
const refusedAfter = 64

// refuse records that data refused a Write of one change alone. After
// refusedAfter refusals it drops the registration (dropped), since otherwise no
// later change of the slot would be written, and queues the removal of what
// data has of an earlier version. The owner, unless nil, is to be notified.
func (r *registry) refuse(slot int, c *change) (owner *connection, dropped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slot >= len(r.slots) || r.slots[slot].pending[c.id] != c {
		return nil, false // replaced by a newer change
	}
	if c.refused++; c.refused < refusedAfter {
		return nil, false
	}
	s := &r.slots[slot]
	c.settled = true
	delete(s.pending, c.id)
	reg := s.held[c.id]
	if c.put == nil || reg == nil || reg.pub.Version != c.version {
		return nil, true
	}
	owner = reg.owner
	r.drop(reg)
	r.enqueue(slot, removalOf(reg, wirev1.Cause_CAUSE_WITHDRAWN))
	return owner, true
}

// audit queues again the registrations that were stored at an older epoch of
// the slot, unless a diff at the present epoch has covered them. It returns how
// many there were.
func (r *registry) audit(slot int, epoch conclave.Epoch) (requeued int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slot >= len(r.slots) {
		return 0
	}
	s := &r.slots[slot]
	if s.covered == epoch {
		return 0
	}
	for _, id := range sortedKeys(s.held) {
		reg := s.held[id]
		if !reg.stored.IsZero() && reg.stored.Less(epoch) && s.pending[id] == nil {
			r.enqueue(slot, putOf(reg))
			requeued++
		}
	}
	s.covered = epoch // by the changes queued above
	return requeued
}

// diffBytes limits the size of one answer; a data node asks again for the rest.
const diffBytes = 1 << 20

// diff compares a data node's copies of this session's registrations with the
// set. The caller holds the slot's fence, at the asker's epoch: the answer
// covers everything that was ever sent at a lower one.
//
// Registrations that are held back are left out. While their clients may still
// come back or expire, an answer without them is not complete: diff then
// returns an error, for a client lease at most. A slot that waits for the
// answer is not read meanwhile, so no subscriber sees a shorter list.
func (r *registry) diff(n int, epoch conclave.Epoch, req *wirev1.DiffRequest) (res *wirev1.DiffResponse, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	res = &wirev1.DiffResponse{}
	s := slotSet{}
	if n < len(r.slots) {
		s = r.slots[n]
		defer func() {
			if err == nil && !res.Summarize && !res.More {
				r.slots[n].covered = epoch
			}
		}()
	}
	if uint64(len(s.held)) == req.GetCount() && s.digest == req.GetDigest() {
		res.Same = true
		return res, nil
	}
	if !req.GetSummarized() && req.GetCount() > 0 {
		res.Summarize = true
		return res, nil
	}
	theirs := make(map[string]int64, len(req.GetEntries()))
	for _, e := range req.GetEntries() {
		theirs[e.GetId()] = e.GetVersion()
		// The asker's version is above ours: the client broke the rule of
		// rising versions. That copy is removed, and ours is put by the next
		// diff.
		if reg := s.held[e.GetId()]; reg == nil || reg.pub.Version < e.GetVersion() {
			res.Removed = append(res.Removed, e)
		}
	}
	size, awaited := 0, 0
	for _, id := range sortedKeys(s.held) {
		reg := s.held[id]
		if v, ok := theirs[id]; ok && v >= reg.pub.Version {
			continue
		}
		if !r.mayPublish(reg, now) {
			if !reg.owner.announced { // a client that announced its end may never come back
				awaited++
			}
			continue
		}
		c := putOf(reg)
		if size > 0 && size+c.size > diffBytes {
			res.More = true
			break
		}
		res.Puts = append(res.Puts, c.put)
		size += c.size
	}
	switch {
	case awaited == 0 || res.More:
	case len(res.Puts) > 0:
		res.More = true // the others are for the next request
	default:
		return nil, wire.Errorf(wire.CodeUnavailable, "%d registrations of slot %d wait for a message of their clients", awaited, n)
	}
	return res, nil
}

// slotOf returns the slot of a key, and false as long as there is no table.
func (r *registry) slotOf(key string) (int, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.slots) == 0 {
		return 0, false
	}
	return slot.Of(key, len(r.slots)), true
}
