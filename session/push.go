package session

import (
	"cmp"
	"slices"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// This file pushes what was read of a topic to its subscribers.

// fetched takes one datum of a slot leader's answer, pushes it to the
// subscribers that may have it, and returns the highest version pushed. The
// caller holds the slot's fence, at the epoch of the answer.
func (t *topics) fetched(f *wirev1.Fetched, now time.Time) (top int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tp := t.byKey[f.GetDatum().GetDataInfoId()]
	if tp == nil {
		return 0 // it has no subscribers left
	}
	switch {
	case !f.GetSame():
		d := newDatum(f.GetDatum(), f.GetHash())
		tp.held = d
		if d.message.Version > tp.raise {
			tp.raise = 0
		}
	case tp.held == nil || tp.held.hash != f.GetHash() && f.GetHash() != 0:
		t.read(tp, now) // the answer refers to content that is no longer held
		return 0
	case tp.held.message.Version < f.GetDatum().GetVersion():
		tp.held = newDatum(&wirev1.Datum{DataInfoId: tp.key, Version: f.GetDatum().GetVersion(), Values: tp.held.message.Values, Publishers: tp.held.message.Publishers}, tp.held.hash)
	}
	tp.mark = mark{}
	if ms := f.GetUnconfirmedMs(); ms > 0 {
		tp.mark = mark{below: f.GetUnexplainedVersion(), until: now.Add(wire.FromMs(ms)), incomplete: now.Add(wire.FromMs(f.GetIncompleteMs())), withdrawn: f.GetWithdrawn()}
	}
	return t.offerAll(tp, now)
}

func (t *topics) offerAll(tp *topic, now time.Time) int64 {
	for _, s := range tp.subs {
		t.offer(tp, s, now)
	}
	return tp.top
}

// offer pushes what is held of a topic to a subscriber, unless the subscriber
// has that content, must not have it yet, or has a version that is not lower.
func (t *topics) offer(tp *topic, s *subscription, now time.Time) {
	d := tp.held
	if t.stopped {
		return
	}
	if d.hash == s.hash {
		s.held, s.sure, s.publishers = time.Time{}, max(s.sure, d.message.Version), d.message.Publishers
		return // equal content is not pushed again
	}
	if d.message.Version <= s.version {
		// The subscriber has a version that this leader has not reached, or has
		// reached with other content. A read request that names the version
		// makes the leader rise above it.
		tp.raise = max(tp.raise, s.version)
		t.read(tp, now.Add(max(t.window, 10*time.Millisecond)))
		return
	}
	if reread, hold := t.guard.hold(tp.mark, s, d, now); hold {
		if s.held.IsZero() {
			s.held = now
			t.guard.counted()
			t.trace.Claim(trace.Claim{Kind: trace.Held, Slot: tp.slot, Subject: tp.key, Key: s.id, Version: d.message.Version, Count: d.count()})
		}
		t.read(tp, reread)
		return
	}
	given := d
	if left := t.guard.unconfirmed(tp.mark, s, d, now); left > 0 {
		unconfirmed := *d
		unconfirmed.unconfirmed = left
		given = &unconfirmed
	}
	t.guard.pushed(tp.mark, s, d.count(), now)
	s.held = time.Time{}
	s.version, s.hash, s.count, s.publishers = d.message.Version, d.hash, d.count(), d.message.Publishers
	tp.top = max(tp.top, s.version)
	t.pushes++
	t.trace.Claim(trace.Claim{Kind: trace.Pushed, Slot: tp.slot, Subject: tp.key, Key: s.id, Version: d.message.Version, Count: d.count()})
	s.to.out.push(s.id, given)
}

// configure applies the switches: the push window, stop-push and the push
// guard. What was held back or stopped is read and offered again.
func (t *topics) configure(window time.Duration, stopped, guarded bool, now time.Time) {
	t.mu.Lock()
	again := t.stopped && !stopped || t.guard.on && !guarded
	t.window, t.stopped, t.guard.on = window, stopped, guarded
	if again {
		for _, k := range sortedKeys(t.byKey) {
			t.read(t.byKey[k], now)
		}
	}
	t.mu.Unlock()
	if again {
		t.wake()
	}
}

// subscriberView is one row of /v1/subscribers.
type subscriberView struct {
	conclave.DataInfoID
	ID       string `json:"id"`
	Client   string `json:"client"`   // name
	ClientID string `json:"clientId"` // as in /v1/clients
	Address  string `json:"address"`
	Version  int64  `json:"version"`
	Values   int    `json:"values"`
	Held     bool   `json:"held"` // the push guard is holding a newer list back
	HeldMs   int64  `json:"heldMs,omitempty"`
	Offered  *int   `json:"heldValues,omitempty"` // number of values of that list
}

// snapshot returns the subscribers of a dataId, or all of them, sorted.
func (t *topics) snapshot(dataID string, now time.Time) []subscriberView {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := []subscriberView{}
	for _, tp := range t.byKey {
		if dataID != "" && tp.data.DataID != dataID {
			continue
		}
		for _, s := range tp.subs {
			v := subscriberView{
				DataInfoID: tp.data, ID: s.id, Client: s.to.name, ClientID: s.to.client, Address: s.to.remote, Version: s.version, Values: s.count,
			}
			if !s.held.IsZero() {
				n := tp.held.count()
				v.Held, v.HeldMs, v.Offered = true, now.Sub(s.held).Milliseconds(), &n
			}
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b subscriberView) int {
		return cmp.Or(cmp.Compare(a.DataInfoID.String(), b.DataInfoID.String()), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// figures returns the numbers for the metrics: subscriptions, pushes held back
// now, and pushes since the start.
func (t *topics) figures() (subs, held int, pushes uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tp := range t.byKey {
		for _, s := range tp.subs {
			if !s.held.IsZero() {
				held++
			}
		}
	}
	return t.subs, held, t.pushes
}
