package registry

import (
	"maps"
	"slices"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/wire"
)

// Registry is what one session holds for its clients. It is not safe for
// concurrent use: its caller's lock guards it, and everything that it returns a
// pointer to.
type Registry struct {
	grace time.Duration // how long tombstones are remembered after data has stored them
	trace trace.Sink    // receives each fact at the moment at which it becomes true

	slots []*slotState // by number; may be more than the table has, see of
	size  int          // the number of slots in the table; 0 before the first

	byID map[string]*registration
	live int // registrations that are not tombstones

	tombstones []tombstone // those that are stored and some that were replaced, in the order in which they may be forgotten

	topics map[string]*topic // by DataInfoID: those with a subscriber

	peakIDs, peakTopics int // the most that byID and topics had; see giveBack

	limits   Limits
	accounts map[string]*account // by host

	guard   guard
	window  time.Duration // how long after a read the changes of a topic are merged
	stopped bool          // the switch stop-push: nothing is pushed
	figures Figures
}

// tombstone is a withdrawn registration that may be forgotten after a time.
type tombstone struct {
	reg    *registration
	forget time.Time
}

// Figures are the registry's numbers.
type Figures struct {
	Subscriptions int    //
	Held          int    // pushes that the guard is holding back
	Pushes        uint64 // since the start
	HeldTotal     uint64 // pushes that the guard has held back since the start
	TooLarge      int    // topics whose list is too large to be sent
}

// New returns an empty registry that has no slot table yet. grace is the
// session grace, window the push window until Configure sets another one.
// Facts are claimed to t while the caller's lock is held.
func New(grace, window time.Duration, t trace.Sink) *Registry {
	return &Registry{
		grace: grace, trace: t, byID: map[string]*registration{}, topics: map[string]*topic{}, accounts: map[string]*account{},
		guard: guard{on: true, grace: grace}, window: window,
	}
}

// Limit sets what clients may hold from now on.
func (r *Registry) Limit(l Limits) { r.limits = l }

// Resize sets the number of slots. It is called with the first table, and with
// that of a cluster that was created again with another number of slots: then
// every registration is assigned to its new slot and queued, and every topic is
// to be read. The epochs stay.
func (r *Registry) Resize(n int, now time.Time) {
	if n == r.size {
		return
	}
	r.size = n
	r.of(n - 1)
	for _, s := range r.slots {
		s.clear()
	}
	r.tombstones = nil // none is stored now
	for _, id := range sortedKeys(r.byID) {
		reg := r.byID[id]
		reg.setStored(conclave.Epoch{})
		r.slotOf(reg.key).hold(reg)
		reg.slot.enqueue(putOf(reg, reg.slot.classOf(reg, nil)))
	}
	for _, key := range sortedKeys(r.topics) {
		tp := r.topics[key]
		tp.slot, tp.due, tp.answer = r.slotOf(key), false, nil
		tp.slot.topics[key] = tp
		tp.read(now)
		for _, s := range tp.subs {
			tp.slot.pushed = max(tp.slot.pushed, s.version)
		}
	}
}

// HasTable reports whether the number of slots is known.
func (r *Registry) HasTable() bool { return r.size > 0 }

// errNoTable refuses what belongs into a slot before the first table.
func errNoTable() error {
	return wire.Errorf(wire.CodeUnavailable, "this session has no slot table yet")
}

// slotOf returns the slot of a key. There is a table.
func (r *Registry) slotOf(key string) *slotState { return r.slots[slot.Of(key, r.size)] }

// of returns a slot, which is made on first use: a data node may ask for a diff
// before this session has a table.
func (r *Registry) of(n int) *slotState {
	for len(r.slots) <= n {
		s := &slotState{number: len(r.slots)}
		s.clear()
		r.slots = append(r.slots, s)
	}
	return r.slots[n]
}

// held returns the registration that a slot holds under an id, or nil.
func (r *Registry) held(s *slotState, id string) *registration {
	if reg := r.byID[id]; reg != nil && reg.slot == s {
		return reg
	}
	return nil
}

// numbersOf returns the numbers of the slots that fit, in order.
func (r *Registry) numbersOf(fits func(*slotState) bool) (out []int) {
	for _, s := range r.slots {
		if fits(s) {
			out = append(out, s.number)
		}
	}
	return out
}

// giveBack makes maps small again after most of what was in them has gone, for
// example with thousands of clients: a map keeps the memory of the most entries that
// it had.
func (r *Registry) giveBack() {
	r.byID, r.peakIDs = smaller(r.byID, r.peakIDs)
	r.topics, r.peakTopics = smaller(r.topics, r.peakTopics)
	r.closeAccounts()
	for _, s := range r.slots {
		s.pending, s.peak = smaller(s.pending, s.peak)
		if n := cap(s.held.regs); n >= 1024 && len(s.held.regs) < n/8 {
			s.held.regs = slices.Clone(s.held.regs)
		}
	}
}

// smaller returns m, or a copy of it if its peak is many times what it has, and the
// peak of the result. To copy costs less than it took to remove the others.
func smaller[V any](m map[string]V, peak int) (map[string]V, int) {
	const least, share = 1024, 8
	if peak = max(peak, len(m)); peak < least || len(m) > peak/share {
		return m, peak
	}
	out := make(map[string]V, len(m))
	maps.Copy(out, m)
	return out, len(m)
}

// sortedKeys returns the keys of a map in order: what other nodes can observe
// must not depend on map order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// enlist gives a connection the account of its address, on first use.
func (r *Registry) enlist(o *Owner) {
	if o.account != nil {
		return
	}
	a := r.accounts[o.Host]
	if a == nil {
		a = &account{}
		r.accounts[o.Host] = a
	}
	a.open++
	o.account = a
	o.charge(o.Takes)
}

// closeAccounts removes the accounts of addresses that hold nothing here.
func (r *Registry) closeAccounts() {
	for host, a := range r.accounts {
		if a.bytes == 0 && a.open == 0 {
			delete(r.accounts, host)
		}
	}
}

// mayRegister returns why owner may not have reg in the place of old, which may be
// nil, or nil. A withdrawal of what is held always may; an update of it may grow to
// twice the bytes, or an older version would stay visible.
func (r *Registry) mayRegister(owner *Owner, old, reg *registration) error {
	own := old != nil && old.owner == owner
	bytes, times := growth{reg.memory(), reg.memory()}, 1
	if own {
		bytes.owner -= old.memory()
	}
	if old != nil && old.owner != nil && old.owner.account == owner.account {
		bytes.address -= old.memory()
	}
	switch {
	case reg.withdrawn && old != nil:
		return nil
	case reg.withdrawn, old != nil && !old.withdrawn:
		times = 2
	}
	switch limit := r.limits.Registrations; {
	case limit == 0:
	case !reg.withdrawn && (!own || old.withdrawn) && owner.live >= limit:
		return tooMany(owner.live, "registrations of this client", limit)
	case !own && len(owner.regs.regs) >= 2*limit:
		return tooMany(len(owner.regs.regs), "registrations and withdrawals of this client", 2*limit)
	}
	return r.mayTake(owner, bytes, times)
}

// growth is how many bytes more a connection and its address would hold.
type growth struct{ owner, address int }

// mayTake returns why owner may not hold more bytes, or nil.
func (r *Registry) mayTake(owner *Owner, more growth, times int) error {
	if limit := times * r.limits.Bytes; more.owner > 0 && limit > 0 && owner.bytes+more.owner > limit {
		return tooMany(owner.bytes, "bytes of what this client holds", limit)
	}
	if limit := times * r.limits.AddressBytes; more.address > 0 && limit > 0 && owner.account.bytes+more.address > limit {
		return tooMany(owner.account.bytes, "bytes of what the clients from this address hold", limit)
	}
	return nil
}

// maySubscribe returns why a connection may not have a subscription of some bytes, in
// the place of old, which may be nil, or nil.
func (r *Registry) maySubscribe(to *Owner, old *subscription, bytes int) error {
	r.enlist(to)
	if old != nil {
		return r.mayTake(to, growth{bytes - old.bytes, bytes - old.bytes}, 2)
	}
	if limit := r.limits.Subscriptions; limit > 0 && len(to.subs) >= limit {
		return tooMany(len(to.subs), "subscriptions of this client", limit)
	}
	return r.mayTake(to, growth{bytes, bytes}, 1)
}

func tooMany(have int, of string, limit int) error {
	return wire.Errorf(wire.CodeLimitReached, "there are %d %s: the limit is %d", have, of, limit)
}
