package registry

import (
	"slices"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Put registers, updates or withdraws a registration for a client. It returns
// an error if the registration is refused; otherwise it is accepted, and stored
// reports whether data has acknowledged that version already. A higher version
// replaces a lower one; an equal one is the same, and is acknowledged again. The
// message has passed wire.CheckPublisher.
func (r *Registry) Put(sender *Owner, p *wirev1.Publisher, now time.Time) (stored bool, err error) {
	if !r.HasTable() {
		return false, errNoTable()
	}
	r.enlist(sender)
	old, owner := r.byID[p.GetId()], sender
	if old != nil {
		owner = old.owner.after(sender)
	}
	switch {
	case old == nil:
	case old.owner != nil && old.owner.Identity != sender.Identity:
		// It is not refused for good: what a client registered before the name of its
		// token was changed is removed with the connection that it had then.
		return false, wire.Errorf(wire.CodeUnauthorized, "registration %s belongs to another identity", p.GetId())
	case old.key != p.GetDataInfoId():
		return false, wire.Errorf(wire.CodeConflict, "registration %s is for %s, not for %s: an id names one dataId", p.GetId(), nameOf(old.key).DataID, nameOf(p.GetDataInfoId()).DataID)
	case p.GetVersion() < old.version:
		return false, wire.Errorf(wire.CodeConflict, "registration %s is at version %d, which is above %d", p.GetId(), old.version, p.GetVersion())
	case p.GetVersion() == old.version:
		wasHeldBack := !r.mayPublish(old, now)
		old.setOwner(owner)
		if wasHeldBack && r.mayPublish(old, now) { // data may have dropped its copy
			old.setStored(conclave.Epoch{})
			old.slot.enqueue(putOf(old, repeated))
		}
		return !old.stored.IsZero(), nil
	}
	reg := &registration{id: p.GetId(), key: p.GetDataInfoId(), version: p.GetVersion(), values: p.GetValues(), withdrawn: p.GetWithdrawn()}
	if err := r.mayRegister(owner, old, reg); err != nil {
		return false, err
	}
	r.replace(old, reg, owner)
	return false, nil
}

// Find returns the registration with an id as it would be sent, its owner, which may be
// nil, and whether data has it. p is nil if there is none.
func (r *Registry) Find(id string) (p *wirev1.Publisher, owner *Owner, stored bool) {
	reg := r.byID[id]
	if reg == nil {
		return nil, nil, false
	}
	return reg.message(), reg.owner, !reg.stored.IsZero()
}

// Rewrite queues a registration again. It is not stored then before data has answered for
// it once more.
func (r *Registry) Rewrite(id string) {
	if reg := r.byID[id]; reg != nil && reg.slot.pending[id] == nil {
		reg.setStored(conclave.Epoch{})
		reg.slot.enqueue(putOf(reg, repeated))
	}
}

// replace puts reg in the place of old, which may be nil, and queues it.
func (r *Registry) replace(old, reg *registration, owner *Owner) {
	if old != nil {
		r.drop(old)
	}
	if !reg.withdrawn {
		r.live++
	}
	r.byID[reg.id] = reg
	r.slotOf(reg.key).hold(reg)
	reg.slot.enqueue(putOf(reg, reg.slot.classOf(reg, old)))
	reg.setOwner(owner)
	r.trace.Claim(trace.Claim{Kind: trace.Accepted, Slot: reg.slot.number, Subject: reg.id, Key: reg.key, Version: reg.version, Flag: reg.withdrawn})
}

func (r *Registry) drop(reg *registration) {
	reg.slot.release(reg)
	delete(r.byID, reg.id)
	if !reg.withdrawn {
		r.live--
	}
	reg.setOwner(nil)
}

// mayPublish reports whether a registration may be sent to data. Tombstones
// always may, also those that are forgotten here: they restore nothing.
func (r *Registry) mayPublish(reg *registration, now time.Time) bool {
	return reg.withdrawn || reg.owner.fresh(now, r.grace)
}

// Holdings are the registrations that a connection owned at a moment. They are
// removed or withdrawn in parts, since there may be hundreds of thousands, and
// everything else waits for the lock meanwhile.
type Holdings struct {
	owner *Owner
	left  []*registration
}

// Holdings returns what a connection owns.
func (r *Registry) Holdings(owner *Owner) *Holdings {
	return &Holdings{owner, slices.Clone(owner.regs.regs)}
}

// next removes and returns at most the given number of registrations that still
// belong to the connection, sorted by id.
func (h *Holdings) next(most int) []*registration {
	n := min(most, len(h.left))
	part := set{regs: h.left[:n]}
	h.left = h.left[n:]
	return slices.DeleteFunc(part.sorted(), func(reg *registration) bool { return reg.owner != h.owner })
}

// Disown removes at most the given number of the live registrations in h, with the
// given cause. It returns how many it has removed, and whether there are more. The
// tombstones stay, without an owner, until they are forgotten.
func (r *Registry) Disown(h *Holdings, cause wirev1.Cause, most int) (removed int, more bool) {
	for _, reg := range h.next(most) {
		if reg.withdrawn {
			reg.setOwner(nil)
			continue
		}
		r.drop(reg)
		reg.slot.enqueue(removalOf(reg, cause))
		r.trace.Claim(trace.Claim{Kind: trace.Dropped, Slot: reg.slot.number, Subject: reg.id, Key: reg.key, Version: reg.version})
		removed++
	}
	return removed, len(h.left) > 0
}

// Messages returns the next live registrations in h, at most the given number and about
// that many bytes but at least one, as they are sent, and whether there are more.
func (r *Registry) Messages(h *Holdings, most, bytes int) (out []*wirev1.Publisher, more bool) {
	for ; most > 0 && bytes > 0 && len(h.left) > 0; most-- {
		for _, reg := range h.next(1) {
			if !reg.withdrawn {
				out = append(out, reg.message())
				bytes -= reg.size()
			}
		}
	}
	return out, len(h.left) > 0
}

// Withdraw turns at most the given number of registrations in h into tombstones,
// after their client said good-bye, or at the end of its linger. It returns how many it
// has withdrawn, and whether there are more. Removing this session's copies would not be
// enough: an older copy at a session that the client has left recently would become
// visible again, at once or on a data node that has lost all copies.
func (r *Registry) Withdraw(h *Holdings, most int) (withdrawn int, more bool) {
	for _, old := range h.next(most) {
		if old.withdrawn || old.version == conclave.MaxVersion {
			continue
		}
		r.replace(old, &registration{id: old.id, key: old.key, version: old.version + 1, withdrawn: true}, h.owner)
		withdrawn++
	}
	return withdrawn, len(h.left) > 0
}

// Release ends what a connection has here after it has ended: its subscriptions
// and, unless it leaves live registrations, the ownership of its tombstones. It
// returns how many registrations it leaves.
func (r *Registry) Release(owner *Owner) (left int) {
	for _, id := range sortedKeys(owner.subs) {
		r.Unsubscribe(owner, id)
	}
	if owner.live == 0 {
		for n := len(owner.regs.regs); n > 0; n-- {
			owner.regs.regs[n-1].setOwner(nil)
		}
	}
	return owner.live
}

// HasUnstored reports whether a registration of a connection is not stored yet.
func (r *Registry) HasUnstored(owner *Owner) bool { return owner.unstored > 0 }

// ForgetTombstones drops the tombstones that data has had for the session grace. One
// that it gets late is kept for as long as any other: the leader that has stored it may
// be lost before another copy of the slot has it, while that still has an older version.
func (r *Registry) ForgetTombstones(now time.Time) {
	old := 0
	for ; old < len(r.tombstones) && now.After(r.tombstones[old].forget); old++ {
		if reg := r.tombstones[old].reg; r.byID[reg.id] == reg { // not replaced, nor dropped with its connection
			r.drop(reg)
		}
	}
	if old > 0 {
		r.tombstones = slices.Clone(r.tombstones[old:])
	}
	r.giveBack()
}

// Live returns the number of registrations that are not tombstones.
func (r *Registry) Live() int { return r.live }

// LiveOf returns how many of them a connection owns.
func (r *Registry) LiveOf(owner *Owner) int { return owner.live }
