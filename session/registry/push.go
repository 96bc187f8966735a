package registry

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/wire"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// Push is a list that is to be sent to a subscriber, or the end of a subscription. The
// pushes to one subscription must be given to its Outbox in their order.
type Push struct {
	To *Owner
	ID string // of the subscription
	unsent
	refusal  *wirev1.Refusal // instead of a list
	withheld bool            // the refusal is of this list only: the subscription continues
	again    bool            // instead of a list: the subscription was asked for again, and what waits for it is dropped
	topic    *topic          // counts what is given to its subscribers
}

// List returns the list of a push that is no refusal, its name and version, and for how
// much longer it is marked.
func (p Push) List() (data conclave.DataInfoID, version int64, l *list.List, unconfirmed time.Duration) {
	return nameOf(p.datum.message.GetDataInfoId()), p.datum.version(), p.datum.List, p.unconfirmed
}

// Refusal returns why there is no list, or nil.
func (p Push) Refusal() error {
	if p.refusal == nil {
		return nil
	}
	return wire.Errorf(wire.Code(p.refusal.GetCode()), "%s", p.refusal.GetMessage())
}

// Continues reports whether the subscription has not ended with the refusal.
func (p Push) Continues() bool { return p.withheld }

// unsent is a list on its way to a subscriber.
type unsent struct {
	datum       *datum
	unconfirmed time.Duration // how much longer it is marked
	base        *datum        // what the subscriber has, if a delta to that may be sent
	parts       bool          // without a delta, the list is sent in parts

	// What the outbox makes of it.
	delta   *wirev1.Delta // from base; nil: the whole list
	encoded bool          // the message of the datum is encoded already
}

// Fetched takes a slot leader's answer to reads, and returns what is to be
// pushed to the subscribers that may have it. counted is false if a newer epoch
// was adopted meanwhile.
func (r *Registry) Fetched(reads Reads, answers []*wirev1.Fetched, now time.Time) (pushes []Push, counted bool) {
	if _, counted = r.current(reads.Slot, reads.Epoch); !counted {
		return nil, false
	}
	for _, f := range answers {
		tp := r.topics[f.GetDatum().GetDataInfoId()]
		if tp == nil {
			continue // it has no subscribers left
		}
		received, tooLarge := r.receive(tp, f, reads.Epoch, now)
		if tooLarge > 0 {
			pushes = r.tooLarge(pushes, tp, tooLarge)
		}
		if !received {
			continue
		}
		version, count := f.GetDatum().GetVersion(), len(f.GetDatum().GetValues())
		if f.GetPart() != nil {
			version, count = tp.held.version(), tp.held.count()
		}
		r.trace.Claim(trace.Claim{Kind: trace.Counted, Slot: reads.Slot, Epoch: reads.Epoch, Subject: tp.key, Version: version, Count: count, Flag: f.GetSame()})
		r.tooLarge(nil, tp, 0)
		pushes = r.refuse(pushes, tp)
		for _, s := range tp.subs {
			pushes = r.offer(pushes, s, now)
		}
	}
	r.end(pushes)
	return pushes, true
}

// Carried takes what the feed of a slot carries of changed data: answers to reads that
// were not made. It returns what is to be pushed, and whether a topic is to be read.
//
// An answer counts if its topic holds an older version of the same leadership, no read
// of it is due or in progress, and its window has ended; otherwise the topic is read. So the
// answers that count come in the order of the versions, whatever overtakes what, and a read
// that asks for more than the content is not answered by one that does not.
func (r *Registry) Carried(slot int, epoch conclave.Epoch, answers []*wirev1.Fetched, now time.Time) (pushes []Push, due bool) {
	for _, f := range answers {
		key := f.GetDatum().GetDataInfoId()
		tp := r.topics[key]
		switch {
		case tp == nil || tp.slot.number != slot:
		case tp.held != nil && tp.epoch == epoch && f.GetDatum().GetVersion() <= tp.held.version():
		case tp.held == nil || tp.epoch != epoch || tp.due || tp.reading || tp.lastRead.Add(r.window+tp.pace()).After(now):
			due = r.Changed([]string{key}) || due
		default:
			tp.lastRead = now
			more, _ := r.Fetched(Reads{Slot: slot, Epoch: epoch}, []*wirev1.Fetched{f}, now)
			pushes, due = append(pushes, more...), due || tp.due
		}
	}
	return pushes, due
}

// end ends the subscriptions that the pushes refuse.
func (r *Registry) end(pushes []Push) {
	for _, p := range pushes {
		if p.refusal != nil && !p.withheld {
			r.Unsubscribe(p.To, p.ID)
		}
	}
}

// refuse ends the subscriptions to a topic that claim versions which this cluster
// cannot have pushed: with the read of what is held now, the slot's leader was asked
// to rise above them and did not (store.Store.Serve). The client subscribes again, from
// nothing.
func (r *Registry) refuse(pushes []Push, tp *topic) []Push {
	d, asked := tp.held, tp.asked
	if len(asked) == 0 {
		return pushes
	}
	tp.raise, tp.asked = 0, nil // offer sets it again for those that were added since
	for _, s := range asked {
		if s.to.subs[s.id] != s || s.version < d.version() || s.has(d) {
			continue
		}
		r.Unsubscribe(s.to, s.id)
		pushes = append(pushes, Push{To: s.to, ID: s.id, refusal: &wirev1.Refusal{
			Id: s.id, Code: string(wire.CodeBadRequest),
			Message: fmt.Sprintf("version %d is above what this cluster can have pushed: start again from 0", s.version),
		}})
	}
	return pushes
}

// hold records since when the guard holds a push to s back; zero: it does not.
func (r *Registry) hold(s *subscription, since time.Time) {
	if !s.held.IsZero() {
		r.figures.Held--
	}
	if s.held = since; !since.IsZero() {
		r.figures.Held++
	}
}

// offer adds what is held of a topic to the pushes, for one subscriber, unless
// the subscriber has that content, must not have it yet, or has a version that
// is not lower.
func (r *Registry) offer(pushes []Push, s *subscription, now time.Time) []Push {
	tp := s.topic
	d := tp.held
	if r.stopped {
		return pushes
	}
	if s.has(d) {
		r.hold(s, time.Time{})
		s.sure = max(s.sure, d.version())
		s.share(d)
		if s.version == d.version() {
			s.received(d)
		}
		return pushes // equal content is not pushed again
	}
	if d.version() <= s.version {
		// The subscriber has a version that this leader has not reached, or has
		// reached with other content. A read request that names the version
		// makes the leader rise above it.
		tp.raise = max(tp.raise, s.version)
		tp.read(now.Add(max(r.window, 10*time.Millisecond)))
		return pushes
	}
	if bytes := d.Bytes(); bytes > wire.MaxMessage && !s.to.Parts {
		return r.withhold(pushes, s, uint64(bytes))
	}
	if reread, hold := r.guard.hold(tp.mark, s, d, now); hold {
		if s.held.IsZero() {
			r.hold(s, now)
			r.figures.HeldTotal++
			r.trace.Claim(trace.Claim{Kind: trace.Held, Slot: tp.slot.number, Subject: tp.key, Key: s.id, Version: d.version(), Count: d.count()})
		}
		tp.read(reread)
		return pushes
	}
	r.guard.pushed(tp.mark, s, d.count(), now)
	r.hold(s, time.Time{})
	s.withheld = false
	s.version, s.hash, s.count = d.version(), d.Hash(), d.count()
	s.share(d)
	tp.slot.pushed = max(tp.slot.pushed, s.version)
	tp.pushed(d, now)
	r.figures.Pushes++
	r.trace.Claim(trace.Claim{Kind: trace.Pushed, Slot: tp.slot.number, Subject: tp.key, Key: s.id, Version: d.version(), Count: d.count()})
	return append(pushes, Push{To: s.to, ID: s.id, topic: tp, unsent: unsent{
		datum: d, base: s.received(d), parts: s.to.Parts && d.Bytes() > list.PartsFrom,
		unconfirmed: max(0, tp.mark.until.Sub(now)), // as the leader reports it, whatever this subscriber had
	}})
}

// tooLarge records how many bytes a topic's list has that is too large to be sent, 0
// if it is sent, and reports it to the subscribers that do not know yet.
func (r *Registry) tooLarge(pushes []Push, tp *topic, bytes uint64) []Push {
	if tp == nil || bytes == 0 && tp.large == 0 {
		return pushes
	}
	switch {
	case tp.large == 0:
		r.figures.TooLarge++
	case bytes == 0:
		r.figures.TooLarge--
	}
	if tp.large = bytes; bytes == 0 {
		return pushes
	}
	tp.answer = nil
	for _, s := range tp.subs {
		pushes = r.withhold(pushes, s, bytes)
	}
	return pushes
}

// withhold reports to a subscriber that the list of now is too large to be sent to it.
// A client of a build that does not know this is refused, and ends the subscription.
func (r *Registry) withhold(pushes []Push, s *subscription, bytes uint64) []Push {
	if s.withheld {
		return pushes
	}
	s.withheld = true
	most := r.limits.maxList()
	if !s.to.Parts {
		most = wire.MaxMessage
	}
	return append(pushes, Push{To: s.to, ID: s.id, withheld: s.to.Parts, refusal: &wirev1.Refusal{
		Id: s.id, Code: string(wire.CodeTooLarge),
		Message: fmt.Sprintf("the list has %d bytes, at most %d can be sent", bytes, most),
	}})
}

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

// Stopped reports whether nothing is pushed.
func (r *Registry) Stopped() bool { return r.stopped }
