package session

import (
	"context"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/session/registry"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// adopter finds the values of registrations that clients name by digest, here or
// at the data nodes, so that a client which comes back to a cluster that still has
// its copies need not send them again (docs/adr/0077).
//
//	            these values are in the registry,
//	          +-- or a data node returns them, and --+
//	          |   they have the hash                 v
//	(named) --+                               (found) registered as if the client had sent it
//	          |
//	          +-- all else --> (wanted) the client is asked to send it
type adopter struct {
	node     conclave.NodeID
	registry *locked
	data     func(address string) wirev1connect.DataServiceClient
	places   chan struct{} // one element for each call in progress

	mu     sync.Mutex           // guards silent
	silent map[string]time.Time // data nodes that did not answer, by address: until when they are not asked
}

// Limits of what is looked up: the digests of one message, and the bytes of the
// values that are read for it, as many as a message may have itself; the digests of
// one call, calls at a time, the time of a call, and the time in which a data node
// is not asked after a call that failed. A call's answer is limited by the data
// node.
const (
	adoptAtMost  = 4096
	adoptBytes   = conclave.MaxRequest
	adoptAtOnce  = 1024
	adoptPlaces  = 8
	adoptTimeout = 300 * time.Millisecond
	adoptPause   = 2 * time.Second
)

func newAdopter(node conclave.NodeID, r *locked, data func(string) wirev1connect.DataServiceClient) *adopter {
	return &adopter{node: node, registry: r, data: data, places: make(chan struct{}, adoptPlaces), silent: map[string]time.Time{}}
}

// named is a registration of which the values are being looked for.
type named struct {
	digest *wirev1.PublisherDigest
	source registry.Source
}

// adopt looks for the values of all digests, gives the registrations that it finds
// to take, some at a time, and returns the others. It returns within a few times
// adoptTimeout.
func (a *adopter) adopt(ctx context.Context, digests []*wirev1.PublisherDigest, take func([]*wirev1.Publisher)) (wanted []*wirev1.PublisherDigest) {
	if len(digests) > adoptAtMost {
		digests, wanted = digests[:adoptAtMost], slices.Clone(digests[adoptAtMost:])
	}
	var addresses []string // in the order in which they are needed
	at := map[string][]named{}
	for chunk := range slices.Chunk(digests, putsAtOnce) {
		var here []*wirev1.Publisher
		for i, source := range with(a.registry, func(r *registry.Registry) []registry.Source { return r.Sources(chunk) }) {
			d := chunk[i]
			switch {
			case source.Here && wire.DigestFits(d, source.Values):
				here = append(here, registrationOf(d, source.Values))
			case source.Address == "":
				wanted = append(wanted, d)
			default:
				if at[source.Address] == nil {
					addresses = append(addresses, source.Address)
				}
				at[source.Address] = append(at[source.Address], named{d, source})
			}
		}
		take(here)
	}
	room := adoptBytes
	for _, address := range addresses {
		left := at[address]
		slices.SortStableFunc(left, func(x, y named) int { return x.source.Slot - y.source.Slot })
		for len(left) > 0 {
			answered, unknown := 0, left
			if room > 0 {
				var found []*wirev1.Publisher
				found, answered, unknown = a.ask(ctx, address, left[:min(len(left), adoptAtOnce)])
				for _, p := range found {
					room -= proto.Size(p)
				}
				take(found)
			}
			if answered == 0 {
				answered, unknown = len(left), left
			}
			for _, n := range unknown {
				wanted = append(wanted, n.digest)
			}
			left = left[answered:]
		}
	}
	return wanted
}

// ask asks a data node for the values of registrations, sorted by slot. It returns
// those that the node has found, how many of the first ones it has answered, 0 if
// it does not answer, and those of them that it has not found.
func (a *adopter) ask(ctx context.Context, address string, some []named) (found []*wirev1.Publisher, answered int, unknown []named) {
	for _, slot := range a.call(ctx, address, some) {
		for answered < len(some) && some[answered].source.Slot == int(slot.GetSlot()) {
			n, values := some[answered], slot.GetFound()
			switch {
			case slot.GetAccess() != wirev1.Access_ACCESS_ACCEPT || wire.EpochIn(slot.GetLeaderEpoch()) != n.source.Epoch:
				unknown = append(unknown, n) // of another epoch
			case len(values) == 0: // cut
				return found, answered, unknown
			default:
				if values[0].GetFound() && wire.DigestFits(n.digest, values[0].GetValues()) {
					found = append(found, registrationOf(n.digest, values[0].GetValues()))
				} else {
					unknown = append(unknown, n)
				}
				slot.Found = values[1:]
			}
			answered++
		}
	}
	return found, answered, unknown
}

// call calls Values at a data node, and returns nothing if it does not answer, or
// has not answered recently.
func (a *adopter) call(ctx context.Context, address string, some []named) []*wirev1.FoundSlot {
	req := &wirev1.ValuesRequest{Session: wire.NodeOut(a.node)}
	for _, n := range some {
		end := len(req.Slots) - 1
		if end < 0 || req.Slots[end].Slot != uint32(n.source.Slot) {
			req.Slots = append(req.Slots, &wirev1.ValuesSlot{Slot: uint32(n.source.Slot), LeaderEpoch: wire.EpochOut(n.source.Epoch)})
			end++
		}
		req.Slots[end].Digests = append(req.Slots[end].Digests, n.digest)
	}
	select {
	case a.places <- struct{}{}:
		defer func() { <-a.places }()
	case <-ctx.Done():
		return nil
	}
	if a.isSilent(address, time.Now()) {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	res, err := a.data(address).Values(limited, connect.NewRequest(req))
	if err != nil {
		if ctx.Err() == nil {
			a.noteSilent(address, time.Now())
		}
		return nil
	}
	return res.Msg.GetSlots()
}

func (a *adopter) isSilent(address string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return now.Before(a.silent[address])
}

func (a *adopter) noteSilent(address string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other, until := range a.silent {
		if !now.Before(until) {
			delete(a.silent, other)
		}
	}
	a.silent[address] = now.Add(adoptPause)
}

// registrationOf returns the registration that a digest names.
func registrationOf(d *wirev1.PublisherDigest, values []string) *wirev1.Publisher {
	return &wirev1.Publisher{Id: d.GetId(), DataInfoId: d.GetDataInfoId(), Version: d.GetVersion(), Values: values}
}

// adopt registers what the session finds of the registrations that a client names
// by digest, as if the client had sent it, and asks the client for the rest.
// Without the right to register, nothing is looked up: what the client then sends
// is refused.
func (c *clientService) adopt(ctx context.Context, conn *connection, digests []*wirev1.PublisherDigest) {
	var refused []*wirev1.Refusal
	wanted := make([]*wirev1.PublisherDigest, 0, len(digests))
	for _, d := range digests {
		if err := wire.CheckDigest(d); err != nil {
			refused = append(refused, refusal(d.GetId(), err))
			continue
		}
		wanted = append(wanted, d)
	}
	if conn.authorized {
		wanted = c.adopter.adopt(ctx, wanted, func(found []*wirev1.Publisher) {
			if len(found) > 0 {
				c.register(conn, found)
			}
		})
	}
	acks := make([]registry.Ack, len(wanted))
	for i, d := range wanted {
		acks[i] = registry.Ack{ID: d.GetId(), Version: d.GetVersion()}
	}
	c.refusals.Add(float64(len(refused)))
	conn.out.add(func(o *registry.Outbox) {
		o.Want(acks)
		o.Answer(nil, nil, refused)
	})
}
