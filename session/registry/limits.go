package registry

import "conclave/wire"

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
}

// closeAccounts removes the accounts of addresses that hold nothing here.
func (r *Registry) closeAccounts() {
	for host, a := range r.accounts {
		if a.bytes == 0 && a.open == 0 {
			delete(r.accounts, host)
		}
	}
}

// within calls put if owner may have reg in the place of old, which may be nil, and
// returns why not otherwise.
func (r *Registry) within(owner *Owner, old, reg *registration, put func()) error {
	if err := r.mayRegister(owner, old, reg); err != nil {
		return err
	}
	put()
	return nil
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
