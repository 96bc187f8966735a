package trace

import (
	"sync"
)

// Gate is a sink that forwards claims to another one and can hold a node at a
// Point, between a check and the action that follows it: the failpoint of a
// scenario. A held node waits on a condition variable, so that virtual time
// goes on in a bubble.
type Gate struct {
	to Sink

	mu   sync.Mutex // guards the fields below; not held while to is called
	cond sync.Cond
	held map[place]*barrier
	in   map[place]int // number of goroutines that wait
}

// barrier holds a node at one point.
type barrier struct {
	one      bool // only the first goroutine waits, later ones pass
	reached  bool // a goroutine has arrived and waits
	released bool
}

// place is a point of the node with this name, of any incarnation.
type place struct {
	node string
	kind Kind
}

// NewGate returns a gate that forwards every claim to the sink, which may be
// nil.
func NewGate(to Sink) *Gate {
	g := &Gate{to: to, held: map[place]*barrier{}, in: map[place]int{}}
	g.cond.L = &g.mu
	return g
}

// Sink forwards the claim and blocks while its node is held at its kind. A
// driver passes it to every node as Config.Trace.
func (g *Gate) Sink(c Claim) {
	g.to.Claim(c)
	if !c.Kind.Point() {
		return
	}
	at := place{c.Node.Name, c.Kind}
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.held[at]
	if b == nil || b.one && b.reached {
		return
	}
	b.reached = true
	g.in[at]++
	for !b.released {
		g.cond.Wait()
	}
	g.in[at]--
}

// Hold makes every goroutine of the node wait when it reaches the point.
func (g *Gate) Hold(node string, at Kind) { g.hold(node, at, false) }

// HoldOne makes the next goroutine of the node that reaches the point wait and
// lets later ones pass, so that one request of many is overtaken.
func (g *Gate) HoldOne(node string, at Kind) { g.hold(node, at, true) }

func (g *Gate) hold(node string, at Kind, one bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.held[place{node, at}]; b != nil {
		b.one = b.one && one
		return
	}
	g.held[place{node, at}] = &barrier{one: one}
}

// Release ends the hold and wakes the goroutines that wait at the point.
func (g *Gate) Release(node string, at Kind) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.held[place{node, at}]; b != nil {
		b.released = true
		delete(g.held, place{node, at})
	}
	g.cond.Broadcast()
}

// Free releases the node at every point. A driver that kills a node calls it
// after it has cut the node's connections and before it waits for the node to
// end, because a goroutine that is held could not return.
func (g *Gate) Free(node string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p, b := range g.held {
		if p.node == node {
			b.released = true
			delete(g.held, p)
		}
	}
	g.cond.Broadcast()
}

// Held returns the number of goroutines of the node that wait at the point.
func (g *Gate) Held(node string, at Kind) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.in[place{node, at}]
}
