package list

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	wirev1 "conclave/wire/v1"
)

// Message is what a list travels in: the answer to a read, or a push.
type Message interface {
	GetDatum() *wirev1.Datum // with the values and publishers of the list, or of a part of it
	GetHash() uint64         // ContentHash of the whole list; 0 if the sender does not name it
	GetDelta() *wirev1.Delta // in place of them
	GetPart() *wirev1.Part   // which part it is; nil: the whole list
}

// Assembly makes lists of messages. It never holds more than Limit bytes of a list of
// which parts have come, whatever they say. Its zero value holds nothing.
type Assembly struct {
	Limit int // 0: MaxBytes

	// Replaced, if not nil, is called with the values that each edit of a delta replaces. The
	// base of a delta must then be the receiver's own, and is of no more use when the list is
	// complete: where values only change, they do so in their place.
	Replaced func(removed, inserted []string)

	values     []string
	publishers []uint32
	hash       uint64 // of the whole list
	part       *wirev1.Part
	sum        uint64 // of all bytes that have come; see ContentHash
	bytes      int    // of that
	failed     bool   // a part did not fit: those after it are ignored
}

// Add takes the next message. It returns the list if it is complete, and nil if more
// parts are to come. The changes in a delta are made to base, which is nil if the
// receiver has no list. A message that does not belong to the parts before it begins
// again. An error means that the list is TooLarge, or that the message does not fit or
// does not make the list of its hashes: then nothing is held, the parts that follow
// are ignored, and the list must be asked for again.
func (a *Assembly) Add(m Message, base *List) (whole *List, err error) {
	part, limit := m.GetPart(), uint64(cmp.Or(a.Limit, MaxBytes))
	if Begins(part) {
		*a = Assembly{Limit: a.Limit, Replaced: a.Replaced, hash: m.GetHash(), part: part, sum: fnvOffset}
	}
	bytes := part.GetBytes()
	switch delta := m.GetDelta(); {
	case a.failed:
		return nil, nil
	case bytes > limit:
	case part != nil && delta != nil:
		err = errors.New("a part with changes")
	case part != nil:
		whole, err = a.add(m)
	case delta == nil:
		values := m.GetDatum().GetValues()
		if a.Replaced != nil {
			values = slices.Clone(values) // other receivers may have the same message
		}
		whole = New(values, m.GetDatum().GetPublishers(), m.GetHash())
	case base == nil || base.hash != delta.GetBaseHash():
		err = fmt.Errorf("changes of the list with the hash %x, which is not here", delta.GetBaseHash())
	default:
		whole, err = base.apply(delta, m.GetHash(), int(limit), a.Replaced)
	}
	if whole != nil {
		bytes = uint64(whole.Bytes())
	}
	if err == nil && bytes > limit {
		whole, err = nil, &TooLarge{bytes}
	}
	if err != nil || whole != nil {
		*a = Assembly{Limit: a.Limit, Replaced: a.Replaced, failed: err != nil}
	}
	return whole, err
}

// Begins reports whether a message with this part, nil for none, begins a list.
func Begins(p *wirev1.Part) bool { return p.GetValuesAt() == 0 && p.GetPublishersAt() == 0 }

// add adds a part, and returns the list if it is the last one.
func (a *Assembly) add(m Message) (*List, error) {
	p, values, publishers := m.GetPart(), m.GetDatum().GetValues(), m.GetDatum().GetPublishers()
	switch {
	case a.part == nil:
		return nil, fmt.Errorf("a part from value %d on, without the parts before", p.GetValuesAt())
	case m.GetHash() != a.hash || p.GetPublishersHash() != a.part.GetPublishersHash() || p.GetValues() != a.part.GetValues() || p.GetPublishers() != a.part.GetPublishers():
		return nil, fmt.Errorf("a part of another list, from value %d on", p.GetValuesAt())
	case int(p.GetValuesAt()) != len(a.values) || int(p.GetPublishersAt()) != len(a.publishers):
		return nil, fmt.Errorf("a part from value %d on, after %d", p.GetValuesAt(), len(a.values))
	case len(values)+len(publishers) == 0:
		return nil, fmt.Errorf("an empty part, from value %d on", p.GetValuesAt())
	case len(values) > int(p.GetValues())-len(a.values) || len(publishers) > int(p.GetPublishers())-len(a.publishers):
		return nil, fmt.Errorf("a part of %d values from %d on, of %d", len(values), p.GetValuesAt(), p.GetValues())
	}
	if a.bytes += bytesOf(len(values), len(publishers), textBytes(values)); a.bytes > cmp.Or(a.Limit, MaxBytes) {
		return nil, &TooLarge{uint64(a.bytes)}
	}
	a.values, a.publishers = append(a.values, values...), append(a.publishers, publishers...)
	a.sum = hashValues(a.sum, values)
	if len(a.values) < int(p.GetValues()) || len(a.publishers) < int(p.GetPublishers()) {
		return nil, nil
	}
	hash := uint64(0)
	if a.bytes > PartsFrom {
		hash = max(a.sum, 1)
	}
	whole := New(a.values, a.publishers, hash)
	if whole.hash != a.hash {
		return nil, fmt.Errorf("the list has the hash %x, not %x", whole.hash, a.hash)
	}
	if whole.publishersHash != p.GetPublishersHash() {
		return nil, fmt.Errorf("its publishers have the hash %x, not %x", whole.publishersHash, p.GetPublishersHash())
	}
	return whole, nil
}

// Continue makes a request ask for the part that comes next.
func (a *Assembly) Continue(w *wirev1.Want) {
	w.PartHash, w.PublishersHash = a.hash, a.part.GetPublishersHash()
	w.ValuesAt, w.PublishersAt = uint32(len(a.values)), uint32(len(a.publishers))
}
