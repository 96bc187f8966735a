package registry

import (
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// The queue of a slot holds the changes that data has not acknowledged, in
// classes: many new registrations delay neither a withdrawal nor an update
// (ADR 0079). Of each id only the newest change is queued, so changes of one id
// never overtake each other.
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
//     list at that moment), Audit writes it again a second later, unless a diff
//     at the new epoch has covered the slot. That costs only a message, since an
//     equal version changes nothing.

// Batch is one slot's part of a Write: the changes for its leader at an epoch.
type Batch struct {
	Slot    int
	Epoch   conclave.Epoch
	Size    int // estimated bytes on the wire
	changes []*change
}

// Len returns the number of changes.
func (b Batch) Len() int { return len(b.changes) }

// Message returns the batch as it is sent. It needs no lock, because it reads
// only what never changes.
func (b Batch) Message() *wirev1.SlotBatch {
	out := &wirev1.SlotBatch{Slot: uint32(b.Slot), LeaderEpoch: wire.EpochOut(b.Epoch)}
	for _, c := range b.changes {
		if !c.removal {
			out.Puts = append(out.Puts, c.reg.message())
			continue
		}
		out.Removals = append(out.Removals, &wirev1.Removal{Id: c.reg.id, DataInfoId: c.reg.key, Version: c.reg.version, Cause: c.cause})
	}
	return out
}

// Unwritten returns the slots with queued changes, in order.
func (r *Registry) Unwritten() []int {
	return r.numbersOf(func(s *slotState) bool { return len(s.pending) > 0 })
}

// Unsent returns about how many bytes are queued.
func (r *Registry) Unsent() (bytes int) {
	for _, s := range r.slots {
		bytes += s.unsent
	}
	return bytes
}

// Full reports whether more is queued than limit. Of several data nodes each one
// accounts for half at most: one that is slow, or gone, does not delay what belongs
// to others. What waits for that one is bounded by what clients hold, since of each
// registration only the newest change is queued.
func (r *Registry) Full(limit int) bool {
	if r.Unsent() < limit {
		return false
	}
	byLeader := map[string]int{}
	counted := 0
	for _, s := range r.slots {
		more := min(s.unsent, (limit+1)/2-byLeader[s.address])
		byLeader[s.address] += more
		counted += more
	}
	return counted >= limit || len(byLeader) == 1
}

// Knows reports whether a registration of that id is held, live or withdrawn.
func (r *Registry) Knows(id string) bool { return r.byID[id] != nil }

// Take returns the oldest changes of a class in the queue of a slot for its leader,
// if that is at the address: at most the given number, and about the given number
// of bytes, but at least one change. The changes stay queued until Settle.
//
// Registrations that are held back are taken out of the queue, where they would take
// the room of others (Full): a connection that is not fresh never is again, and Put
// queues them when they are sent again on another one.
func (r *Registry) Take(slot int, address string, of Class, bytes, most int, now time.Time) Batch {
	s := r.of(slot)
	b := Batch{Slot: slot, Epoch: s.epoch}
	if s.address != address {
		return b
	}
	s.compact()
	for _, c := range s.lanes[of] {
		if c.settled {
			continue
		}
		if !c.removal && !r.mayPublish(c.reg, now) {
			s.dequeue(c)
			continue
		}
		if len(b.changes) == most || b.Size > 0 && b.Size+c.size() > bytes {
			break
		}
		b.changes = append(b.changes, c)
		b.Size += c.size()
	}
	return b
}

// Add adds the changes of another class in the same slot's queue, which were taken
// under the same hold of the lock.
func (b *Batch) Add(more Batch) {
	b.changes = append(b.changes, more.changes...)
	b.Size += more.Size
}

// Ack is an acknowledgement for a client: its registration was accepted, or
// stored, at this version.
type Ack struct {
	ID      string
	Version int64
	To      *Owner
}

// Settle records that the slot's leader has the changes of a batch, and returns
// the acknowledgements for their owners. counted is false if a newer epoch was
// adopted meanwhile.
func (r *Registry) Settle(b Batch, now time.Time) (acks []Ack, counted bool) {
	s, counted := r.current(b.Slot, b.Epoch)
	if !counted {
		return nil, false
	}
	for _, c := range b.changes {
		if c.settled {
			continue // a newer change of that id is queued and will be acknowledged instead
		}
		s.dequeue(c)
		reg := c.reg
		if c.removal || r.held(s, reg.id) != reg {
			continue
		}
		if reg.stored.IsZero() && reg.owner != nil {
			acks = append(acks, Ack{reg.id, reg.version, reg.owner})
		}
		if reg.stored.IsZero() && reg.withdrawn && c.class != repeated { // else it is among them
			r.tombstones = append(r.tombstones, tombstone{reg, now.Add(r.grace)})
		}
		reg.setStored(b.Epoch)
		r.trace.Claim(trace.Claim{Kind: trace.Settled, Slot: b.Slot, Epoch: b.Epoch, Subject: reg.id, Key: reg.key, Version: reg.version, Flag: reg.withdrawn})
	}
	if len(s.pending) == 0 {
		s.lanes = [classes][]*change{}
	}
	return acks, true
}

// refusedAfter is how often a Write of one change alone must be refused before
// the change itself is taken to be the reason: about three seconds, in which a
// node that merely holds an older table has caught up.
const refusedAfter = 64

// Dropped is a registration that was dropped because data refuses it.
type Dropped struct {
	Ack        // To is nil if it has no owner any more
	DataInfoID string
	Size       int // estimated bytes on the wire
}

// Refuse records that data refused a Write of one change alone. After
// refusedAfter refusals it drops the registration and returns it, since
// otherwise no later change of the slot would be written, and queues the removal
// of what data has of an earlier version.
func (r *Registry) Refuse(b Batch) (Dropped, bool) {
	s, c := r.of(b.Slot), b.changes[0]
	reg := c.reg
	if s.pending[reg.id] != c {
		return Dropped{}, false // replaced by a newer change
	}
	if c.refused++; c.refused < refusedAfter {
		return Dropped{}, false
	}
	s.dequeue(c)
	out := Dropped{Ack{reg.id, reg.version, nil}, reg.key, c.size()}
	if !c.removal && r.held(s, reg.id) == reg {
		out.To = reg.owner
		r.drop(reg)
		s.enqueue(removalOf(reg, wirev1.Cause_CAUSE_WITHDRAWN))
	}
	return out, true
}

// Audit queues again the registrations that were stored at an older epoch of
// their slot, unless the present epoch was adopted after until, or a diff at it
// has covered them. It returns how many there were.
func (r *Registry) Audit(until time.Time) (requeued int) {
	for _, s := range r.slots {
		if s.epoch.IsZero() || s.since.After(until) || s.covered == s.epoch {
			continue
		}
		for _, reg := range s.held.sorted() {
			if !reg.stored.IsZero() && reg.stored.Less(s.epoch) && s.pending[reg.id] == nil {
				s.enqueue(putOf(reg, repeated))
				requeued++
			}
		}
		s.covered = s.epoch // by the changes queued above
	}
	return requeued
}
