package trace

import (
	"sync"
)

// Gate stands between the nodes and whoever listens. It can hold a node at a
// Point, between a check and the act that follows it: the failpoint of a
// scenario. A held node waits on a condition variable, so that virtual time
// passes in a bubble.
type Gate struct {
	to Sink

	mu   sync.Mutex // guards the rest; never held while to is called
	cond sync.Cond
	held map[post]*barrier
	in   map[post]int // who waits where
}

// barrier is what a node is held by.
type barrier struct {
	one  bool // only the first to come waits, those behind it pass
	shut bool // somebody waits
	open bool // released
}

// post is a node's name at a kind: whatever incarnation comes by is held.
type post struct {
	node string
	kind Kind
}

// NewGate passes what comes by on to the sink, which may be nil.
func NewGate(to Sink) *Gate {
	g := &Gate{to: to, held: map[post]*barrier{}, in: map[post]int{}}
	g.cond.L = &g.mu
	return g
}

// Sink is what a driver gives to every node's Config.Trace.
func (g *Gate) Sink(c Claim) {
	g.to.Claim(c)
	if !c.Kind.Point() {
		return
	}
	at := post{c.Node.Name, c.Kind}
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.held[at]
	if b == nil || b.one && b.shut {
		return
	}
	b.shut = true
	g.in[at]++
	for !b.open {
		g.cond.Wait()
	}
	g.in[at]--
}

// Hold makes the node wait when it comes to the point, as often as it does.
func (g *Gate) Hold(node string, at Kind) { g.hold(node, at, false) }

// HoldOne makes the node wait when it next comes to the point, and lets pass what
// comes behind: one request of many that is overtaken.
func (g *Gate) HoldOne(node string, at Kind) { g.hold(node, at, true) }

func (g *Gate) hold(node string, at Kind, one bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.held[post{node, at}]; b != nil {
		b.one = b.one && one
		return
	}
	g.held[post{node, at}] = &barrier{one: one}
}

// Release lets it go on.
func (g *Gate) Release(node string, at Kind) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.held[post{node, at}]; b != nil {
		b.open = true
		delete(g.held, post{node, at})
	}
	g.cond.Broadcast()
}

// Free releases the node everywhere. A driver that kills a node calls it after
// the node was cut off and before it waits for the node's end: the goroutine
// that was held must be able to return, and finds nobody to talk to.
func (g *Gate) Free(node string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p, b := range g.held {
		if p.node == node {
			b.open = true
			delete(g.held, p)
		}
	}
	g.cond.Broadcast()
}

// Held says how many goroutines of the node wait at the point now.
func (g *Gate) Held(node string, at Kind) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.in[post{node, at}]
}
