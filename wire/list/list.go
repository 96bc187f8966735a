package list

import (
	"conclave"
	wirev1 "conclave/wire/v1"
)

const (
	// PartsFrom is the size from which on a list is sent in parts.
	PartsFrom = conclave.MaxRequest
	// PartBytes is the size of one part for a client, about: other messages for it
	// are sent between two parts.
	PartBytes = 512 << 10
	// MaxBytes is the size of the largest list that is sent, unless a process has
	// another limit.
	MaxBytes = 256 << 20

	// valueBytes is what a value takes in memory besides its content.
	valueBytes = 16
)

// List is the content of a datum: its values, and the PublisherHash of each
// registration that they are of. New makes it, and neither is changed afterwards.
//
// The hashes that are compared are kept with the list and passed on to the lists
// that are made of it, so that a change costs the hash of what it brings, not of all
// the bytes. Deltas to and from a list must be made by one goroutine at a time; all
// else may be called by several.
type List struct {
	Values     []string
	Publishers []uint32

	hash           uint64   // of the content
	publishersHash uint64   // of the publishers in their order
	text           int      // bytes of the values
	hashes         []uint64 // of the values; nil until a delta needs them
}

// New returns the list with this ContentHash; 0 if that is not known.
func New(values []string, publishers []uint32, hash uint64) *List {
	if hash == 0 {
		hash = ContentHash(values)
	}
	return &List{Values: values, Publishers: publishers, hash: hash, publishersHash: orderHash(publishers), text: textBytes(values)}
}

func textBytes(values []string) (n int) {
	for _, v := range values {
		n += len(v)
	}
	return n
}

// Hash returns the ContentHash of the list.
func (l *List) Hash() uint64 { return l.hash }

// Size returns the bytes of the list on the wire, about.
func (l *List) Size() int { return 4*len(l.Publishers) + 2*len(l.Values) + l.text }

// Bytes returns what the list takes in memory, about. It is what PartsFrom and
// MaxBytes refer to: the values of a message may be empty, and take two bytes there.
func (l *List) Bytes() int { return bytesOf(l.Values, l.Publishers, l.text) }

func bytesOf(values []string, publishers []uint32, text int) int {
	return 4*len(publishers) + valueBytes*len(values) + text
}

// Position is a position in a list, between two parts. Values come before publishers.
type Position struct{ Values, Publishers int }

// Part puts the part of the list that begins at a position into the datum of a
// message. It has about limit bytes, and at least one element unless nothing is left.
// next is where the part after it begins, last whether there is none.
func (l *List) Part(into *wirev1.Datum, from Position, limit int) (part *wirev1.Part, next Position, last bool) {
	from = Position{min(from.Values, len(l.Values)), min(from.Publishers, len(l.Publishers))}
	part = &wirev1.Part{
		Values: uint32(len(l.Values)), Publishers: uint32(len(l.Publishers)), Bytes: uint64(l.Bytes()),
		ValuesAt: uint32(from.Values), PublishersAt: uint32(from.Publishers), PublishersHash: l.publishersHash,
	}
	next = from
	size := 0
	for next.Values < len(l.Values) && size < limit {
		size += valueBytes + len(l.Values[next.Values])
		next.Values++
	}
	if size < limit {
		next.Publishers += min(len(l.Publishers)-next.Publishers, (limit-size+3)/4)
	}
	into.Values = l.Values[from.Values:next.Values:next.Values]
	into.Publishers = l.Publishers[from.Publishers:next.Publishers:next.Publishers]
	return part, next, next == Position{len(l.Values), len(l.Publishers)}
}

// Wanted reports whether a request asks for a further part of this list. The same
// values of other publishers are another one.
func (l *List) Wanted(w *wirev1.Want) bool {
	return l.hash == w.GetPartHash() && l.publishersHash == w.GetPublishersHash()
}
