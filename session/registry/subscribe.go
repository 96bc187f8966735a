package registry

import (
	"maps"
	"slices"
	"time"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Subscribe adds a subscription, which may come with what its client has from
// another session, in the place of an older one of the same id. It returns an
// error if it is refused, and otherwise what is to be pushed at once. Its version
// is a claim, which the slot's leader bounds (refuse).
func (r *Registry) Subscribe(to *Owner, in *wirev1.Subscription, now time.Time) ([]Push, error) {
	data, err := conclave.ParseDataInfoID(in.GetDataInfoId())
	if err != nil {
		return nil, wire.Errorf(wire.CodeBadRequest, "%v", err)
	}
	id, version := in.GetId(), in.GetVersion()
	if id == "" || len(id) > 128 {
		return nil, wire.Errorf(wire.CodeBadRequest, "subscription id %.20q: want 1 to 128 bytes", id)
	}
	if version < 0 || version > conclave.MaxVersion {
		return nil, wire.Errorf(wire.CodeBadRequest, "subscription %s has version %d: want 0 to 2^53-1, start again from 0", id, version)
	}
	if !r.HasTable() {
		return nil, errNoTable()
	}
	old, bytes := to.subs[id], subscriptionBytes+len(id)+len(in.GetDataInfoId())+4*len(in.GetPublishers())
	if err := r.maySubscribe(to, old, bytes); err != nil {
		return nil, err // what it had goes on
	}
	var pushes []Push
	if old != nil {
		r.Unsubscribe(to, id)
		pushes = append(pushes, Push{To: to, ID: id, again: true})
	}
	to.charge(bytes)
	tp := r.topic(data, now)
	s := &subscription{id: id, to: to, bytes: bytes, own: 4 * len(in.GetPublishers()), topic: tp, at: len(tp.subs), version: version, hash: in.GetHash(), count: int(in.GetCount()), publishers: in.GetPublishers(), limit: wire.FromMs(in.GetHoldMs())}
	tp.subs = append(tp.subs, s)
	tp.slot.pushed = max(tp.slot.pushed, version) // some session has pushed it
	r.figures.Subscriptions++
	if to.subs == nil {
		to.subs = map[string]*subscription{}
	}
	to.subs[id] = s
	// What this session holds for other subscribers may be pushed at once. What
	// this client has may be newer: the next read settles that.
	if tp.held != nil {
		pushes = r.offer(pushes, s, now)
	}
	if tp.large > 0 {
		pushes = r.withhold(pushes, s, tp.large)
	}
	r.end(pushes)
	return pushes, nil
}

// topic returns the topic of a DataInfoID. A new one is to be read now.
func (r *Registry) topic(data conclave.DataInfoID, now time.Time) *topic {
	key := data.String()
	tp := r.topics[key]
	if tp == nil {
		tp = &topic{data: data, key: key, slot: r.slotOf(key)}
		r.topics[key], tp.slot.topics[key] = tp, tp
		tp.read(now)
	}
	return tp
}

// Unsubscribe ends a subscription, if there is one of that id. The topic is
// removed with its last one.
func (r *Registry) Unsubscribe(owner *Owner, id string) {
	s := owner.subs[id]
	if s == nil {
		return
	}
	delete(owner.subs, id)
	owner.charge(-s.bytes)
	r.hold(s, time.Time{})
	tp := s.topic
	last := len(tp.subs) - 1
	tp.subs[s.at] = tp.subs[last]
	tp.subs[s.at].at = s.at
	tp.subs[last] = nil
	tp.subs = tp.subs[:last]
	r.figures.Subscriptions--
	if last == 0 {
		r.tooLarge(nil, tp, 0)
		delete(r.topics, tp.key)
		delete(tp.slot.topics, tp.key)
		tp.due = false
	}
}

// Subscribed returns the ids of the subscriptions of a connection, in no order.
func (r *Registry) Subscribed(owner *Owner) []string {
	return slices.Collect(maps.Keys(owner.subs))
}

// Configure applies the switches: the push window, stop-push and the push
// guard. It reports whether what was held back or stopped is to be read again.
func (r *Registry) Configure(window time.Duration, stopped, guarded bool, now time.Time) (again bool) {
	again = r.stopped && !stopped || r.guard.on && !guarded
	r.window, r.stopped, r.guard.on = window, stopped, guarded
	if again {
		for _, k := range sortedKeys(r.topics) {
			r.topics[k].read(now)
		}
	}
	return again
}
