package session

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// nodes are the data nodes that this session talks to: every one on the member
// list, and every one that leads a slot. Each has three loops of its own, so
// that a slow node holds up nobody else: a writer, a reader, and a feed.
type nodes struct {
	mu        sync.Mutex // guards byAddress
	byAddress map[string]*node

	changed  chan struct{} // one token: the set of addresses may have changed
	rerouted atomic.Uint64 // counts the changes of routes: pauses end at each
}

// node is one data node, by its address: whichever incarnation answers there.
type node struct {
	address string
	writes  chan struct{} // one token: something may be queued for it
	reads   chan struct{} // one token: something may be due for reading
	open    chan struct{} // closed when its feed was heard for the first time
	cancel  context.CancelFunc
}

func newNodes() *nodes {
	return &nodes{byAddress: map[string]*node{}, changed: make(chan struct{}, 1)}
}

// wake puts the one token of a channel.
func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (ns *nodes) list() []*node {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	out := make([]*node, 0, len(ns.byAddress))
	for _, a := range sortedKeys(ns.byAddress) {
		out = append(out, ns.byAddress[a])
	}
	return out
}

func (ns *nodes) wakeWriters() {
	for _, n := range ns.list() {
		wake(n.writes)
	}
}

func (ns *nodes) wakeReaders() {
	for _, n := range ns.list() {
		wake(n.reads)
	}
}

// reroute tells all loops that a slot is led elsewhere, or at another epoch.
func (ns *nodes) reroute() {
	ns.rerouted.Add(1)
	wake(ns.changed)
	ns.wakeWriters()
	ns.wakeReaders()
}

// runNodes starts and ends the loops of data nodes as they come and go, and
// joins all of them at its end.
func (s *Server) runNodes(ctx context.Context) {
	var loops sync.WaitGroup
	defer loops.Wait()
	for {
		wanted := s.fences.addresses()
		for _, a := range s.dataAddresses() {
			wanted[a] = true
		}
		s.nodes.mu.Lock()
		var ended, begun []*node
		for _, a := range sortedKeys(s.nodes.byAddress) {
			if !wanted[a] {
				ended = append(ended, s.nodes.byAddress[a])
				delete(s.nodes.byAddress, a)
			}
		}
		for _, a := range sortedKeys(wanted) {
			if s.nodes.byAddress[a] == nil {
				n := &node{address: a, writes: make(chan struct{}, 1), reads: make(chan struct{}, 1), open: make(chan struct{})}
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
			writer, reader, feed := s.stream(), s.stream(), s.stream()
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
		case <-s.nodes.changed:
		}
	}
}

// waitFeeds waits until every data node known was heard, or until ctx ends.
func (s *Server) waitFeeds(ctx context.Context) {
	for _, n := range s.nodes.list() {
		select {
		case <-n.open:
		case <-ctx.Done():
			return
		}
	}
}

// patience holds back what a data node refused: 1, 2, 4.. ms up to maxPause per
// slot, until the routes change. It belongs to one loop.
type patience struct {
	jitter   func() float64 // 0..1
	slots    map[int]*pause
	rerouted uint64
}

type pause struct {
	wait  time.Duration
	until time.Time
}

const maxPause = 50 * time.Millisecond

func newPatience(jitter func() float64) *patience {
	return &patience{jitter: jitter, slots: map[int]*pause{}}
}

// renew ends all pauses when the routes changed since the last call.
func (p *patience) renew(rerouted uint64) {
	if p.rerouted != rerouted {
		p.rerouted = rerouted
		clear(p.slots)
	}
}

// until is when the slot may be tried again; zero: now.
func (p *patience) until(slot int, now time.Time) time.Time {
	if w := p.slots[slot]; w != nil && w.until.After(now) {
		return w.until
	}
	return time.Time{}
}

func (p *patience) failed(slot int, now time.Time) {
	w := p.slots[slot]
	if w == nil {
		w = &pause{}
		p.slots[slot] = w
	}
	w.wait = min(max(2*w.wait, time.Millisecond), maxPause)
	w.until = now.Add(w.wait - time.Duration(p.jitter()*float64(w.wait)/4))
}

func (p *patience) succeeded(slot int) { delete(p.slots, slot) }

// earlier is the earlier of two moments, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// rest waits for a token, for a moment (zero: none), or for the end of ctx,
// which it reports as false.
func rest(ctx context.Context, token <-chan struct{}, until time.Time) bool {
	var ring <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		ring = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-token:
	case <-ring:
	}
	return true
}

// rotate lets a sorted list of slots begin after the last one served, so that
// no slot waits for ever behind a busy one.
func rotate(slots []int, after int) []int {
	at, _ := slices.BinarySearch(slots, after+1)
	return append(slots[at:len(slots):len(slots)], slots[:at]...)
}
