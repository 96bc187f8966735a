package session

import (
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// The registry's queues: what data is not known to have, slot by slot.
//
// A change is settled when the slot's leader accepted it at the slot's present
// epoch, and only then. Two rules make that enough when the epoch changes:
//
//  1. What was not settled stays queued, and is sent again at the new epoch. An
//     acceptance of the old one that still arrives is not counted: whether the
//     old leader's last position held it is not known here.
//  2. What was settled at an older epoch is in the new leader's copy, either
//     through the old leader's last position or through a diff with this
//     session: the protocol lets nobody serve without. It stays stored. As a
//     second net (this session may have been off the member list just then) the
//     audit writes it again a second later, unless a diff at the new epoch has
//     covered the slot. That costs nothing but a message: equal is the same.

// waiting lists the slots with something queued, in order.
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

// take lists the oldest changes of a slot, about as many bytes as given, at
// least one, without those that are held back. They stay queued until settle.
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
		if c.settled || c.put != nil && !r.offers(s.held[c.id], now) {
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

// settle notes that the leader at epoch has the changes, and lists what clients
// are to be told. The caller holds the slot's fence.
func (r *registry) settle(slot int, epoch conclave.Epoch, changes []*change) []ack {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.slots[slot]
	var acks []ack
	for _, c := range changes {
		if c.settled {
			continue // a newer change of that id is queued; it will be acknowledged
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

// refusedAfter is how often a Write of one change alone is refused until that
// change is taken for the reason: about three seconds, in which a node that
// merely holds an older table has caught up.
const refusedAfter = 64

// refuse notes that data refused a Write of one change alone. In the end the
// registration is dropped, or nothing of its slot would ever be written again;
// owner, unless nil, is to be told. What data has of an earlier version goes.
func (r *registry) refuse(slot int, c *change) (owner *connection, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slot >= len(r.slots) || r.slots[slot].pending[c.id] != c {
		return nil, false // overtaken
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

// audit queues again what was stored at an older epoch of the slot and no diff
// at the present one has covered.
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
	s.covered = epoch // by what was queued just now
	return requeued
}

// diffBytes bounds one answer; a data node asks again for the rest.
const diffBytes = 1 << 20

// diff compares what a data node holds of this session with the set. The caller
// holds the slot's fence, at the asker's epoch: what is answered here is all
// that was ever sent at a lower one.
//
// What is held back is left out. Where its client is about to come back, or to be
// gone, that is no full answer: it is refused until then, for a client lease at
// most, and a slot that waits for it stays unread and shows nobody less.
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
		// Above ours: from a client that broke the rule of rising versions, in
		// another life of that id here. It goes, and ours is put next time.
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
		if !r.offers(reg, now) {
			if !reg.owner.announced { // who announced its end may never come back
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
		res.More = true // these now
	default:
		return nil, wire.Errorf(wire.CodeUnavailable, "%d registrations of slot %d wait for a word of their clients", awaited, n)
	}
	return res, nil
}

// slotOf is where a key belongs; false before there is a table.
func (r *registry) slotOf(key string) (int, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.slots) == 0 {
		return 0, false
	}
	return slot.Of(key, len(r.slots)), true
}
