package store

import (
	"hash/fnv"

	"conclave"
	"conclave/wire"
)

// ownerSet is the digest of one owner's copies: their number, and the sum of
// their hashes. A sum does not depend on order, so it is updated as copies come
// and go, and a slot is compared with a session by one small message.
type ownerSet struct {
	node  conclave.NodeID
	count uint64
	sum   uint64
}

func (o *ownerSet) add(id string, version int64) {
	o.count++
	o.sum += wire.EntryHash(id, version)
}

func (o *ownerSet) remove(id string, version int64) {
	o.count--
	o.sum -= wire.EntryHash(id, version)
}

// Digest returns what a diff compares first: the number of an owner's copies,
// tombstones included, and the sum of their wire.EntryHash.
func (s *Store) Digest(owner conclave.NodeID) (count, sum uint64) {
	if o := s.owners[owner]; o != nil {
		return o.count, o.sum
	}
	return 0, 0
}

// Checksum returns the sum over all copies of all owners, in no order, and their
// number: two stores with the same copies have the same.
func (s *Store) Checksum() (sum uint64, entries int) {
	for owner, o := range s.owners {
		h := fnv.New64a()
		_, _ = h.Write([]byte(owner.String())) // never fails
		sum += o.sum * (h.Sum64() | 1)
		entries += int(o.count)
	}
	return sum, entries
}
