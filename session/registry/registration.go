package registry

import (
	"cmp"
	"slices"

	"conclave"
	wirev1 "conclave/wire/v1"
)

// registration is what the session holds under one id: one version, live or a
// tombstone. There may be a million, so each field counts (memory_test.go). The
// first five never change: another version is another registration.
type registration struct {
	id        string
	key       string // the DataInfoID as text
	version   int64
	values    []string
	withdrawn bool // a tombstone

	at     [2]int32 // its indices in slot.held and owner.regs; see set
	slot   *slotState
	owner  *Owner         // is removed with it; nil for tombstones of a removed connection
	stored conclave.Epoch // the leader epoch at which data accepted this version; zero: not yet
}

// nameOf returns the DataInfoID of a key.
func nameOf(key string) conclave.DataInfoID {
	d, _ := conclave.ParseDataInfoID(key)
	return d
}

// setOwner makes a connection the owner, or no connection if it is nil.
func (reg *registration) setOwner(o *Owner) {
	if reg.owner != nil {
		reg.owner.regs.remove(reg)
		reg.owner.count(reg, -1)
		reg.owner.charge(-reg.memory())
	}
	if reg.owner = o; o != nil {
		o.regs.add(reg)
		o.charge(reg.memory())
		o.count(reg, 1)
	}
}

// setStored records the leader epoch at which data accepted this version, or, if it
// is zero, that it is to be written again.
func (reg *registration) setStored(epoch conclave.Epoch) {
	if reg.owner != nil {
		reg.owner.count(reg, -1)
	}
	if reg.stored = epoch; reg.owner != nil {
		reg.owner.count(reg, 1)
	}
}

// message returns the registration as it is sent.
func (reg *registration) message() *wirev1.Publisher {
	return &wirev1.Publisher{Id: reg.id, DataInfoId: reg.key, Version: reg.version, Values: reg.values, Withdrawn: reg.withdrawn}
}

// size estimates the size of the message in bytes.
func (reg *registration) size() int { return reg.removalSize() + sizeOf(reg.values) }

// What a registration and a subscription take beside their strings, about; see
// TestRegistry_RegistrationTakesFewBytes.
const (
	registrationBytes = 350
	subscriptionBytes = 1000 // the topic included
)

// memory estimates what the registration takes of the heap, in bytes.
func (reg *registration) memory() int {
	n := registrationBytes + len(reg.id) + len(reg.key)
	for _, v := range reg.values {
		n += 16 + len(v)
	}
	return n
}

// removalSize estimates the size of the message that removes the registration in
// bytes.
func (reg *registration) removalSize() int { return 16 + len(reg.id) + len(reg.key) }

// sizeOf estimates the size of values on the wire in bytes.
func sizeOf(values []string) (n int) {
	for _, v := range values {
		n += 4 + len(v)
	}
	return n
}

// change is what a Write carries for one registration: this version to put, or
// its removal because its owner is gone.
type change struct {
	reg     *registration
	removal bool
	class   Class
	settled bool         // accepted, or replaced by a newer change
	cause   wirev1.Cause // of a removal
	refused int32        // how often data refused a Write of this change alone
}

func putOf(reg *registration, c Class) *change { return &change{reg: reg, class: c} }

func removalOf(reg *registration, cause wirev1.Cause) *change {
	return &change{reg: reg, removal: true, class: withdrawn, cause: cause}
}

// size estimates the size of the change on the wire in bytes.
func (c *change) size() int {
	if c.removal {
		return c.reg.removalSize()
	}
	return c.reg.size()
}

// set holds the registrations of an owner or of a slot. Each of them has its
// index in the set, so that a member takes eight bytes, which is a fifth of what
// it takes in a map. Its zero value is an empty set of an owner.
type set struct {
	kind int // which element of registration.at is the index
	regs []*registration
}

const (
	ofOwner = iota // set.kind
	ofSlot
)

func (s *set) add(reg *registration) {
	reg.at[s.kind] = int32(len(s.regs))
	s.regs = append(s.regs, reg)
}

// remove removes a member. The last one takes its place.
func (s *set) remove(reg *registration) {
	end := len(s.regs) - 1
	last := s.regs[end]
	s.regs[reg.at[s.kind]], last.at[s.kind] = last, reg.at[s.kind]
	s.regs[end] = nil
	s.regs = s.regs[:end]
}

// sorted returns the members sorted by id: what other nodes can observe must not
// depend on the order in which members were removed.
func (s *set) sorted() []*registration {
	out := slices.Clone(s.regs)
	slices.SortFunc(out, func(a, b *registration) int { return cmp.Compare(a.id, b.id) })
	return out
}

// Class is a class of changes. The queues are written in the order of the classes
// (ADR 0079).
type Class uint8

// The classes.
const (
	withdrawn Class = iota // and removals
	watched                // of what clients of this session subscribe to, or of what data has in an older version
	fresh                  // other registrations
	repeated               // written again, although data is believed to have them
	classes
)

// Order returns the order of the classes in the n-th Write to a data node. Every
// fourth one begins with another class than the first, each of them in turn, so
// that a class waits for twelve Writes at most, however much there is of others.
func Order(n uint64) (order [classes]Class) {
	var begin Class
	if n%4 == 3 {
		begin = watched + Class(n/4%uint64(classes-1))
	}
	order[0] = begin
	at := 1
	for c := range classes {
		if c != begin {
			order[at] = c
			at++
		}
	}
	return order
}
