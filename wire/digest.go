package wire

import "encoding/binary"

// FNV-1a, 64 bits: hash/fnv without its interface, so that hashing allocates
// nothing.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// ContentHash names the content of a datum: its values in their order, each
// with its length before it, so that ["ab"] and ["a", "b"] differ. It is never
// zero, which means "none" on the wire. Sessions and data nodes compare it to
// avoid sending and pushing what the other side holds already.
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

// EntryHash is what one registration at one version adds to the digest of its
// owner's set in a slot: DiffRequest.Digest is the sum (modulo 2^64) of the
// EntryHash of every entry, tombstones included, and DiffRequest.Count their
// number. A sum needs no order, so both sides keep it as their sets change.
// Content takes no part: equal versions mean equal content.
func EntryHash(id string, version int64) uint64 {
	h := fnvUint(fnvString(fnvOffset, id), uint64(version))
	// FNV's high bits hardly move for inputs that differ at their end; a sum
	// wants every bit to count (the finalizer of splitmix64).
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
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
