package store

import (
	"conclave"
	"conclave/wire/list"
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
	o.sum += list.EntryHash(id, version)
}

func (o *ownerSet) remove(id string, version int64) {
	o.count--
	o.sum -= list.EntryHash(id, version)
}
