package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"conclave"
)

// Publisher is a registration as operators are shown it.
type Publisher struct {
	conclave.Publisher
	Client   string         `json:"client,omitempty"`   // name; "" for a tombstone without an owner
	ClientID string         `json:"clientId,omitempty"` // as in /v1/clients
	Address  string         `json:"address,omitempty"`  // from which the client is or was connected
	Slot     int            `json:"slot"`
	More     int            `json:"moreValues,omitempty"` // that are not listed
	Stored   conclave.Epoch `json:"stored,omitzero"`      // the leader epoch at which data accepted it
}

// Slots returns the number of slots that have been used.
func (r *Registry) Slots() int { return len(r.slots) }

// Filter selects what is listed.
type Filter struct {
	DataID string // the dataId, or the whole name as text; "": any
	Match  string // is in the name, in the name or the address of the client, or in a value
}

// names reports whether a name is the one that is asked for.
func (f Filter) names(key string) bool {
	return f.DataID == "" || key == f.DataID || strings.HasPrefix(key, f.DataID) && nameOf(key).DataID == f.DataID
}

func (f Filter) matches(text string) bool { return strings.Contains(text, f.Match) }

// client reports whether it matches a client, which may be nil.
func (f Filter) client(o *Owner) bool {
	return o != nil && (f.matches(o.Name) || f.matches(o.Address))
}

// PublisherKey names a registration: by its DataInfoID as text, and its id.
type PublisherKey struct{ Data, ID string }

// PublisherKeys returns the keys of the registrations in a slot that a filter selects, in
// no order.
func (r *Registry) PublisherKeys(slot int, f Filter) (keys []PublisherKey) {
	for _, reg := range r.of(slot).held.regs {
		if f.names(reg.key) && (f.matches(reg.key) || f.client(reg.owner) || slices.ContainsFunc(reg.values, f.matches)) {
			keys = append(keys, PublisherKey{reg.key, reg.id})
		}
	}
	return keys
}

// Publishers returns the registrations with these ids that there are.
func (r *Registry) Publishers(ids []string) []Publisher {
	out := make([]Publisher, 0, len(ids))
	for _, id := range ids {
		reg := r.byID[id]
		if reg == nil {
			continue
		}
		p := Publisher{
			Publisher: conclave.Publisher{ID: reg.id, Data: nameOf(reg.key), Version: reg.version, Values: reg.values, Withdrawn: reg.withdrawn},
			Slot:      reg.slot.number, Stored: reg.stored,
		}
		if o := reg.owner; o != nil {
			p.Client, p.ClientID, p.Address = o.Name, o.Client, o.Address
		}
		out = append(out, p)
	}
	return out
}

// Subscriber is a subscription as operators are shown it.
type Subscriber struct {
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

	Connection uint64   `json:"connection"`       // of the client, by the order in which they came
	Pushes     []Pushed `json:"pushes,omitempty"` // the last ones of this session under the name, the oldest first
}

// SubscriberKey names a subscription.
type SubscriberKey struct{ s *subscription }

// Text returns the key as text, which is unique and sorts by dataId and id.
func (k SubscriberKey) Text() string {
	return fmt.Sprintf("%s\x00%s\x00%020d", k.s.topic.key, k.s.id, k.s.to.Number) // which never change
}

// SubscriberKeys returns the keys of the subscriptions in a slot that a filter selects, in
// no order.
func (r *Registry) SubscriberKeys(slot int, f Filter) (keys []SubscriberKey) {
	for _, tp := range r.of(slot).topics {
		if !f.names(tp.key) {
			continue
		}
		for named, i := f.matches(tp.key), 0; i < len(tp.subs); i++ {
			if s := tp.subs[i]; named || f.client(s.to) {
				keys = append(keys, SubscriberKey{s})
			}
		}
	}
	return keys
}

// Subscribers returns the subscriptions with these keys that have not ended, on demand with
// pushes.
func (r *Registry) Subscribers(keys []SubscriberKey, pushes bool, now time.Time) []Subscriber {
	out := make([]Subscriber, 0, len(keys))
	for _, k := range keys {
		s := k.s
		if s.to.subs[s.id] != s {
			continue
		}
		tp := s.topic
		v := Subscriber{
			DataInfoID: tp.data, ID: s.id, Client: s.to.Name, ClientID: s.to.Client, Address: s.to.Address, Version: s.version, Values: s.count,
			Connection: s.to.Number,
		}
		if pushes {
			v.Pushes = slices.Clone(tp.pushes)
		}
		if !s.held.IsZero() {
			n := tp.held.count()
			v.Held, v.HeldMs, v.Offered = true, now.Sub(s.held).Milliseconds(), &n
		}
		out = append(out, v)
	}
	return out
}

// Figures returns the present numbers.
func (r *Registry) Figures() Figures { return r.figures }
