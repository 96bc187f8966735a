package registry

import (
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/wire"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// Changed records that the leader's datum of each key has changed: it is read
// at once, or when the window of its last read ends. Like all that marks topics
// to be read, it reports whether there is one.
func (r *Registry) Changed(keys []string) (due bool) {
	for _, k := range keys {
		if tp := r.topics[k]; tp != nil {
			tp.read(tp.lastRead.Add(r.window + tp.pace()))
			due = true
		}
	}
	return due
}

// Refresh marks every topic of a slot to be read now, because the slot's feed
// starts again.
func (r *Registry) Refresh(slot int, now time.Time) (due bool) {
	s := r.of(slot)
	for _, k := range sortedKeys(s.topics) {
		s.topics[k].read(now)
	}
	return len(s.topics) > 0
}

// RefreshLedAt is Refresh for every slot whose leader has the address.
func (r *Registry) RefreshLedAt(address string, now time.Time) (due bool) {
	for _, s := range r.slots {
		if s.address == address {
			due = r.Refresh(s.number, now) || due
		}
	}
	return due
}

// Unread returns the slots with topics to be read, in order.
func (r *Registry) Unread() []int {
	return r.numbersOf(func(s *slotState) bool { return len(s.due) > 0 })
}

// Reads is one slot's part of a Fetch: the topics that its leader at an epoch is
// asked for, with what is held of each.
type Reads struct {
	Slot  int
	Epoch conclave.Epoch
	Wants []*wirev1.Want
	Size  int // of the last answers in bytes, to estimate that of the next one
}

// Message returns the reads as they are sent.
func (rs Reads) Message() *wirev1.FetchSlot {
	return &wirev1.FetchSlot{Slot: uint32(rs.Slot), LeaderEpoch: wire.EpochOut(rs.Epoch), Wants: rs.Wants}
}

// TakeReads returns up to limit topics of the slot that may be read now, if its
// leader is at the address, and the earliest time at which another may. A topic
// that changes while it is read becomes due again.
func (r *Registry) TakeReads(slot int, address string, limit int, now time.Time) (reads Reads, next time.Time) {
	s := r.of(slot)
	reads = Reads{Slot: slot, Epoch: s.epoch}
	if s.address != address {
		return reads, next
	}
	kept := s.due[:0]
	for _, tp := range s.due {
		switch {
		case !tp.due: // it has no subscribers left
		case len(reads.Wants) >= limit || tp.from.After(now):
			kept = append(kept, tp)
			if next.IsZero() || tp.from.Before(next) {
				next = tp.from
			}
		default:
			tp.due, tp.reading, tp.lastRead = false, true, now
			w := &wirev1.Want{DataInfoId: tp.key, Version: tp.raise, Parts: true}
			reads.Size += 128
			if tp.answer != nil && tp.answer.epoch == s.epoch {
				tp.answer.list.Continue(w)
				reads.Size += list.PartsFrom
			} else {
				tp.ask()
			}
			if tp.held != nil {
				reads.Size += tp.held.size()
				if tp.raise == 0 {
					w.Hash, w.Deltas = tp.held.Hash(), !tp.whole
				}
			}
			reads.Wants = append(reads.Wants, w)
		}
	}
	clear(s.due[len(kept):])
	s.due = kept
	return reads, next
}

// Retry marks the topics after the first answered ones to be read again, not
// before from.
func (r *Registry) Retry(reads Reads, answered int, from time.Time) (due bool) {
	rest := reads.Wants[min(answered, len(reads.Wants)):]
	for _, w := range rest {
		if tp := r.topics[w.DataInfoId]; tp != nil {
			tp.read(from)
		}
	}
	return len(rest) > 0
}

// unfitPause is the time after which a list is read again of which a part did not fit.
const unfitPause = time.Second

// receive takes an answer to a read of a topic, or a part of one. It reports whether
// what is held is what the leader has. Otherwise the topic is due again, unless the list
// has more bytes than are sent, which are returned. A large list is whole before anything
// is offered to a subscriber; a change that was reported between two of its parts is read
// afterwards.
func (r *Registry) receive(tp *topic, f *wirev1.Fetched, epoch conclave.Epoch, now time.Time) (received bool, tooLarge uint64) {
	tp.reading = false
	if f.GetTooLarge() > 0 {
		return false, f.GetTooLarge()
	}
	a, part := tp.answer, f.GetPart()
	if a == nil || a.epoch != epoch || list.Begins(part) {
		a = &answer{epoch: epoch, version: f.GetDatum().GetVersion(), list: list.Assembly{Limit: r.limits.maxList()}}
	}
	a.mark.add(f, now)
	tp.answer = nil
	held, bytes := tp.held, 0
	if f.GetSame() {
		if held == nil || held.Hash() != f.GetHash() && f.GetHash() != 0 {
			tp.read(now)
			return false, 0
		}
		if held.version() < a.version {
			held = newDatum(tp.key, a.version, held.List)
		}
	} else {
		whole, err := a.list.Add(f, held.content())
		large, isLarge := errors.AsType[*list.TooLarge](err)
		switch {
		case isLarge:
			return false, large.Bytes
		case err != nil && part != nil:
			tp.read(now.Add(unfitPause))
			return false, 0
		case err != nil:
			tp.whole = true
			tp.read(now)
			return false, 0
		case whole == nil:
			a.again = a.again || tp.due // it changed while this part was on its way
			tp.answer = a
			tp.plan(now)
			return false, 0
		}
		held, tp.whole = newDatum(tp.key, a.version, whole), false
		bytes = held.size()
		if delta := f.GetDelta(); delta != nil {
			bytes = proto.Size(delta)
			held.sentBy(delta, tp.held)
		}
		if a.version > tp.raise {
			tp.raise = 0
		}
	}
	if tp.held, tp.epoch, tp.mark, tp.bytes = held, epoch, a.mark, bytes; a.again {
		tp.plan(now.Add(r.window))
	}
	return true, 0
}
