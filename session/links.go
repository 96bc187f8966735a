package session

import (
	"context"
	"math/rand/v2"
	"sync"

	"conclave/session/registry"
)

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
