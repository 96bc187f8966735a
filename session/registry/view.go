package registry

import (
	"fmt"
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
	Stored   conclave.Epoch `json:"stored,omitzero"` // the leader epoch at which data accepted it
}

// Slots returns the number of slots that have been used.
func (r *Registry) Slots() int { return len(r.slots) }

// PublisherIDs returns the ids of the registrations of a dataId in a slot, or of all
// of them if it is "", in no order.
func (r *Registry) PublisherIDs(slot int, dataID string) (ids []string) {
	for _, reg := range r.of(slot).held.regs {
		if strings.HasPrefix(reg.key, dataID) && (dataID == "" || nameOf(reg.key).DataID == dataID) {
			ids = append(ids, reg.id)
		}
	}
	return ids
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
}

// SubscriberKey names a subscription.
type SubscriberKey struct{ s *subscription }

// Text returns the key as text, which is unique and sorts by dataId and id.
func (k SubscriberKey) Text() string {
	return fmt.Sprintf("%s\x00%s\x00%020d", k.s.topic.key, k.s.id, k.s.to.Number) // which never change
}

// SubscriberKeys returns the keys of the subscriptions to a dataId in a slot, or of
// all of them if it is "", in no order.
func (r *Registry) SubscriberKeys(slot int, dataID string) (keys []SubscriberKey) {
	for _, tp := range r.of(slot).topics {
		if dataID != "" && tp.data.DataID != dataID {
			continue
		}
		for _, s := range tp.subs {
			keys = append(keys, SubscriberKey{s})
		}
	}
	return keys
}

// Subscribers returns the subscriptions with these keys that have not ended.
func (r *Registry) Subscribers(keys []SubscriberKey, now time.Time) []Subscriber {
	out := make([]Subscriber, 0, len(keys))
	for _, k := range keys {
		s := k.s
		if s.to.subs[s.id] != s {
			continue
		}
		tp := s.topic
		v := Subscriber{
			DataInfoID: tp.data, ID: s.id, Client: s.to.Name, ClientID: s.to.Client, Address: s.to.Address, Version: s.version, Values: s.count,
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
