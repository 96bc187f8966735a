package session

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// registry is the source of truth for the registrations of this session's
// clients (article 002: sessions keep what clients publish; data is a derived
// copy), together with the changes that data has not acknowledged yet.
//
// A registration is one id at one version, live or a tombstone. A higher
// version replaces a lower one; an equal version is the same registration and
// is acknowledged again. A change waits in its slot's queue until the slot's
// leader has accepted it at the slot's present epoch; see writer.go.
type registry struct {
	grace time.Duration // how long tombstones are remembered
	trace trace.Sink    // events are reported with the lock held

	mu    sync.Mutex // guards the rest
	slots []slotSet
	byID  map[string]*registration
	owned map[*connection]map[string]*registration
	live  int // number of registrations that are not tombstones
}

// registration is what the session holds under one id.
type registration struct {
	pub    conclave.Publisher
	key    string // pub.Data as one string
	slot   int
	owner  *connection    // is removed with it; nil for tombstones of a removed connection
	stored conclave.Epoch // the leader epoch at which data accepted this version; zero: not yet
	forget time.Time      // of a tombstone
}

// slotSet holds the registrations and the queue of one slot.
type slotSet struct {
	held    map[string]*registration
	digest  uint64             // sum of the entry hashes of held
	covered conclave.Epoch     // a diff at this epoch carried everything in held
	pending map[string]*change // the newest change of each id that data has not acknowledged
	order   []*change          // the same changes, oldest first; settled ones are skipped
}

// change is what a Write carries for one id: a version to put, or a removal
// because its owner is gone.
type change struct {
	id      string
	key     string
	version int64
	put     *wirev1.Publisher // nil: a removal
	cause   wirev1.Cause      // of a removal
	size    int
	refused int  // how often data refused a Write of this change alone
	settled bool // accepted, or replaced by a newer change
}

// ack is an acknowledgement for a client: its registration was accepted, or
// stored, at this version.
type ack struct {
	id      string
	version int64
	to      *connection
}

func newRegistry(grace time.Duration) *registry {
	return &registry{grace: grace, byID: map[string]*registration{}, owned: map[*connection]map[string]*registration{}}
}

// resize sets the number of slots, and reports whether it has changed. It is
// called with the first table, and with that of a cluster that was created
// again with another number of slots: then every registration is assigned to
// its new slot and queued.
func (r *registry) resize(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n == len(r.slots) {
		return false
	}
	r.slots = make([]slotSet, n)
	for i := range r.slots {
		r.slots[i] = slotSet{held: map[string]*registration{}, pending: map[string]*change{}}
	}
	for _, id := range sortedKeys(r.byID) {
		reg := r.byID[id]
		reg.slot, reg.stored = slot.Of(reg.key, n), conclave.Epoch{}
		r.hold(reg)
		r.enqueue(reg.slot, putOf(reg))
	}
	return true
}

// hasTable reports whether the number of slots is known.
func (r *registry) hasTable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.slots) > 0
}

// put registers, updates or withdraws a registration for a client. It returns
// an error if the registration is refused; otherwise it is accepted, and stored
// reports whether data has acknowledged that version already.
func (r *registry) put(owner *connection, p conclave.Publisher) (stored bool, err error) {
	key := p.Data.String()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.slots) == 0 {
		return false, wire.Errorf(wire.CodeUnavailable, "this session has no slot table yet")
	}
	old := r.byID[p.ID]
	switch {
	case old == nil:
	case old.key != key:
		return false, wire.Errorf(wire.CodeConflict, "registration %s is for %s, not for %s: an id names one dataId", p.ID, old.pub.Data.DataID, p.Data.DataID)
	case p.Version < old.pub.Version:
		return false, wire.Errorf(wire.CodeConflict, "registration %s is at version %d, which is above %d", p.ID, old.pub.Version, p.Version)
	case p.Version == old.pub.Version:
		now := time.Now()
		wasHeldBack := !r.mayPublish(old, now)
		r.setOwner(old, ownerAfter(old.owner, owner))
		if wasHeldBack && r.mayPublish(old, now) { // data may have dropped its copy
			old.stored = conclave.Epoch{}
			r.enqueue(old.slot, putOf(old))
		}
		return !old.stored.IsZero(), nil
	}
	reg := &registration{pub: p, key: key, slot: slot.Of(key, len(r.slots))}
	if p.Withdrawn {
		reg.forget = time.Now().Add(r.grace)
	}
	if old != nil {
		owner = ownerAfter(old.owner, owner)
	}
	r.replace(old, reg)
	r.setOwner(reg, owner)
	r.trace.Claim(trace.Claim{Kind: trace.Accepted, Slot: reg.slot, Subject: p.ID, Key: key, Version: p.Version, Flag: p.Withdrawn})
	return false, nil
}

// ownerAfter returns the owner of a registration that belongs to owner and is
// sent again by sender: the last sender, except that of two connections of the
// same client the later one stays the owner. Messages of the earlier one that
// were still buffered when it broke must not take the registration back,
// because its lease would then end what the client holds through its new
// connection.
func ownerAfter(owner, sender *connection) *connection {
	if owner != nil && owner.client == sender.client && owner.number > sender.number && !owner.ended.Load() {
		return owner
	}
	return sender
}

// replace puts reg in the place of old, which may be nil, and queues it for
// data.
func (r *registry) replace(old, reg *registration) {
	if old != nil {
		r.drop(old)
	}
	r.byID[reg.pub.ID] = reg
	if !reg.pub.Withdrawn {
		r.live++
	}
	r.hold(reg)
	r.enqueue(reg.slot, putOf(reg))
}

func (r *registry) hold(reg *registration) {
	s := &r.slots[reg.slot]
	s.held[reg.pub.ID] = reg
	s.digest += wire.EntryHash(reg.pub.ID, reg.pub.Version)
}

func (r *registry) drop(reg *registration) {
	s := &r.slots[reg.slot]
	delete(s.held, reg.pub.ID)
	s.digest -= wire.EntryHash(reg.pub.ID, reg.pub.Version)
	delete(r.byID, reg.pub.ID)
	if !reg.pub.Withdrawn {
		r.live--
	}
	r.setOwner(reg, nil)
}

// setOwner makes a connection the owner of a registration, or no connection if
// owner is nil.
func (r *registry) setOwner(reg *registration, owner *connection) {
	if reg.owner == owner {
		return
	}
	if of := r.owned[reg.owner]; of != nil {
		delete(of, reg.pub.ID)
		if len(of) == 0 {
			delete(r.owned, reg.owner)
		}
	}
	reg.owner = owner
	if owner == nil {
		return
	}
	if r.owned[owner] == nil {
		r.owned[owner] = map[string]*registration{}
	}
	r.owned[owner][reg.pub.ID] = reg
}

// enqueue queues a change and discards an older one of the same id.
func (r *registry) enqueue(slot int, c *change) {
	s := &r.slots[slot]
	if older := s.pending[c.id]; older != nil {
		older.settled = true
	}
	s.pending[c.id] = c
	s.order = append(s.order, c)
}

func putOf(reg *registration) *change {
	out := &wirev1.Publisher{Id: reg.pub.ID, DataInfoId: reg.key, Version: reg.pub.Version, Values: reg.pub.Values, Withdrawn: reg.pub.Withdrawn}
	return &change{id: reg.pub.ID, key: reg.key, version: reg.pub.Version, put: out, size: sizeOf(out)}
}

func removalOf(reg *registration, cause wirev1.Cause) *change {
	id := reg.pub.ID
	return &change{id: id, key: reg.key, version: reg.pub.Version, cause: cause, size: 16 + len(id) + len(reg.key)}
}

// sizeOf estimates the size of a registration on the wire in bytes.
func sizeOf(p *wirev1.Publisher) int {
	n := 16 + len(p.Id) + len(p.DataInfoId)
	for _, v := range p.Values {
		n += 4 + len(v)
	}
	return n
}

// disown removes the live registrations of a connection, with the given cause,
// and returns how many there were. Its tombstones stay, without an owner, until
// they are forgotten.
func (r *registry) disown(owner *connection, cause wirev1.Cause) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	removed := 0
	for _, id := range sortedKeys(r.owned[owner]) {
		reg := r.byID[id]
		if reg.pub.Withdrawn {
			r.setOwner(reg, nil)
			continue
		}
		r.drop(reg)
		r.enqueue(reg.slot, removalOf(reg, cause))
		r.trace.Claim(trace.Claim{Kind: trace.Dropped, Slot: reg.slot, Subject: id, Key: reg.key, Version: reg.pub.Version})
		removed++
	}
	return removed
}

// withdraw turns all registrations of a connection into tombstones, after its
// client said good-bye, and returns how many there were. Removing this
// session's copies would not be enough: an older copy at a session that the
// client has left recently would become visible again.
func (r *registry) withdraw(owner *connection) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	withdrawn := 0
	for _, id := range sortedKeys(r.owned[owner]) {
		old := r.byID[id]
		if old.pub.Withdrawn || old.pub.Version == conclave.MaxVersion {
			continue
		}
		p := conclave.Publisher{ID: id, Data: old.pub.Data, Version: old.pub.Version + 1, Withdrawn: true}
		reg := &registration{pub: p, key: old.key, slot: old.slot, forget: time.Now().Add(r.grace)}
		r.replace(old, reg)
		r.setOwner(reg, owner)
		r.trace.Claim(trace.Claim{Kind: trace.Accepted, Slot: reg.slot, Subject: id, Key: reg.key, Version: p.Version, Flag: true})
		withdrawn++
	}
	return withdrawn
}

// hasUnstored reports whether a registration of a connection is not stored yet.
func (r *registry) hasUnstored(owner *connection) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, reg := range r.owned[owner] {
		if reg.stored.IsZero() {
			return true
		}
	}
	return false
}

// forgetTombstones drops the tombstones that are stored and old enough.
func (r *registry) forgetTombstones(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, reg := range r.byID {
		if reg.pub.Withdrawn && !reg.stored.IsZero() && now.After(reg.forget) {
			r.drop(reg)
		}
	}
}

// counts returns the number of all live registrations, and of those of the
// given owners.
func (r *registry) counts(owners ...*connection) (all, theirs int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range owners {
		for _, reg := range r.owned[o] {
			if !reg.pub.Withdrawn {
				theirs++
			}
		}
	}
	return r.live, theirs
}

// snapshot returns the registrations of a dataId, or all of them, sorted by id.
func (r *registry) snapshot(dataID string) []registration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []registration
	for _, reg := range r.byID {
		if dataID == "" || reg.pub.Data.DataID == dataID {
			out = append(out, *reg)
		}
	}
	slices.SortFunc(out, func(a, b registration) int { return cmp.Compare(a.pub.ID, b.pub.ID) })
	return out
}

// sortedKeys returns the keys of a map in order: what other nodes can observe
// must not depend on map order.
func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
