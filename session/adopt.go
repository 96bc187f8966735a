package session

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/session/registry"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
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
//
// Each data node has a loop that makes one call at a time, with what the clients
// have named meanwhile: many clients that come at once need few calls.
type adopter struct{ *calls }

// Limits of what is looked up: the digests of one message, and the bytes of the
// values that are read for it from each data node, as many as a message may have
// itself; the time in which a message's digests are looked up; the digests of one
// call; and the time in which a data node is not asked after a call that failed. A
// call's answer is limited by the data node.
const (
	adoptAtMost  = 4096
	adoptBytes   = conclave.MaxRequest
	adoptTimeout = time.Second
	adoptAtOnce  = 2048
	adoptPause   = 2 * time.Second
)

// search is what one message makes a session look for at one data node. Only the
// node's loop changes it until done is closed.
type search struct {
	ctx   context.Context // ends when the values are no longer waited for
	left  []named         // not answered yet, sorted by slot
	room  int             // bytes that may still be found
	found []found
	done  chan struct{}
}

// found is a registration of which the values were found.
type found struct {
	digest *wirev1.PublisherDigest
	values []string
}

// named is a registration of which the values are looked for.
type named struct {
	digest *wirev1.PublisherDigest
	source registry.Source
}

// adopt looks for the values of all digests, gives the registrations that it finds
// to take, some at a time, and returns the others.
func (a *adopter) adopt(ctx context.Context, digests []*wirev1.PublisherDigest, take func([]*wirev1.Publisher)) (wanted []*wirev1.PublisherDigest) {
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
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
	var searches []*search
	for _, address := range addresses {
		s := &search{ctx: ctx, left: slices.Clone(at[address]), room: adoptBytes, done: make(chan struct{})}
		slices.SortStableFunc(s.left, func(x, y named) int { return x.source.Slot - y.source.Slot })
		searches = append(searches, s)
		a.nodes.search(address, s)
	}
	for i, s := range searches {
		has := map[*wirev1.PublisherDigest]bool{}
		select {
		case <-s.done:
			some := make([]*wirev1.Publisher, len(s.found))
			for i, f := range s.found {
				some[i], has[f.digest] = registrationOf(f.digest, f.values), true
			}
			take(some)
		case <-ctx.Done():
		}
		for _, n := range at[addresses[i]] {
			if !has[n.digest] {
				wanted = append(wanted, n.digest)
			}
		}
	}
	return wanted
}

// run asks one data node for what is searched there, one call at a time.
func (a *adopter) run(ctx context.Context, n *dataNode, _ *rand.Rand) {
	var open []*search
	var silent time.Time // until when the node is not asked
	for {
		open = append(open, a.nodes.searches(n)...)
		open = slices.DeleteFunc(open, func(s *search) bool { return s.ctx.Err() != nil })
		if len(open) == 0 {
			if !waitSignal(ctx, n.searching, time.Time{}) {
				return
			}
			continue
		}
		batch := gather(open)
		answered := 0
		if !time.Now().Before(silent) {
			answer, err := a.ask(ctx, n.address, batch)
			if err != nil {
				silent = time.Now().Add(adoptPause)
				a.config.Logger.Debug("values not found, clients send them", "at", n.address, "error", err)
			}
			answered = give(batch, answer)
		}
		open = slices.DeleteFunc(open, func(s *search) bool {
			if answered > 0 && len(s.left) > 0 && s.room > 0 {
				return false
			}
			close(s.done)
			return true
		})
	}
}

// searched is one registration in a call.
type searched struct {
	named
	by *search
}

// gather returns what the next call asks for, sorted by slot: of each search the
// first of those that are left.
func gather(open []*search) (batch []searched) {
	for _, s := range open {
		for _, n := range s.left[:min(len(s.left), adoptAtOnce-len(batch))] {
			batch = append(batch, searched{n, s})
		}
	}
	slices.SortStableFunc(batch, func(x, y searched) int { return x.source.Slot - y.source.Slot })
	return batch
}

// give gives the searches what a data node has found of a batch, if it has the
// hash and is of the right epoch. It returns how many of the first ones the node
// has answered.
func give(batch []searched, answer []*wirev1.FoundSlot) (answered int) {
	for _, slot := range answer {
		values := slot.GetFound()
		for answered < len(batch) && batch[answered].source.Slot == int(slot.GetSlot()) {
			n := batch[answered]
			if slot.GetAccess() == wirev1.Access_ACCESS_ACCEPT && wire.EpochIn(slot.GetLeaderEpoch()) == n.source.Epoch {
				if len(values) == 0 {
					return answered // the rest was cut
				}
				if values[0].GetFound() && wire.DigestFits(n.digest, values[0].GetValues()) {
					n.by.found = append(n.by.found, found{n.digest, values[0].GetValues()})
					n.by.room -= proto.Size(values[0])
				}
				values = values[1:]
			}
			n.by.left = n.by.left[1:]
			answered++
		}
	}
	return answered
}

// ask calls Values at a data node.
func (a *adopter) ask(ctx context.Context, address string, batch []searched) ([]*wirev1.FoundSlot, error) {
	req := &wirev1.ValuesRequest{Session: wire.NodeOut(a.config.Node)}
	for _, n := range batch {
		end := len(req.Slots) - 1
		if end < 0 || req.Slots[end].Slot != uint32(n.source.Slot) {
			req.Slots = append(req.Slots, &wirev1.ValuesSlot{Slot: uint32(n.source.Slot), LeaderEpoch: wire.EpochOut(n.source.Epoch)})
			end++
		}
		req.Slots[end].Digests = append(req.Slots[end].Digests, n.digest)
	}
	limited, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	res, err := a.data(address).Values(limited, connect.NewRequest(req))
	if err != nil {
		return nil, wire.FromConnect(err)
	}
	return res.Msg.GetSlots(), nil
}

// search gives a search to the loop of a data node. One at a node that is not
// known has ended.
func (ns *nodes) search(address string, s *search) {
	ns.mu.Lock()
	n := ns.byAddress[address]
	if n != nil {
		n.searches = append(n.searches, s)
	}
	ns.mu.Unlock()
	if n == nil {
		close(s.done)
		return
	}
	n.searching.Set()
}

// searches removes and returns what was given to search.
func (ns *nodes) searches(n *dataNode) []*search {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	out := n.searches
	n.searches = nil
	return out
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
	named := make([]*wirev1.PublisherDigest, 0, len(digests))
	for _, d := range digests {
		if err := wire.CheckDigest(d); err != nil {
			refused = append(refused, refusal(d.GetId(), err))
			continue
		}
		named = append(named, d)
	}
	var wanted []registry.Ack
	if conn.mayPublish() == nil {
		named = c.adopter.adopt(ctx, named, func(found []*wirev1.Publisher) {
			for _, p := range c.register(ctx, conn, found, maxFound) {
				wanted = append(wanted, registry.Ack{ID: p.GetId(), Version: p.GetVersion()})
			}
		})
	}
	for _, d := range named {
		wanted = append(wanted, registry.Ack{ID: d.GetId(), Version: d.GetVersion()})
	}
	c.refusals.Add(float64(len(refused)))
	conn.out.add(func(o *registry.Outbox) {
		o.Want(wanted)
		o.Answer(nil, nil, refused)
	})
}
