package wire

import (
	"cmp"
	"fmt"

	"conclave"
	wirev1 "conclave/wire/v1"
)

// A list that is larger than a message should be is sent in parts, between data
// nodes and sessions and between sessions and clients (ADR 0093). Like a delta, a
// part is only a way to send: whoever receives it waits for the whole list.
const (
	// PartsFrom is the size from which on a list is sent in parts.
	PartsFrom = conclave.MaxRequest
	// PartBytes is the size of one part for a client, about: other messages for it
	// are sent between two parts.
	PartBytes = 512 << 10
	// MaxList is the size of the largest list that is sent, unless a process has another
	// limit. What puts a list together holds no more than this of it.
	MaxList = 256 << 20
	// MaxMessage is the limit of one message from a peer. It is a multiple of the
	// limit of a request, because a list combines the values of all its publishers;
	// builds that know no parts send and receive lists of up to this size.
	MaxMessage = 16 * conclave.MaxRequest
)

// valueBytes is what a value takes in memory besides its content.
const valueBytes = 16

// Bytes returns what a list takes in memory, about. It is what PartsFrom and MaxList
// refer to: the values of a message may be empty, and take two bytes there.
func (l *List) Bytes() int {
	n := 4*len(l.Publishers) + valueBytes*len(l.Values)
	for _, v := range l.Values {
		n += len(v)
	}
	return n
}

// Position is a position in a list, between two parts. Values come before publishers.
type Position struct{ Values, Publishers int }

// Part returns the part of a list of the given size that begins at a position, and
// the position after it. It has about limit bytes, and at least one element unless
// nothing is left.
func (l *List) Part(from Position, bytes, limit int) (values []string, publishers []uint32, part *wirev1.Part, next Position) {
	next = Position{min(from.Values, len(l.Values)), min(from.Publishers, len(l.Publishers))}
	part = &wirev1.Part{
		Values: uint32(len(l.Values)), Publishers: uint32(len(l.Publishers)), Bytes: uint64(bytes),
		ValuesAt: uint32(next.Values), PublishersAt: uint32(next.Publishers), PublishersHash: l.PublishersHash(),
	}
	begin, size := next, 0
	for next.Values < len(l.Values) && size < limit {
		size += valueBytes + len(l.Values[next.Values])
		next.Values++
	}
	if size < limit {
		next.Publishers += min(len(l.Publishers)-next.Publishers, (limit-size+3)/4)
	}
	return l.Values[begin.Values:next.Values:next.Values], l.Publishers[begin.Publishers:next.Publishers:next.Publishers], part, next
}

// Ends reports whether a position is the end of the list.
func (l *List) Ends(at Position) bool {
	return at.Values >= len(l.Values) && at.Publishers >= len(l.Publishers)
}

// Assembly is a list of which parts have been received. Its zero value has none. It
// never holds more than Limit bytes, whatever its parts say.
type Assembly struct {
	Limit int // 0: MaxList

	list  List
	hash  uint64 // of the whole list
	part  *wirev1.Part
	sum   uint64 // ContentHash of what was received
	bytes int
}

// Hash returns the hash of the list, 0 if there is no part of one.
func (a *Assembly) Hash() uint64 { return a.hash }

// PublishersHash returns that of its publishers.
func (a *Assembly) PublishersHash() uint64 { return a.part.GetPublishersHash() }

// At returns how much of the list has been received.
func (a *Assembly) At() Position { return Position{len(a.list.Values), len(a.list.Publishers)} }

// Add adds the next part of the list with this hash, and returns the list when it is
// complete. A first part begins again. An error means that the part does not fit, or
// that the list is not the one of the hash: then nothing is held any more, and the
// list must be asked for again.
func (a *Assembly) Add(hash uint64, p *wirev1.Part, values []string, publishers []uint32) (whole *List, err error) {
	if p.GetValuesAt() == 0 && p.GetPublishersAt() == 0 {
		*a = Assembly{Limit: a.Limit, hash: hash, part: p, sum: fnvOffset}
	}
	if err = a.add(hash, p, values, publishers); err != nil {
		*a = Assembly{Limit: a.Limit}
		return nil, err
	}
	if len(a.list.Values) < int(p.GetValues()) || len(a.list.Publishers) < int(p.GetPublishers()) {
		return nil, nil
	}
	list, sum := a.list, max(a.sum, 1) // see ContentHash
	if *a = (Assembly{Limit: a.Limit}); sum != hash {
		return nil, fmt.Errorf("the list has the hash %x, not %x", sum, hash)
	}
	if got := list.PublishersHash(); got != p.GetPublishersHash() {
		return nil, fmt.Errorf("its publishers have the hash %x, not %x", got, p.GetPublishersHash())
	}
	return &list, nil
}

func (a *Assembly) add(hash uint64, p *wirev1.Part, values []string, publishers []uint32) error {
	switch {
	case a.part == nil:
		return fmt.Errorf("a part from value %d on, without the parts before", p.GetValuesAt())
	case hash != a.hash || p.GetPublishersHash() != a.part.GetPublishersHash() || p.GetValues() != a.part.GetValues() || p.GetPublishers() != a.part.GetPublishers():
		return fmt.Errorf("a part of another list, from value %d on", p.GetValuesAt())
	case int(p.GetValuesAt()) != len(a.list.Values) || int(p.GetPublishersAt()) != len(a.list.Publishers):
		return fmt.Errorf("a part from value %d on, after %d", p.GetValuesAt(), len(a.list.Values))
	case len(values)+len(publishers) == 0:
		return fmt.Errorf("an empty part, from value %d on", p.GetValuesAt())
	case len(values) > int(p.GetValues())-len(a.list.Values) || len(publishers) > int(p.GetPublishers())-len(a.list.Publishers):
		return fmt.Errorf("a part of %d values from %d on, of %d", len(values), p.GetValuesAt(), p.GetValues())
	}
	more := List{Values: values, Publishers: publishers}
	if a.bytes += more.Bytes(); a.bytes > cmp.Or(a.Limit, MaxList) {
		return fmt.Errorf("a list of more than %d bytes", cmp.Or(a.Limit, MaxList))
	}
	a.list.Values, a.list.Publishers = append(a.list.Values, values...), append(a.list.Publishers, publishers...)
	for _, v := range values {
		a.sum = fnvString(fnvUint(a.sum, uint64(len(v))), v)
	}
	return nil
}
