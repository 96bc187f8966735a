package list

import (
	"encoding/binary"
	"fmt"

	"conclave"
	wirev1 "conclave/wire/v1"
)

const (
	// PartsFrom is the size from which on a list is sent in parts.
	PartsFrom = conclave.MaxRequest
	// DeltaFrom is the size from which on a list may be sent as a delta. Smaller ones are
	// cheap to send as they are.
	DeltaFrom = 1 << 10
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
// registration that they are of. New makes it, and neither is changed afterwards, unless an
// Assembly with Replaced has made another one of it.
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
	hashes         []uint64 // of the values; nil until a large list's hash, or a delta, needs them, and once a delta has passed them on
}

// New returns the list with this ContentHash; 0 if that is not known.
func New(values []string, publishers []uint32, hash uint64) *List {
	l := unhashed(values, publishers)
	if l.hash = hash; hash == 0 {
		l.hash = l.contentHash()
	}
	return l
}

func unhashed(values []string, publishers []uint32) *List {
	return &List{Values: values, Publishers: publishers, publishersHash: orderHash(publishers), text: textBytes(values)}
}

func textBytes(values []string) (n int) {
	for _, v := range values {
		n += len(v)
	}
	return n
}

// TooLarge is the error of a list that has more bytes than its receiver takes.
type TooLarge struct{ Bytes uint64 }

func (e *TooLarge) Error() string { return fmt.Sprintf("a list of %d bytes", e.Bytes) }

// Hash returns the ContentHash of the list.
func (l *List) Hash() uint64 { return l.hash }

// Size returns the bytes of the list on the wire, about.
func (l *List) Size() int { return 4*len(l.Publishers) + 2*len(l.Values) + l.text }

// Bytes returns what the list takes in memory, about. It is what PartsFrom and
// MaxBytes refer to: the values of a message may be empty, and take two bytes there.
func (l *List) Bytes() int { return bytesOf(len(l.Values), len(l.Publishers), l.text) }

func bytesOf(values, publishers, text int) int {
	return 4*publishers + valueBytes*values + text
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

// FNV-1a with 64 bits, without the interface of hash/fnv, so that hashing does
// not allocate.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// ContentHash returns a hash of the content of a datum: of the hashes of its values
// in their order, so that ["ab"] and ["a", "b"] differ, and so do [""] and []. It is
// never zero, which means "none" on the wire. Sessions and data nodes compare hashes to
// avoid sending and pushing content that the other side already has.
//
// A list that is sent in parts has the hash that nodes and clients of 0.1.0 compute of
// them: of all bytes, each value preceded by its length. To all others a hash is only a
// number that the sender names.
func ContentHash(values []string) uint64 { return New(values, nil, 0).hash }

func (l *List) contentHash() uint64 {
	if l.Bytes() > PartsFrom {
		return max(hashValues(fnvOffset, l.Values), 1)
	}
	hashes := l.hashed()
	if l.Size() < DeltaFrom {
		l.hashes = nil // small lists are many, and have no deltas
	}
	return max(orderHash(hashes), 1)
}

// hashed returns the hashes of the values.
func (l *List) hashed() []uint64 {
	if l.hashes == nil {
		l.hashes = hashesOf(l.Values)
	}
	return l.hashes
}

func hashesOf(values []string) []uint64 {
	out := make([]uint64, len(values))
	for i, v := range values {
		out[i] = fnvString(fnvOffset, v)
	}
	return out
}

// hashValues continues the hash of all bytes with more values.
func hashValues(h uint64, values []string) uint64 {
	for _, v := range values {
		h = fnvString(fnvUint(h, uint64(len(v))), v)
	}
	return h
}

// PublisherHash returns a short hash of a registration's id, so that a list can
// be compared with the publishers that a subscriber has seen. Two ids of a list
// of a thousand have the same hash once in ten thousand lists; then the loss of
// one of them is not noticed.
func PublisherHash(id string) uint32 {
	h := fnvString(fnvOffset, id)
	return uint32(h ^ h>>32)
}

// EntryHash returns what one registration at one version contributes to the
// digest of its owner's set in a slot. DiffRequest.Digest is the sum (modulo
// 2^64) of the EntryHash of every entry, tombstones included, and
// DiffRequest.Count is their number. A sum does not depend on the order, so
// both sides can update it as their sets change. The content is not included:
// equal versions have equal content.
func EntryHash(id string, version int64) uint64 {
	h := fnvUint(fnvString(fnvOffset, id), uint64(version))
	// FNV's high bits hardly depend on the end of the input. In a sum every bit
	// must depend on all of it (finalizer of splitmix64).
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// orderHash returns a hash of numbers in their order.
func orderHash[N uint32 | uint64](numbers []N) uint64 {
	h := uint64(fnvOffset)
	for _, n := range numbers {
		h = (h ^ uint64(n)) * fnvPrime
		h ^= h >> 32
	}
	return h
}

func fnvString(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h
}

func fnvUint(h, n uint64) uint64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}
