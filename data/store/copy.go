package store

import (
	"cmp"
	"time"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Key names one copy: a registration as one owner session holds it.
type Key struct {
	Owner    conclave.NodeID
	Data, ID string // the DataInfoID as text, and the registration id
}

// noOwner is the owner of the tombstones that replace deleted copies.
var noOwner conclave.NodeID

// Copy is a registration as one owner holds it, outside of a store. Values are
// shared with the store and its readers, and must not be changed.
type Copy struct {
	Key
	Version   int64
	Values    []string
	Withdrawn bool // a tombstone
}

// CopyOf returns an owner's copy of a registration that was checked by
// wire.CheckPublisher, or that another data node has sent.
func CopyOf(owner conclave.NodeID, p *wirev1.Publisher) Copy {
	return Copy{Key{owner, p.GetDataInfoId(), p.GetId()}, p.GetVersion(), p.GetValues(), p.GetWithdrawn()}
}

// tombstoneRecord is the arrival of a tombstone, so that Compact can find the
// old ones.
type tombstoneRecord struct {
	Key
	version int64
	at      time.Time
}

func copyOf(data string, r *registration, c ownerCopy) Copy {
	return Copy{Key{c.owner.node, data, r.id}, c.version, c.values, c.withdrawn}
}

func compareCopies(a, b Copy) int { return a.Key.Compare(b.Key) }

// Compare orders keys by data, registration id and owner.
func (k Key) Compare(other Key) int {
	if c := cmp.Compare(k.Data, other.Data); c != 0 { // which decides almost always
		return c
	}
	return cmp.Or(cmp.Compare(k.ID, other.ID), k.Owner.Compare(other.Owner))
}

func copyOut(c Copy) *wirev1.Copy {
	return &wirev1.Copy{
		Publisher: &wirev1.Publisher{Id: c.ID, DataInfoId: c.Data, Version: c.Version, Values: c.Values, Withdrawn: c.Withdrawn},
		Owner:     wire.NodeOut(c.Owner),
	}
}

func copyIn(m *wirev1.Copy) Copy {
	return CopyOf(wire.NodeIn(m.GetOwner()), m.GetPublisher())
}

// size estimates a copy's length in a message.
func (c Copy) size() int {
	n := c.Key.size()
	for _, v := range c.Values {
		n += 4 + len(v)
	}
	return n
}

func (k Key) size() int { return 64 + len(k.ID) + len(k.Data) }
