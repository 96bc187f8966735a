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

// registry is the truth about the registrations of this session's clients
// (article 002: sessions keep what clients publish; data is an index of it),
// together with what of it data is not yet known to have.
//
// A registration is one id at one version: live, or a tombstone. The higher
// version replaces, the equal one is the same and is acknowledged again. What
// changed waits in its slot's queue until the slot's leader has accepted it at
// the slot's present epoch; see writer.go.
type registry struct {
	grace time.Duration // tombstones are remembered for it
	trace trace.Sink    // claims are made with the lock held

	mu    sync.Mutex // guards the rest
	slots []slotSet
	byID  map[string]*registration
	owned map[*connection]map[string]*registration
	live  int // registrations that are no tombstones
}

// registration is what the session holds under one id.
type registration struct {
	pub    conclave.Publisher
	key    string // pub.Data as one string
	slot   int
	owner  *connection    // whose going takes it away; nil for the tombstones it left
	stored conclave.Epoch // the leader epoch at which data accepted this version; zero: not yet
	forget time.Time      // of a tombstone
}

// slotSet is the registry's part in one slot.
type slotSet struct {
	held    map[string]*registration
	digest  uint64             // sum of the entry hashes of held
	covered conclave.Epoch     // a diff at this epoch carried all that was held
	pending map[string]*change // the newest change of each id that data is not known to have
	order   []*change          // the same, oldest first; settled ones are skipped
}

// change is what a Write tells data about one id: a version to put, or the
// owner's going.
type change struct {
	id      string
	key     string
	version int64
	put     *wirev1.Publisher // nil: a removal
	cause   wirev1.Cause      // of a removal
	size    int
	refused int  // how often data refused a Write of nothing else
	settled bool // accepted, or overtaken by a newer change
}

// ack tells a client how far its registration has come.
type ack struct {
	id      string
	version int64
	to      *connection
}

func newRegistry(grace time.Duration) *registry {
	return &registry{grace: grace, byID: map[string]*registration{}, owned: map[*connection]map[string]*registration{}}
}

// resize tells how many slots there are, at the first table; a cluster made
// anew with another count deals everything anew. It says whether that is so.
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

// sized says that there was a table.
func (r *registry) sized() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.slots) > 0
}

// put takes what a client registers, updates or withdraws, and says what it is
// to be told: refused as an error, or accepted, and stored already when data is
// known to have that version.
func (r *registry) put(owner *connection, p conclave.Publisher) (stored bool, err error) {
	key := p.Data.String()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.slots) == 0 {
		return false, wire.Errorf(wire.CodeUnavailable, "this session holds no slot table yet")
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
		back := !r.offers(old, now)
		r.give(old, heir(old.owner, owner))
		if back && r.offers(old, now) { // was held back: data may not have it any more
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
		owner = heir(old.owner, owner)
	}
	r.replace(old, reg)
	r.give(reg, owner)
	r.trace.Claim(trace.Claim{Kind: trace.Accepted, Slot: reg.slot, Subject: p.ID, Key: key, Version: p.Version, Flag: p.Withdrawn})
	return false, nil
}

// heir is who owns what one connection owns and another one shows: the last one
// to show it, but of two of the same client the one that came later. What the
// earlier one still had in its buffers when it broke takes nothing back, or its
// lease would end what the client holds by its new connection.
func heir(owner, shows *connection) *connection {
	if owner != nil && owner.client == shows.client && owner.number > shows.number && !owner.over.Load() {
		return owner
	}
	return shows
}

// replace puts reg where old, which may be nil, was, and queues it for data.
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
	r.give(reg, nil)
}

// give makes a connection the owner: the last one that showed the registration.
func (r *registry) give(reg *registration, owner *connection) {
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

// enqueue queues a change in the place of an older one of the same id.
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

// sizeOf is about the bytes that a registration takes on the wire.
func sizeOf(p *wirev1.Publisher) int {
	n := 16 + len(p.Id) + len(p.DataInfoId)
	for _, v := range p.Values {
		n += 4 + len(v)
	}
	return n
}

// disown takes away what a connection leaves: its live registrations go, with
// the cause; tombstones stay until they are forgotten. It says how many went.
func (r *registry) disown(owner *connection, cause wirev1.Cause) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	went := 0
	for _, id := range sortedKeys(r.owned[owner]) {
		reg := r.byID[id]
		if reg.pub.Withdrawn {
			r.give(reg, nil)
			continue
		}
		r.drop(reg)
		r.enqueue(reg.slot, removalOf(reg, cause))
		r.trace.Claim(trace.Claim{Kind: trace.Dropped, Slot: reg.slot, Subject: id, Key: reg.key, Version: reg.pub.Version})
		went++
	}
	return went
}

// withdraw turns all that a connection has into tombstones: its client said
// good-bye. A removal of this session's own copies would not do, since an older
// copy at a session that the client left lately would become visible again.
func (r *registry) withdraw(owner *connection) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	went := 0
	for _, id := range sortedKeys(r.owned[owner]) {
		old := r.byID[id]
		if old.pub.Withdrawn || old.pub.Version == conclave.MaxVersion {
			continue
		}
		p := conclave.Publisher{ID: id, Data: old.pub.Data, Version: old.pub.Version + 1, Withdrawn: true}
		reg := &registration{pub: p, key: old.key, slot: old.slot, forget: time.Now().Add(r.grace)}
		r.replace(old, reg)
		r.give(reg, owner)
		r.trace.Claim(trace.Claim{Kind: trace.Accepted, Slot: reg.slot, Subject: id, Key: reg.key, Version: p.Version, Flag: true})
		went++
	}
	return went
}

// waits says whether data lacks something that a connection registered.
func (r *registry) waits(owner *connection) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, reg := range r.owned[owner] {
		if reg.stored.IsZero() {
			return true
		}
	}
	return false
}

// forgetTombstones drops those whose time is over and that data has.
func (r *registry) forgetTombstones(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, reg := range r.byID {
		if reg.pub.Withdrawn && !reg.stored.IsZero() && now.After(reg.forget) {
			r.drop(reg)
		}
	}
}

// counts says how many live registrations there are, and how many of them an
// owner has.
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

// snapshot lists what is held under a dataId, or all of it, sorted by id.
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

// sortedKeys makes what others can observe independent of map order.
func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
