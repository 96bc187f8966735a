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
	"conclave/internal/sleep"
	"conclave/session/registry"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// nodes holds the data nodes that this session is connected to: every one on
// the member list, and every one that leads a slot.
type nodes struct {
	registry *locked
	view     *wire.View
	rand     func() *rand.Rand                              // a random source for one loop
	loops    []func(context.Context, *dataNode, *rand.Rand) // of each: a writer, a reader and a feed, so that a slow node delays no other

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

	// Guarded by nodes.mu; zero: not so.
	silent     time.Time // since when its feed cannot be opened
	unanswered time.Time // since when its host has not even refused a dial
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

// hear records that a data node's feed is open (nil), or why it has ended or could not be
// opened. Once one node is heard, the silence of the others counts from now if no
// node was heard before: this session was cut off.
func (ns *nodes) hear(n *dataNode, err error) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	open := err == nil
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
	switch {
	case open || wire.Refused(err):
		n.unanswered = time.Time{}
	case n.unanswered.IsZero():
		n.unanswered = time.Now()
	}
}

// joined records that a data node, or another incarnation of it, is on the member list.
// What was not answered before does not count.
func (ns *nodes) joined(address string) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if n := ns.byAddress[address]; n != nil {
		for _, since := range []*time.Time{&n.silent, &n.unanswered} {
			if !since.IsZero() {
				*since = time.Now()
			}
		}
	}
}

// answers reports whether the data node at an address has answered within a time. That its
// host refuses dials is an answer for another time, in which a dead node leaves the list; a
// firewall refuses for longer.
func (ns *nodes) answers(address string, limit, refused time.Duration) bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	n := ns.byAddress[address]
	within := func(since time.Time, limit time.Duration) bool { return since.IsZero() || time.Since(since) <= limit }
	return n == nil || within(n.unanswered, limit) && within(n.silent, refused)
}

// unheard returns the addresses of the data nodes whose feeds could not be opened
// for a time, sorted.
func (ns *nodes) unheard(limit time.Duration) (addresses []string) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	for _, a := range slices.Sorted(maps.Keys(ns.byAddress)) {
		if n := ns.byAddress[a]; !n.silent.IsZero() && time.Since(n.silent) > limit {
			addresses = append(addresses, a)
		}
	}
	return addresses
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
		timeout = time.After(time.Until(until))
	}
	select {
	case <-ctx.Done():
		return false
	case <-s.C():
	case <-timeout:
	}
	return true
}

// run starts and ends the loops of data nodes as they come and go, and joins
// all of them when ctx ends.
func (ns *nodes) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		ended, begun := ns.set(ns.wanted())
		for _, n := range ended {
			n.cancel()
		}
		for _, n := range begun {
			own, cancel := context.WithCancel(ctx)
			n.cancel = cancel // called above, or by the end of ctx
			for _, loop := range ns.loops {
				random := ns.rand()
				running.Go(func() { loop(own, n, random) })
			}
		}
		select {
		case <-ctx.Done():
			for _, n := range ns.list() {
				n.cancel()
			}
			return
		case <-ns.changed.C():
		}
	}
}

// wanted returns the addresses of the data nodes to be connected to: the members
// and all slot leaders.
func (ns *nodes) wanted() map[string]bool {
	wanted := with(ns.registry, (*registry.Registry).Leaders)
	for _, m := range ns.view.State().Members.Of(conclave.RoleData) {
		wanted[m.Address] = true
	}
	return wanted
}

// callLimit limits one Write or Fetch. It is longer than the three seconds after
// which the transport drops a silent connection: a call that takes longer is
// dead, and its slots have moved long before.
const callLimit = 4 * time.Second

// receivers are the clients of this session, as the loops of the data nodes know them.
type receivers interface {
	push([]registry.Push)
	stored([]registry.Ack)
	refused(to *registry.Owner, refusal *wirev1.Refusal)
	hidden(r *registry.Registry, by []*wirev1.Hidden)
}

// calls is what the loops of the data nodes share.
type calls struct {
	config   Config
	registry *locked
	clients  receivers
	nodes    *nodes
	data     func(address string) wirev1connect.DataServiceClient
}

// refused records that a node did not serve a slot at an epoch. If it reports a
// newer epoch that it leads at, that is adopted and tried at once; otherwise the
// slot pauses until the pause ends or the routes change.
func (c *calls) refused(n *dataNode, slot int, epoch conclave.Epoch, access wirev1.Access, theirs conclave.Epoch, p *backoff, now time.Time) {
	if access == wirev1.Access_ACCESS_MISMATCH && epoch.Less(theirs) {
		var changed bool
		c.registry.do(func(r *registry.Registry) { changed, _ = r.Adopt(slot, theirs, n.address, now) })
		if changed {
			c.nodes.reroute()
			return
		}
	}
	p.failed(slot, now)
}

// backoff delays retries per slot after a data node refused it: 1, 2, 4 ms and
// so on, up to maxPause, until the routes change. It belongs to one loop.
type backoff struct {
	jitter   func() float64 // returns 0 to 1
	slots    map[int]*pause
	rerouted uint64
}

type pause struct {
	wait  time.Duration
	until time.Time
}

const maxPause = 50 * time.Millisecond

func newBackoff(jitter func() float64) *backoff {
	return &backoff{jitter: jitter, slots: map[int]*pause{}}
}

// reset ends all pauses if the routes have changed since the last call.
func (p *backoff) reset(rerouted uint64) {
	if p.rerouted != rerouted {
		p.rerouted = rerouted
		clear(p.slots)
	}
}

// until returns when the slot may be tried again; zero means now.
func (p *backoff) until(slot int, now time.Time) time.Time {
	if w := p.slots[slot]; w != nil && w.until.After(now) {
		return w.until
	}
	return time.Time{}
}

func (p *backoff) failed(slot int, now time.Time) {
	w := p.slots[slot]
	if w == nil {
		w = &pause{}
		p.slots[slot] = w
	}
	w.wait = sleep.Longer(w.wait, time.Millisecond, maxPause)
	w.until = now.Add(w.wait - time.Duration(p.jitter()*float64(w.wait)/4))
}

func (p *backoff) succeeded(slot int) { delete(p.slots, slot) }

// earlier returns the earlier of two times, of which the zero time means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// rotate makes a sorted list of slots begin after the last one served, so that
// no slot waits for ever behind a busy one.
func rotate(slots []int, after int) []int {
	at, _ := slices.BinarySearch(slots, after+1)
	return append(slots[at:len(slots):len(slots)], slots[:at]...)
}
