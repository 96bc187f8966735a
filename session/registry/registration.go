package registry

import (
	"time"

	"conclave"
	wirev1 "conclave/wire/v1"
)

// registration is what the session holds under one id: one version, live or a
// tombstone.
type registration struct {
	pub    conclave.Publisher
	key    string // pub.Data as one string
	slot   *slotState
	owner  *Owner         // is removed with it; nil for tombstones of a removed connection
	stored conclave.Epoch // the leader epoch at which data accepted this version; zero: not yet
	forget time.Time      // of a tombstone
}

// setOwner makes a connection the owner, or no connection if it is nil.
func (reg *registration) setOwner(o *Owner) {
	if reg.owner != nil {
		delete(reg.owner.regs, reg.pub.ID)
	}
	reg.owner = o
	if o == nil {
		return
	}
	if o.regs == nil {
		o.regs = map[string]*registration{}
	}
	o.regs[reg.pub.ID] = reg
}

// change is what a Write carries for one id: a version to put, or a removal
// because its owner is gone.
type change struct {
	id      string
	key     string
	version int64
	put     *wirev1.Publisher // nil: a removal
	cause   wirev1.Cause      // of a removal
	size    int               // estimated bytes on the wire
	refused int               // how often data refused a Write of this change alone
	settled bool              // accepted, or replaced by a newer change
}

func putOf(reg *registration) *change {
	out := &wirev1.Publisher{Id: reg.pub.ID, DataInfoId: reg.key, Version: reg.pub.Version, Values: reg.pub.Values, Withdrawn: reg.pub.Withdrawn}
	return &change{id: reg.pub.ID, key: reg.key, version: reg.pub.Version, put: out, size: 16 + len(out.Id) + len(out.DataInfoId) + sizeOf(out.Values)}
}

func removalOf(reg *registration, cause wirev1.Cause) *change {
	id := reg.pub.ID
	return &change{id: id, key: reg.key, version: reg.pub.Version, cause: cause, size: 16 + len(id) + len(reg.key)}
}

// sizeOf estimates the size of values on the wire in bytes.
func sizeOf(values []string) (n int) {
	for _, v := range values {
		n += 4 + len(v)
	}
	return n
}
