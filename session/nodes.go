package session

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"conclave/internal/signal"
)

// nodes holds the data nodes that this session is connected to: every one on
// the member list, and every one that leads a slot. Each has three loops of its
// own, a writer, a reader and a feed, so that a slow node delays no other.
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
}

func newNodes() *nodes {
	return &nodes{byAddress: map[string]*dataNode{}, changed: signal.New()}
}

func (ns *nodes) list() []*dataNode {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	out := make([]*dataNode, 0, len(ns.byAddress))
	for _, a := range sortedKeys(ns.byAddress) {
		out = append(out, ns.byAddress[a])
	}
	return out
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

// runNodes starts and ends the loops of data nodes as they come and go, and
// joins all of them when ctx ends.
func (s *Server) runNodes(ctx context.Context) {
	var loops sync.WaitGroup
	defer loops.Wait()
	for {
		wanted := s.fences.addresses()
		for _, a := range s.dataAddresses() {
			wanted[a] = true
		}
		s.nodes.mu.Lock()
		var ended, begun []*dataNode
		for _, a := range sortedKeys(s.nodes.byAddress) {
			if !wanted[a] {
				ended = append(ended, s.nodes.byAddress[a])
				delete(s.nodes.byAddress, a)
			}
		}
		for _, a := range sortedKeys(wanted) {
			if s.nodes.byAddress[a] == nil {
				n := &dataNode{address: a, writes: signal.New(), reads: signal.New(), open: make(chan struct{})}
				s.nodes.byAddress[a] = n
				begun = append(begun, n)
			}
		}
		s.nodes.mu.Unlock()
		for _, n := range ended {
			n.cancel()
		}
		for _, n := range begun {
			own, cancel := context.WithCancel(ctx)
			n.cancel = cancel // called above, or by the end of ctx
			writer, reader, feed := s.NewRand(), s.NewRand(), s.NewRand()
			loops.Go(func() { s.runWriter(own, n, writer) })
			loops.Go(func() { s.runReader(own, n, reader) })
			loops.Go(func() { s.runFeed(own, n, feed) })
		}
		select {
		case <-ctx.Done():
			for _, n := range s.nodes.list() {
				n.cancel()
			}
			return
		case <-s.nodes.changed.C():
		}
	}
}

// waitFeeds waits until the feed of every known data node has delivered a
// message, or until ctx ends.
func (s *Server) waitFeeds(ctx context.Context) {
	for _, n := range s.nodes.list() {
		select {
		case <-n.open:
		case <-ctx.Done():
			return
		}
	}
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
	w.wait = min(max(2*w.wait, time.Millisecond), maxPause)
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

// rotate makes a sorted list of slots begin after the last one served, so that
// no slot waits for ever behind a busy one.
func rotate(slots []int, after int) []int {
	at, _ := slices.BinarySearch(slots, after+1)
	return append(slots[at:len(slots):len(slots)], slots[:at]...)
}
