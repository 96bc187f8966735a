package registry

import (
	"cmp"
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
	Stored   conclave.Epoch `json:"stored,omitzero"` // the leader epoch at which data accepted it
}

// Publishers returns the registrations of a dataId, or all of them if it is "",
// sorted by id.
func (r *Registry) Publishers(dataID string) []Publisher {
	out := []Publisher{}
	for _, reg := range r.byID {
		if !strings.HasPrefix(reg.key, dataID) {
			continue
		}
		data := reg.data()
		if dataID != "" && data.DataID != dataID {
			continue
		}
		p := Publisher{
			Publisher: conclave.Publisher{ID: reg.id, Data: data, Version: reg.version, Values: reg.values, Withdrawn: reg.withdrawn},
			Slot:      reg.slot.number, Stored: reg.stored,
		}
		if o := reg.owner; o != nil {
			p.Client, p.ClientID, p.Address = o.Name, o.Client, o.Address
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Publisher) int { return cmp.Compare(a.ID, b.ID) })
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

// Subscribers returns the subscriptions to a dataId, or all of them if it is "",
// sorted.
func (r *Registry) Subscribers(dataID string, now time.Time) []Subscriber {
	out := []Subscriber{}
	for _, tp := range r.topics {
		if dataID != "" && tp.data.DataID != dataID {
			continue
		}
		for _, s := range tp.subs {
			v := Subscriber{
				DataInfoID: tp.data, ID: s.id, Client: s.to.Name, ClientID: s.to.Client, Address: s.to.Address, Version: s.version, Values: s.count,
			}
			if !s.held.IsZero() {
				n := tp.held.count()
				v.Held, v.HeldMs, v.Offered = true, now.Sub(s.held).Milliseconds(), &n
			}
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b Subscriber) int {
		return cmp.Or(cmp.Compare(a.DataInfoID.String(), b.DataInfoID.String()), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// Figures returns the present numbers.
func (r *Registry) Figures() Figures { return r.figures }
