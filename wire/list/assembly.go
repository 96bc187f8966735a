package list

import (
	"cmp"
	"fmt"

	wirev1 "conclave/wire/v1"
)

// Message is what a list travels in: the answer to a read, or a push.
type Message interface {
	GetDatum() *wirev1.Datum // with the values and publishers of the list, or of a part of it
	GetHash() uint64         // ContentHash of the whole list; 0 if the sender does not name it
	GetDelta() *wirev1.Delta // in place of them
	GetPart() *wirev1.Part   // which part it is; nil: the whole list
}

// TooLarge is the error of a list that has more bytes than its receiver takes.
type TooLarge struct{ Bytes uint64 }

func (e *TooLarge) Error() string { return fmt.Sprintf("a list of %d bytes", e.Bytes) }

// Assembly makes lists of messages. It never holds more than Limit bytes of a list of
// which parts have come, whatever they say. Its zero value holds nothing.
type Assembly struct {
	Limit int // 0: MaxBytes

	list   List
	hash   uint64 // of the whole list
	part   *wirev1.Part
	sum    uint64 // ContentHash of what has come
	bytes  int    // of that
	failed bool   // a part did not fit: those after it are ignored
}

// Add takes the next message. It returns the list if it is complete, and nil if more
// parts are to come. The changes in a delta are made to base, which is nil if the
// receiver has no list. A message that does not belong to the parts before it begins
// again. An error means that the list is TooLarge, or that the message does not fit or
// does not make the list of its hashes: then nothing is held, the parts that follow
// are ignored, and the list must be asked for again.
func (a *Assembly) Add(m Message, base *List) (whole *List, err error) {
	part, limit := m.GetPart(), uint64(cmp.Or(a.Limit, MaxBytes))
	if part.GetValuesAt() == 0 && part.GetPublishersAt() == 0 {
		*a = Assembly{Limit: a.Limit, hash: m.GetHash(), part: part, sum: fnvOffset}
	}
	bytes := part.GetBytes()
	switch delta := m.GetDelta(); {
	case a.failed:
		return nil, nil
	case bytes > limit:
	case part != nil:
		whole, err = a.add(m)
	case delta == nil:
		whole = New(m.GetDatum().GetValues(), m.GetDatum().GetPublishers(), m.GetHash())
	case base == nil || base.Hash() != delta.GetBaseHash():
		err = fmt.Errorf("changes of the list with the hash %x, which is not here", delta.GetBaseHash())
	default:
		whole, err = base.Apply(delta, m.GetHash())
	}
	if whole != nil {
		bytes = uint64(whole.Bytes())
	}
	if err == nil && bytes > limit {
		whole, err = nil, &TooLarge{bytes}
	}
	if err != nil || whole != nil {
		*a = Assembly{Limit: a.Limit, failed: err != nil}
	}
	return whole, err
}

// add adds a part, and returns the list if it is the last one.
func (a *Assembly) add(m Message) (*List, error) {
	p, values, publishers := m.GetPart(), m.GetDatum().GetValues(), m.GetDatum().GetPublishers()
	switch {
	case a.part == nil:
		return nil, fmt.Errorf("a part from value %d on, without the parts before", p.GetValuesAt())
	case m.GetHash() != a.hash || p.GetPublishersHash() != a.part.GetPublishersHash() || p.GetValues() != a.part.GetValues() || p.GetPublishers() != a.part.GetPublishers():
		return nil, fmt.Errorf("a part of another list, from value %d on", p.GetValuesAt())
	case int(p.GetValuesAt()) != len(a.list.Values) || int(p.GetPublishersAt()) != len(a.list.Publishers):
		return nil, fmt.Errorf("a part from value %d on, after %d", p.GetValuesAt(), len(a.list.Values))
	case len(values)+len(publishers) == 0:
		return nil, fmt.Errorf("an empty part, from value %d on", p.GetValuesAt())
	case len(values) > int(p.GetValues())-len(a.list.Values) || len(publishers) > int(p.GetPublishers())-len(a.list.Publishers):
		return nil, fmt.Errorf("a part of %d values from %d on, of %d", len(values), p.GetValuesAt(), p.GetValues())
	}
	more := List{Values: values, Publishers: publishers}
	if a.bytes += more.Bytes(); a.bytes > cmp.Or(a.Limit, MaxBytes) {
		return nil, &TooLarge{uint64(a.bytes)}
	}
	a.list.Values, a.list.Publishers = append(a.list.Values, values...), append(a.list.Publishers, publishers...)
	for _, v := range values {
		a.sum = fnvString(fnvUint(a.sum, uint64(len(v))), v)
	}
	if len(a.list.Values) < int(p.GetValues()) || len(a.list.Publishers) < int(p.GetPublishers()) {
		return nil, nil
	}
	if sum := max(a.sum, 1); sum != a.hash { // see ContentHash
		return nil, fmt.Errorf("the list has the hash %x, not %x", sum, a.hash)
	}
	if got := a.list.PublishersHash(); got != p.GetPublishersHash() {
		return nil, fmt.Errorf("its publishers have the hash %x, not %x", got, p.GetPublishersHash())
	}
	return New(a.list.Values, a.list.Publishers, a.hash), nil
}

// Continue makes a request ask for the part that comes next.
func (a *Assembly) Continue(w *wirev1.Want) {
	w.PartHash, w.PublishersHash = a.hash, a.part.GetPublishersHash()
	w.ValuesAt, w.PublishersAt = uint32(len(a.list.Values)), uint32(len(a.list.Publishers))
}
