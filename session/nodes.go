package session

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/internal/signal"
	"conclave/session/registry"
	"conclave/wire"
)

// nodes holds the data nodes that this session is connected to: every one on
// the member list, and every one that leads a slot.
type nodes struct {
	mu        sync.Mutex // guards byAddress
	byAddress map[string]*dataNode

	changed  signal.Signal // the set of addresses may have changed
	rerouted atomic.Uint64 // counts the changes of routes; each one ends all pauses
}

// dataNode is one data node, identified by its address, whatever incarnation
// answers there.
type dataNode struct {
	address string
	writes  signal.Signal // a change may be queued for it
	reads   signal.Signal // a topic may be due for reading
	open    chan struct{} // closed when the first message of its feed has arrived
	cancel  context.CancelFunc
	silent  time.Time // since when its feed cannot be opened; zero: it is open; guarded by nodes.mu
}

func newNodes() *nodes {
	return &nodes{byAddress: map[string]*dataNode{}, changed: signal.New()}
}

func (ns *nodes) list() []*dataNode {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	out := make([]*dataNode, 0, len(ns.byAddress))
	for _, a := range slices.Sorted(maps.Keys(ns.byAddress)) {
		out = append(out, ns.byAddress[a])
	}
	return out
}

// set makes these the addresses, and returns the nodes that have gone and the new
// ones.
func (ns *nodes) set(wanted map[string]bool) (ended, begun []*dataNode) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	for _, a := range slices.Sorted(maps.Keys(ns.byAddress)) {
		if !wanted[a] {
			ended = append(ended, ns.byAddress[a])
			delete(ns.byAddress, a)
		}
	}
	for _, a := range slices.Sorted(maps.Keys(wanted)) {
		if ns.byAddress[a] == nil {
			n := &dataNode{address: a, writes: signal.New(), reads: signal.New(), open: make(chan struct{})}
			ns.byAddress[a] = n
			begun = append(begun, n)
		}
	}
	return ended, begun
}

// hear records that a data node's feed is open, or that it has ended or could not be
// opened. Once one node is heard, the silence of the others counts from now if no
// node was heard before: this session was cut off.
func (ns *nodes) hear(n *dataNode, open bool) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	alone := open
	for _, other := range ns.byAddress {
		alone = alone && !other.silent.IsZero()
	}
	for _, other := range ns.byAddress {
		if alone || other == n && n.silent.IsZero() {
			other.silent = time.Now()
		}
	}
	if open {
		n.silent = time.Time{}
	}
}

// unheard returns the addresses of the data nodes whose feeds could not be opened
// for a time, sorted, and whether these are all.
func (ns *nodes) unheard(limit time.Duration) (addresses []string, all bool) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	for _, a := range slices.Sorted(maps.Keys(ns.byAddress)) {
		if n := ns.byAddress[a]; !n.silent.IsZero() && time.Since(n.silent) > limit {
			addresses = append(addresses, a)
		}
	}
	return addresses, len(addresses) == len(ns.byAddress)
}

func (ns *nodes) wakeWriters() {
	for _, n := range ns.list() {
		n.writes.Set()
	}
}

func (ns *nodes) wakeReaders() {
	for _, n := range ns.list() {
		n.reads.Set()
	}
}

// reroute notifies all loops that a slot has another leader or another epoch.
func (ns *nodes) reroute() {
	ns.rerouted.Add(1)
	ns.changed.Set()
	ns.wakeWriters()
	ns.wakeReaders()
}

// waitFeeds waits until the feed of every known data node has delivered a
// message, or until ctx ends.
func (ns *nodes) waitFeeds(ctx context.Context) {
	for _, n := range ns.list() {
		select {
		case <-n.open:
		case <-ctx.Done():
			return
		}
	}
}

// waitSignal waits for a signal or for a time (zero: none), and returns true,
// or for the end of ctx, and returns false.
func waitSignal(ctx context.Context, s signal.Signal, until time.Time) bool {
	var timeout <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-s.C():
	case <-timeout:
	}
	return true
}

// links keeps the loops of every data node: a writer, a reader and a feed, so
// that a slow node delays no other.
type links struct {
	registry *locked
	book     *addressBook
	nodes    *nodes
	rand     func() *rand.Rand // a random source for one loop
	loops    []func(context.Context, *dataNode, *rand.Rand)
}

// run starts and ends the loops of data nodes as they come and go, and joins
// all of them when ctx ends.
func (l *links) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		ended, begun := l.nodes.set(l.wanted())
		for _, n := range ended {
			n.cancel()
		}
		for _, n := range begun {
			own, cancel := context.WithCancel(ctx)
			n.cancel = cancel // called above, or by the end of ctx
			for _, loop := range l.loops {
				random := l.rand()
				running.Go(func() { loop(own, n, random) })
			}
		}
		select {
		case <-ctx.Done():
			for _, n := range l.nodes.list() {
				n.cancel()
			}
			return
		case <-l.nodes.changed.C():
		}
	}
}

// wanted returns the addresses of the data nodes to be connected to: the members
// and all slot leaders.
func (l *links) wanted() map[string]bool {
	wanted := with(l.registry, (*registry.Registry).Leaders)
	for _, a := range l.book.dataNodes() {
		wanted[a] = true
	}
	return wanted
}

// addressBook holds the addresses of nodes: of every member, and of those that
// are off the member list but still lead a slot in the last table. Without the
// latter a session would lose its routes when members are removed while the
// table is frozen.
type addressBook struct {
	mu   sync.Mutex // guards the rest
	of   map[conclave.NodeID]string
	data []string // addresses of the data members
}

func (b *addressBook) update(state wire.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := map[conclave.NodeID]string{}
	for _, sl := range state.Table.Slots {
		if a, ok := b.of[sl.Leader]; ok {
			next[sl.Leader] = a
		}
	}
	b.data = nil
	for _, m := range state.Members.List {
		next[m.Node] = m.Address
		if m.Role == conclave.RoleData {
			b.data = append(b.data, m.Address)
		}
	}
	b.of = next
}

func (b *addressBook) find(n conclave.NodeID) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[n]
}

// dataNodes returns the addresses of the data members.
func (b *addressBook) dataNodes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.data)
}
