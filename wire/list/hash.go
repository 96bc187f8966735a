package list

import "encoding/binary"

// FNV-1a with 64 bits, without the interface of hash/fnv, so that hashing does
// not allocate.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// ContentHash returns a hash of the content of a datum: its values in their
// order, each preceded by its length, so that ["ab"] and ["a", "b"] differ. It
// is never zero, which means "none" on the wire. Sessions and data nodes
// compare hashes to avoid sending and pushing content that the other side
// already has.
func ContentHash(values []string) uint64 {
	h := uint64(fnvOffset)
	for _, v := range values {
		h = fnvUint(h, uint64(len(v)))
		h = fnvString(h, v)
	}
	if h == 0 {
		return 1
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
